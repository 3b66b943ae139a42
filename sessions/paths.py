"""Taking a name for a new session, and saying why something cannot be written."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from sessions.format import SUFFIX, SessionError, blank, one_line, sidecars


def create(path: Path, *, overwrite: bool) -> None:
    """Put a blank session at ``path``, whole or not at all."""
    if path.exists() and not path.is_file():
        # A device must never be replaced by a file of its name.
        raise SessionError(f"{path} is no plain file: give another name")
    content = blank()
    hidden = ""
    try:
        if not overwrite:
            reserve(path)
        handle, hidden = tempfile.mkstemp(prefix=".", suffix=f"{SUFFIX}.new", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # SQLite would replay what an earlier file of this name left beside it.
        for sidecar in sidecars(path):
            sidecar.unlink(missing_ok=True)
        os.replace(hidden, path)
    except OSError as error:
        if hidden:
            Path(hidden).unlink(missing_ok=True)
        if not overwrite:
            remove_if_empty(path)
        raise SessionError(f"{path} cannot be made: {reason(error)}") from None


def reserve(path: Path) -> None:
    """Make an empty file of a name that nobody has, or raise SessionError."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        raise SessionError(f"{path} is there already: choose another name") from None
    except (FileNotFoundError, NotADirectoryError):
        raise SessionError(f"there is no folder {path.parent}: make it first") from None
    except (OSError, ValueError) as error:
        raise SessionError(f"{path} cannot be made: {reason(error)}") from None


def remove_if_empty(path: Path) -> None:
    """Give a reserved name back that nothing was written to."""
    with contextlib.suppress(OSError):
        if path.stat().st_size == 0:
            path.unlink()


def reason(error: BaseException) -> str:
    """What went wrong and what to do, in a few words."""
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
