"""Brings the file of an older schema version up to the current one, into a new file.

A change of the schema comes with: the old schema kept as ``schema_N.sql``, one function here that
reads a version N and writes a version N + 1, and its test. The original is only ever read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

from sessions.file.format import VERSION, SessionError, blank
from sessions.file.readonly import check_objects, check_values, connect

Migration = Callable[[sqlite3.Connection, sqlite3.Connection], None]


def to_current(old: Path, version: int, folder: Path, named: Path) -> Path:
    """A new file in ``folder`` with the content of ``old``, which has that older version.

    ``old`` is checked first, as any file is; messages call it ``named``. Raises SessionError and
    sqlite3.Error.
    """
    while version < VERSION:
        migration = _MIGRATIONS.get(version)
        if migration is None:
            raise SessionError(f"{named} has schema {version}, which no llm-inspect ever wrote")
        new = folder / f"version-{version + 1}.llmi"
        new.write_bytes(blank(version + 1))
        source, _ = connect(old)
        with closing(source), closing(sqlite3.connect(new, isolation_level=None)) as target:
            check_objects(source, named, version)
            check_values(source, named, version)
            target.execute("BEGIN")
            migration(source, target)
            target.execute("COMMIT")
        old, version = new, version + 1
    return old


def _copy(
    old: sqlite3.Connection,
    new: sqlite3.Connection,
    table: str,
    changed: Mapping[str, str] | None = None,
) -> None:
    """Copy a table's rows. ``changed`` gives, by the new column's name, how to make it of old ones.

    A new column without a value in the old file is left at its default.
    """
    made = dict(changed or {})
    known = {str(row[1]) for row in old.execute(f"PRAGMA table_info({table})")}
    wanted = [str(row[1]) for row in new.execute(f"PRAGMA table_info({table})")]
    columns = {name: made.get(name, name) for name in wanted if name in known or name in made}
    rows = old.execute(f"SELECT {', '.join(columns.values())} FROM {table}")
    marks = ", ".join("?" * len(columns))
    new.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", rows)


def _from_0(old: sqlite3.Connection, new: sqlite3.Connection) -> None:
    """Times were seconds, prompts had no notes, and there was one preset."""
    phases = ("forward", "sample", "detokenize", "other", "total")
    _copy(old, new, "prompt", {"tokenize_ms": "tokenize_s * 1000.0", "notes": "'[]'"})
    times = {f"{phase}_ms": f"{phase}_s * 1000.0" for phase in phases}
    _copy(old, new, "step", {**times, "reread": "0"})
    _copy(old, new, "chain", {"preset": "'guide'"})
    for table in ("session", "token", "prompt_token", "chain_stage"):
        _copy(old, new, table)
    for table in ("stage_result", "candidate", "logits", "event"):
        _copy(old, new, table)


_MIGRATIONS: dict[int, Migration] = {0: _from_0}
