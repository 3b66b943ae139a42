"""Reads what a crash, or a writer that goes on, has left beside a session: on a private copy.

SQLite would work a log or a journal into the file itself, and a journal can make it delete a file
that it names. So file, log and journal are copied under a name of our own, and only the copy is
ever opened for writing.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from sessions.file.format import SessionError
from sessions.file.live import is_being_written, log_of, reading

_COPY_TRIES = 5
_CHUNK = 1 << 20
_LARGEST_LEFTOVER = 1 << 30
"""Bytes of a log or a journal: a writer here lets neither grow beyond some megabytes."""
_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Files beside a session that hold more than it, or something else."""

    log: Path | None = None
    """The write-ahead log, where it holds something."""
    journal: Path | None = None
    """The rollback journal of a change that was not finished."""
    names_another: bool = False
    """The journal names another file, which SQLite would delete: it is never used."""

    def __bool__(self) -> bool:
        return bool(self.log or (self.journal and not self.names_another))

    @property
    def told(self) -> str:
        words = []
        if self.log:
            words.append(
                "the end of the run was read from the log that an interrupted program left"
            )
        if self.journal and self.names_another:
            words.append("the journal beside the file names another file, and was not used")
        elif self.journal:
            words.append("a change that an interrupted program had begun was taken back")
        return f"{'; '.join(words)}; the files are as they were" if words else ""


def leftovers(path: Path) -> Leftovers:
    """Look for what is beside ``path``. Raises SessionError for what is too large to be read."""
    log, journal = log_of(path), path.with_name(path.name + "-journal")
    there = [one for one in (log, journal) if _size(one)]
    for one in there:
        if _size(one) > _LARGEST_LEFTOVER:
            raise SessionError(f"{one} is larger than any session's ({_size(one):,} bytes)")
    head = tail = b""
    if journal in there:
        with contextlib.suppress(OSError), reading(journal) as file:
            head, tail = os.pread(file, 8, 0), os.pread(file, 8, max(0, _size(journal) - 8))
    return Leftovers(
        log if log in there else None,
        # One whose first bytes are blank is a journal that was done with.
        journal if head == _JOURNAL_MAGIC else None,
        tail == _JOURNAL_MAGIC,
    )


def settled_copy(path: Path, folder: Path) -> Path:
    """A copy of ``path`` in ``folder`` into which what lies beside it has been worked.

    Raises SessionError, OSError and sqlite3.Error.
    """
    copy = folder / "copy.llmi"
    for _ in range(_COPY_TRIES):
        before = _state(path)
        beside = leftovers(path)
        copy_file(path, copy)
        if beside.log:
            copy_file(beside.log, log_of(copy))
        if beside.journal and not beside.names_another:
            copy_file(beside.journal, copy.with_name(copy.name + "-journal"))
        # A writer that moved its log into the file meanwhile would leave a mixture here.
        if _state(path) == before:
            break
    else:
        raise SessionError(f"{path} is being written too fast to be copied: try again")
    with contextlib.closing(sqlite3.connect(copy, isolation_level=None)) as database:
        database.execute("PRAGMA trusted_schema = OFF")
        database.execute("PRAGMA cell_size_check = ON")
        database.execute("PRAGMA journal_mode = DELETE")
    return copy


def told_of(path: Path) -> str:
    """A note for a reader of ``path`` on files beside it; nothing while it grows."""
    return "" if is_being_written(path) else leftovers(path).told


def copy_file(source: Path, target: Path) -> None:
    """Copy a file, its holes as holes. Raises OSError, also where there is no room."""
    with reading(source) as file, target.open("wb") as copy:
        size = os.fstat(file).st_size
        if os.fstat(file).st_blocks * 512 > shutil.disk_usage(target.parent).free:
            raise OSError(28, "the disk is full")
        at = 0
        while at < size:
            try:
                at = os.lseek(file, at, os.SEEK_DATA)
            except OSError:
                break
            data = os.pread(file, _CHUNK, at)
            if not data:
                break
            copy.seek(at)
            copy.write(data)
            at += len(data)
        copy.truncate(size)


def _size(path: Path) -> int:
    """The size of a plain file; 0 for all else."""
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:
        return 0


def _state(path: Path) -> tuple[object, ...]:
    """Fingerprint that changes when the main file does, or when its log begins anew."""
    found, log = path.stat(), log_of(path)
    head = b""
    if _size(log):
        with contextlib.suppress(OSError), reading(log) as file:
            head = os.pread(file, 32, 0)
    return found.st_mtime_ns, found.st_size, head
