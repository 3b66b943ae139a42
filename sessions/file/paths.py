"""Taking a name for a session, and moving one: whole or not at all, and never over another file.

A file is made complete under a hidden name, which is locked while it is worked on, and then gets
its name in one act. What a kill leaves of that is a hidden file that nobody holds a lock on:
``clean`` removes it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from sessions.file.format import APPLICATION_ID, SUFFIX, SessionError, blank, one_line, sidecars
from sessions.file.live import is_being_written
from sessions.file.recovery import copy_file, leftovers

_HIDDEN = f"{SUFFIX}.new"
_NO_HARD_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK}


class NameTakenError(SessionError):
    """Somebody else has the name."""


def is_taken(path: Path) -> bool:
    """True if the name has a file, or an earlier one left there what SQLite would work into it."""
    return os.path.lexists(path) or bool(leftovers(path))


def create(path: Path, *, overwrite: bool) -> None:
    """Put a blank session at ``path``, whole or not at all. Raises SessionError."""
    if path.exists() and not path.is_file():
        # A device must never be replaced by a file of its name.
        raise SessionError(f"{path} is no plain file: give another name")
    if overwrite and is_being_written(path):
        raise SessionError(f"{path} is being written: choose another name")
    if not overwrite and is_taken(path):
        raise NameTakenError(_taken(path))
    clean(path.parent)
    try:
        with _hidden_beside(path) as (hidden, file):
            os.write(file, _to_be_written(blank()))
            os.fsync(file)
            if overwrite:
                remove_sidecars(path)
            _name(hidden, path, overwrite=overwrite)
    except (FileNotFoundError, NotADirectoryError):
        raise SessionError(f"there is no folder {path.parent}: make it first") from None
    except (OSError, ValueError) as error:
        raise SessionError(f"{path} cannot be made: {reason(error)}") from None


def move(source: Path, target: Path, *, overwrite: bool = False) -> None:
    """Give a file another name, also on another file system. Raises SessionError and OSError.

    A kill at any moment leaves the whole file under its old name, its new one, or both.
    """
    if target.exists() and not target.is_file():
        raise NameTakenError(_taken(target))
    try:
        _name(source, target, overwrite=overwrite)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        copy(source, target, overwrite=overwrite)
        source.unlink()


def copy(source: Path, target: Path, *, overwrite: bool = False) -> None:
    """Copy a file to a name, whole or not at all. Raises SessionError and OSError."""
    clean(target.parent)
    with _hidden_beside(target) as (hidden, file):
        copy_file(source, hidden)
        os.fsync(file)
        os.utime(hidden, ns=(source.stat().st_atime_ns, source.stat().st_mtime_ns))
        _name(hidden, target, overwrite=overwrite)


def remove_sidecars(path: Path) -> None:
    """Remove what an earlier file of this name left: SQLite would work it into the next one."""
    for sidecar in sidecars(path):
        sidecar.unlink(missing_ok=True)


def clean(folder: Path) -> None:
    """Remove the hidden files in ``folder`` that killed programs of ours left; nothing else."""
    for path in folder.glob(f".*{_HIDDEN}"):
        with contextlib.suppress(OSError):
            file = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                if _is_ours(file):
                    # Who holds the lock is still at it; without locks nothing is certain.
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    path.unlink()
            finally:
                os.close(file)


def _is_ours(file: int) -> bool:
    """True if it is a plain file of this user's that holds a session, or the beginning of one."""
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
        return False
    head = os.pread(file, 100, 0)
    if len(head) < 100:
        return _to_be_written(blank()).startswith(head)
    return head[:16] == blank()[:16] and head[68:72] == APPLICATION_ID.to_bytes(4)


@contextlib.contextmanager
def _hidden_beside(path: Path) -> Iterator[tuple[Path, int]]:
    """A hidden file of ours in the folder of ``path``, locked, which goes when it got no name."""
    while True:
        file, name = tempfile.mkstemp(prefix=".", suffix=_HIDDEN, dir=path.parent)
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file).st_nlink:
            break
        # Another program took it for litter in the moment before it was locked.
        os.close(file)
    hidden = Path(name)
    try:
        yield hidden, file
    finally:
        hidden.unlink(missing_ok=True)
        os.close(file)


def _name(file: Path, path: Path, *, overwrite: bool) -> None:
    """Give ``file`` the name ``path``. Raises NameTakenError and OSError."""
    if overwrite:
        os.replace(file, path)
        return
    try:
        # Unlike a rename this never replaces what got the name a moment ago.
        os.link(file, path)
    except FileExistsError:
        raise NameTakenError(_taken(path)) from None
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        _name_without_links(file, path)
    else:
        os.unlink(file)


def _name_without_links(file: Path, path: Path) -> None:
    """The same on FAT and its like, where a kill in between leaves an empty file of that name."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        raise NameTakenError(_taken(path)) from None
    os.replace(file, path)


def _taken(path: Path) -> str:
    if os.path.lexists(path):
        return f"{path} is there already: choose another name"
    return f"{path} has a log of an earlier run beside it: choose another name"


def _to_be_written(content: bytes) -> bytes:
    """A session file that SQLite writes through a log from the start.

    Changing over later takes a rollback journal, which a kill could leave behind.
    """
    return content[:18] + b"\x02\x02" + content[20:]


def reason(error: BaseException) -> str:
    """The error of a file and what to do, in a few words."""
    text = one_line(error)
    match getattr(error, "sqlite_errorname", ""):
        case "SQLITE_FULL":
            return "the disk is full: free some space"
        case "SQLITE_READONLY" | "SQLITE_CANTOPEN" | "SQLITE_PERM" | "SQLITE_READONLY_DBMOVED":
            return "it cannot be written any more: see who owns the file and its folder"
        case "SQLITE_BUSY" | "SQLITE_LOCKED":
            return "another program has locked it: close that one"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return text
