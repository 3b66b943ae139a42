"""The session file format: its marks, its schema, and the one error that everything here raises."""

from __future__ import annotations

import functools
import sqlite3
from contextlib import closing
from pathlib import Path

APPLICATION_ID = int.from_bytes(b"LLMI")
VERSION = 1
"""Schema version, kept in ``PRAGMA user_version``."""
SUFFIX = ".llmi"
STAGES_A_STEP = 128
ROWS_A_STEP = 4096
"""Factors of the packed keys ``node * 128 + stage`` and ``node * 4096 + row``."""

SchemaObjects = frozenset[tuple[str, str, str, str | None]]
"""Rows of a file's ``sqlite_schema``: (type, name, table, SQL) of each object."""

_SCHEMAS = {0: "schema_0.sql", VERSION: "schema.sql"}
_SQLITE_NEEDED = (3, 37, 0)


class SessionError(RuntimeError):
    """A session that cannot be written or read: one line, what is wrong and what to do."""


def require_sqlite() -> None:
    """Raise SessionError where the SQLite library is too old for the schema."""
    if sqlite3.sqlite_version_info < _SQLITE_NEEDED:
        needed = ".".join(str(part) for part in _SQLITE_NEEDED)
        raise SessionError(
            f"sessions need SQLite {needed} or newer, and this Python has "
            f"{sqlite3.sqlite_version}: use another Python to save and replay"
        )


@functools.cache
def blank(version: int = VERSION) -> bytes:
    """A session file of that schema version without content, as bytes."""
    with closing(blank_database(version)) as database:
        return database.serialize()


@functools.cache
def objects(version: int = VERSION) -> SchemaObjects:
    """Tables and indices that the schema of that version defines."""
    with closing(blank_database(version)) as database:
        return frozenset(database.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema"))


def blank_database(version: int) -> sqlite3.Connection:
    """An empty database of that schema version, in memory."""
    require_sqlite()
    schema = Path(__file__).with_name(_SCHEMAS[version]).read_text("utf-8")
    database = sqlite3.connect(":memory:", isolation_level=None)
    database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    database.execute(f"PRAGMA user_version = {version}")
    database.executescript(schema)
    return database


def sidecars(path: Path) -> list[Path]:
    """The files that SQLite may keep beside ``path`` while it is written, or after a crash."""
    return [path.with_name(path.name + end) for end in ("-wal", "-shm", "-journal")]


def one_line(error: BaseException) -> str:
    """An exception's message on one line, never empty."""
    return " ".join(str(error).split()) or type(error).__name__
