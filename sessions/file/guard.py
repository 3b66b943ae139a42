"""Opens a session file that nobody vouches for, and leaves it as it was.

It is looked at in this order: is it a plain file, has it the marks of a session of a known version,
does it hold exactly the tables of that version, is every page and every value as the schema says.
Every refusal is one SessionError that names the file and says what to do.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import stat
import tempfile
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

from sessions.file import migrate
from sessions.file.format import APPLICATION_ID, VERSION, SessionError, one_line, require_sqlite
from sessions.file.live import is_being_written, reading
from sessions.file.readonly import check_objects, check_values, connect, damaged
from sessions.file.recovery import leftovers, settled_copy, told_of

_MAGIC = b"SQLite format 3\x00"
_HEADER = 100
_LARGEST = 64 << 30
_OTHER_FILES = (
    (b"\x80", "a Python pickle, which is never opened because it could run code"),
    (b"PK\x03\x04", "a zip archive (torch.save writes those), which is never opened"),
    (b"\x1f\x8b", "a compressed file: decompress it first"),
    (b"{", "JSON, perhaps an export: open the .llmi file that it came from"),
)
# What reading rows that break the schema's promises raises, here or in the records.
_MEANS_DAMAGE = (
    sqlite3.Error,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AttributeError,
    RecursionError,
)


class Guarded:
    """A checked session file, open for reading. Reads from several threads take turns."""

    def __init__(
        self, path: Path, source: Path, version: int, *, thorough: bool, told: str = ""
    ) -> None:
        """Open ``source``: ``path`` itself, or what was made of it. Raises SessionError."""
        self.path = path
        self.told = told
        """A note on what was recovered; empty where nothing had to be."""
        self.version = version
        """The schema version of the file itself; what is read has been brought up to date."""
        self._lock = threading.RLock()
        self._database: sqlite3.Connection | None = None
        try:
            self._database, self._clock = connect(source)
            with self.reading() as database:
                check_objects(database, path)
                if thorough:
                    check_values(database, path)
        except sqlite3.Error as error:
            raise damaged(path, error) from None
        except BaseException:
            self.close()
            raise

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The database for one read; whatever goes wrong in it is a SessionError."""
        with self._lock:
            if self._database is None:
                raise SessionError(f"{self.path} is closed: open it again")
            self._clock.restart()
            try:
                yield self._database
            except _MEANS_DAMAGE as error:
                raise damaged(self.path, error) from error
            except MemoryError:
                raise SessionError(f"{self.path} does not fit into memory") from None

    def close(self) -> None:
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None


def open_guarded(path: Path, *, thorough: bool = True) -> Guarded:
    """Check ``path`` and open it for reading. Raises SessionError.

    Without ``thorough`` its values are not checked, which is enough for a look at its first rows.

    A file of an older version, and one that still has its log or journal beside it (it is being
    written, or a crash left it so), is read from a copy in a temporary folder, which goes with the
    result.
    """
    require_sqlite()
    version = check_header(path)
    unsettled = bool(leftovers(path)) or is_being_written(path)
    told = told_of(path)
    if version == VERSION and not unsettled:
        return Guarded(path, path, version, thorough=thorough, told=told)
    folder = Path(tempfile.mkdtemp(prefix="llm-inspect-"))
    try:
        source = path
        if unsettled:
            source = settled_copy(path, folder)
            version = check_header(source, named=path)
        if version < VERSION:
            source = migrate.to_current(source, version, folder, path)
        guarded = Guarded(path, source, version, thorough=thorough, told=told)
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, _MEANS_DAMAGE):
            raise damaged(path, error) from None
        if isinstance(error, OSError):
            raise SessionError(f"{path} cannot be copied to {folder}: {error.strerror}") from None
        raise
    weakref.finalize(guarded, shutil.rmtree, folder, ignore_errors=True)
    return guarded


def check_header(path: Path, *, named: Path | None = None) -> int:
    """The schema version that the file claims, after a look at its first bytes.

    ``named`` is what messages call it. Raises SessionError for what is no session, or a newer one.
    """
    name = named or path
    try:
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            raise SessionError(f"{name} is a folder: give a session file in it")
        if not stat.S_ISREG(found.st_mode):
            raise SessionError(f"{name} is not a plain file: give a session file")
        with reading(path) as file:
            head = os.pread(file, _HEADER, 0)
    except FileNotFoundError:
        raise SessionError(f"there is no file {name}: see `llm-inspect sessions list`") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or one_line(error)
        raise SessionError(f"{name} cannot be read: {reason}") from None
    if not head:
        raise SessionError(f"{name} is empty: nothing was saved in it")
    if not head.startswith(_MAGIC):
        raise SessionError(f"{name} is not a session: it is {_what(head)}")
    if len(head) < _HEADER:
        raise damaged(name, f"cut off after {len(head)} bytes")
    _check_marks(name, head)
    _check_size(name, head, found.st_size, logged=bool(leftovers(path)))
    return int.from_bytes(head[60:64], signed=True)


def _check_marks(name: Path, head: bytes) -> None:
    if int.from_bytes(head[68:72]) != APPLICATION_ID:
        raise SessionError(f"{name} is an SQLite database, but not a session of llm-inspect")
    version = int.from_bytes(head[60:64], signed=True)
    if version > VERSION:
        raise SessionError(
            f"{name} was written by a newer llm-inspect (session schema {version}; this one reads "
            f"up to {VERSION}): upgrade llm-inspect"
        )
    if version < 0:
        raise damaged(name, f"schema {version}")


def _check_size(name: Path, head: bytes, size: int, *, logged: bool) -> None:
    if size > _LARGEST:
        raise SessionError(f"{name} is larger than any session ({size:,} bytes)")
    page = int.from_bytes(head[16:18])
    expected = int.from_bytes(head[28:32]) * (65536 if page == 1 else page)
    # The header's count holds only where the last writer kept it; the log may hold the rest.
    if not logged and head[24:28] == head[92:96] and size < expected:
        raise damaged(name, f"cut off: {size:,} bytes of {expected:,}")


def _what(head: bytes) -> str:
    for magic, words in _OTHER_FILES:
        if head.startswith(magic):
            return words
    return "something else"
