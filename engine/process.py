"""The engine in its own process, and the client that talks to it.

The client's process imports no torch. A reader thread takes records off the pipe into a queue and
calls ``notify``; whoever owns the screen then takes them all at once. However the engine ends, the
client says so with an EngineError and a StateChanged(DEAD) as its last records.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

from engine.commands import Close, Command
from engine.parent import end_with_parent
from engine.records.events import EngineError, Record, RunState, StateChanged


def _serve(connection: Connection, log_file: str, parent: int, of_main_thread: bool) -> None:
    # First of all: the imports below take seconds.
    end_with_parent(parent, of_main_thread=of_main_thread)
    # Imported only here: this module is what the client's process imports.
    from engine.server_process import serve

    serve(connection, log_file)


class EngineClient:
    """One engine process. ``start`` it, ``send`` commands, ``take`` the records it sent back.

    It ends with the process that made it, and at the latest with ``close``. Make and start it in
    the same thread.
    """

    can_run = True
    """There is a model behind it, or will be."""

    def __init__(self, log_file: Path, notify: Callable[[], None] = lambda: None) -> None:
        self.log_file = log_file
        self.notify = notify
        self._records: deque[Record] = deque()
        self._arrived = threading.Condition()
        self._closing = False
        context = multiprocessing.get_context("spawn")
        in_main = threading.current_thread() is threading.main_thread()
        self._ours, theirs = context.Pipe(duplex=True)
        self._theirs: Connection | None = theirs
        self._process = context.Process(
            target=_serve,
            args=(theirs, str(log_file), os.getpid(), in_main),
            name="llm-inspect-engine",
            daemon=True,
        )

    def start(self) -> None:
        """Start the process; returns at once, commands may be sent right away."""
        self._process.start()
        # Our copy of its end must close, or its death would never be seen as end-of-file.
        if self._theirs is not None:
            self._theirs.close()
            self._theirs = None
        threading.Thread(target=self._read, name="engine-reader", daemon=True).start()

    @property
    def pid(self) -> int | None:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.is_alive()

    def send(self, command: Command) -> None:
        """Ask for something. A dead engine ignores it: its death is reported by record."""
        with contextlib.suppress(OSError):
            self._ours.send(command)

    def take(self, timeout: float | None = 0.0) -> list[Record]:
        """All records that have arrived, in order; waits up to ``timeout`` seconds for the first.

        ``None`` waits without limit.
        """
        with self._arrived:
            if not self._records:
                self._arrived.wait_for(lambda: bool(self._records), timeout)
            records = list(self._records)
            self._records.clear()
        return records

    def kill(self) -> None:
        """End the process now, in the middle of a pass if need be."""
        self._process.kill()

    def close(self, grace: float = 1.0) -> None:
        """End the process: politely, then by force after ``grace`` seconds."""
        self._closing = True
        self.send(Close())
        self._process.join(grace)
        if self._process.is_alive():
            self._process.kill()
            self._process.join(grace)

    def _put(self, *records: Record) -> None:
        with self._arrived:
            self._records.extend(records)
            self._arrived.notify_all()
        self.notify()

    def _read(self) -> None:
        try:
            while True:
                self._put(self._ours.recv())
        except (EOFError, OSError):
            pass
        except Exception as error:  # a record that cannot be read must not end the reader silently
            self._put(EngineError(f"unreadable record from the engine: {error}", fatal=True))
            self._process.kill()
        self._process.join(5.0)
        if not self._closing:
            message = f"the engine ended: {self._cause()}; everything recorded is kept"
            self._put(EngineError(message, fatal=True), StateChanged(RunState.DEAD, message))

    def _cause(self) -> str:
        code = self._process.exitcode
        if code is None:
            return "it closed its pipe"
        if code >= 0:
            log = "" if str(self.log_file) == os.devnull else f" (its log: {self.log_file})"
            return f"exit code {code}{log}"
        name = signal.Signals(-code).name
        hint = ", perhaps out of memory" if -code == signal.SIGKILL else ""
        return f"killed by {name}{hint}"
