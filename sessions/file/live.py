"""Find sessions that are being written, without opening a database or leaving a trace.

SQLite keeps a log beside a file that is written, and never locks that log: a writer here holds an
advisory lock on it, which the system takes away when the process ends, however it ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

_LOCK_TRIES = 50
_LOCK_WAIT_S = 0.02

_own: dict[tuple[int, int], int] = {}
"""(device, inode) of every session that this process writes -> a descriptor to read it with."""
_turn = threading.RLock()


def log_of(path: Path) -> Path:
    """The write-ahead log that SQLite keeps beside a session that is being written."""
    return path.with_name(path.name + "-wal")


class Writing:
    """The mark that this process writes a session, whose log is there already.

    ``end`` it after the database is closed: closing any descriptor of a file takes away the locks
    that SQLite has on it (POSIX), and with them the reason why others leave its log alone.
    """

    def __init__(self, path: Path) -> None:
        """Raises OSError."""
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._log = os.open(log_of(path), os.O_RDWR | os.O_CLOEXEC)
        found = os.fstat(self._file)
        self._key = found.st_dev, found.st_ino
        _lock(self._log)
        with _turn:
            _own[self._key] = self._file

    def end(self) -> None:
        with _turn:
            _own.pop(self._key, None)
            os.close(self._file)
            os.close(self._log)


def _lock(log: int) -> None:
    """Lock the log; who only asks holds it for a moment. Some file systems have no locks."""
    for _ in range(_LOCK_TRIES):
        try:
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_LOCK_WAIT_S)
        except OSError:
            return
        else:
            return


def is_being_written(path: Path) -> bool:
    """True if a program has the session open to write it. Nothing is changed by asking."""
    try:
        found = path.stat()
        if (found.st_dev, found.st_ino) in _own:
            return True
        log = os.open(log_of(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return False
    try:
        fcntl.flock(log, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(log)
    return False


@contextlib.contextmanager
def reading(path: Path) -> Iterator[int]:
    """A descriptor to read ``path`` with ``os.pread``, which waits for nothing. Raises OSError.

    Of a session that this process writes it is the one that stays open (see ``Writing``).
    """
    found = path.stat()
    with _turn:
        own = _own.get((found.st_dev, found.st_ino))
        if own is not None:
            yield own
            return
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        yield file
    finally:
        os.close(file)
