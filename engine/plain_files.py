"""Reading files that strangers made: regular files only, never more than a limit, never waiting.

A FIFO in the place of a file would be waited for without end, a device gives bytes without end,
and a sparse file of a few kilobytes can be many gigabytes long.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


class NotPlain(OSError):
    """No regular file, or one that is too large; the message says which, without the name."""


def check_plain(path: Path, limit: int | None = None) -> int:
    """The size of a file in bytes, links followed. Raises NotPlain, or OSError without one."""
    return _checked(os.stat(path), limit)


def _checked(found: os.stat_result, limit: int | None) -> int:
    if not stat.S_ISREG(found.st_mode):
        raise NotPlain(f"it is {_KINDS.get(stat.S_IFMT(found.st_mode), 'no file')}, not a file")
    if limit is not None and found.st_size > limit:
        raise NotPlain(f"it has {found.st_size:,} bytes, and {limit:,} is the most that is read")
    return found.st_size


def read_plain(path: Path, limit: int) -> bytes:
    """All of a regular file of at most ``limit`` bytes. Raises NotPlain and OSError."""
    # A pipe without a writer is opened at once with O_NONBLOCK, and refused after.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        _checked(os.fstat(handle), limit)
        with os.fdopen(handle, "rb", closefd=False) as file:
            data = file.read(limit + 1)
    finally:
        os.close(handle)
    if len(data) > limit:
        raise NotPlain(f"it grew beyond {limit:,} bytes while it was read")
    return data


def read_text(path: Path, limit: int) -> str:
    """Read a plain file as UTF-8. Raises NotPlain, OSError and ValueError."""
    try:
        return read_plain(path, limit).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start:,} is not UTF-8") from None


def read_json(path: Path, limit: int) -> Any:
    """The value in a JSON file. Raises NotPlain, OSError, and ValueError for what is no JSON."""
    return parse_json(read_text(path, limit))


def parse_json(text: str | bytes) -> Any:
    """The value that JSON text stands for. Raises ValueError, for what is nested too deeply too."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


@contextmanager
def replacing(path: Path) -> Iterator[TextIO]:
    """A UTF-8 file that takes the place of ``path`` once the block has ended without an error.

    Whoever reads ``path`` meanwhile sees the old file, whole. Raises OSError.
    """
    handle, hidden = tempfile.mkstemp(prefix=".", suffix=".new", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            yield file
        os.replace(hidden, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(hidden)
        raise


def reason(error: Exception) -> str:
    """The error of a file in words, without its name."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
