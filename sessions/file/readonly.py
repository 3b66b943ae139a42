"""A connection to an SQLite file that nobody vouches for: reads only, trusts nothing in it."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from sessions.file.format import VERSION, SessionError, objects, one_line
from sessions.file.promises import promises

CHECK_SECONDS = 60.0
"""Seconds that one look at a file may take before it is given up."""

_LIMITS = {
    # The largest value: a vector of a million float32, or a prompt of millions of characters.
    sqlite3.SQLITE_LIMIT_LENGTH: 64 << 20,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 1 << 20,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
}
_PRAGMAS = ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON", "mmap_size = 0")
_INSTRUCTIONS = 100_000
"""Instructions of SQLite's machine between two looks at the clock."""

UNCHECKED = "logits"
"""The one table not checked as a whole: it may be gigabytes. Each row is checked when read."""


class Clock:
    """BreakpointChecker a read that takes too long, as a file made to never end would."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._deadline = 0.0
        database.set_progress_handler(self._late, _INSTRUCTIONS)

    def restart(self) -> None:
        """A new read begins."""
        self._deadline = time.monotonic() + CHECK_SECONDS

    def _late(self) -> int:
        return time.monotonic() > self._deadline


def connect(path: Path) -> tuple[sqlite3.Connection, Clock]:
    """Open ``path`` without locking it, writing to it, or making a file beside it.

    Raises sqlite3.Error.
    """
    uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    database = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
    for limit, value in _LIMITS.items():
        database.setlimit(limit, value)
    clock = Clock(database)
    clock.restart()
    for pragma in _PRAGMAS:
        database.execute(f"PRAGMA {pragma}")
    return database, clock


def check_objects(database: sqlite3.Connection, path: Path, version: int = VERSION) -> None:
    """Raise SessionError unless the file defines exactly what that schema does."""
    expected = objects(version)
    found = frozenset(database.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema"))
    if found != expected:
        names = sorted({str(one[1]) for one in found ^ expected})
        raise damaged(path, f"its tables are not a session's: {', '.join(names[:3])}")


def check_values(database: sqlite3.Connection, path: Path, version: int = VERSION) -> None:
    """Raise SessionError unless every page is whole and every value fits the schema."""
    for kind, name, _, _ in sorted(objects(version), key=str):
        if kind != "table" or name == UNCHECKED:
            continue
        # Pages, and every value against its column's type.
        answer = database.execute(f"PRAGMA quick_check({name})").fetchone()
        if answer != ("ok",):
            raise damaged(path, str(answer[0]) if answer else f"{name} cannot be checked")
    for name, condition in promises(version).items():
        query = f"SELECT * FROM {name} WHERE ({condition}) IS NOT TRUE LIMIT 1"
        found = database.execute(query)
        row = found.fetchone()
        if row is not None:
            (column, *_), value = found.description[0], row[0]
            raise damaged(path, f"a value in {name} is out of range, where {column} is {value!r}")


def damaged(path: Path, why: object) -> SessionError:
    """The error for a file whose content is not what its schema says."""
    reason = one_line(why) if isinstance(why, BaseException) else " ".join(str(why).split())
    return SessionError(f"{path} is damaged ({reason[:160]}): use a backup copy")
