"""Waiting for an engine's answers, with its progress shown: for all that is done without a view."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from engine.commands import Command
from engine.records.events import EngineError, LoadProgress, Record, RunState, StateChanged
from inspector.state.client import Client
from inspector.state.view import RunLog

_Wanted = TypeVar("_Wanted")


class EngineFailedError(Exception):
    """The engine could not do what it was asked; one line says why."""


class Shown(Protocol):
    """A place where progress is shown, such as a line on standard error."""

    live: bool
    """True if it is drawn over and over."""

    def show(self, phase: str, fraction: float | None, detail: str) -> None: ...
    def clear(self) -> None: ...


class Answers:
    """An engine's records one by one; ``log`` holds those that were taken."""

    def __init__(
        self, client: Client, progress: Shown, keep: Callable[[Record], None] = lambda record: None
    ) -> None:
        """``keep`` is given each record before anybody else."""
        self.log = RunLog()
        self._client = client
        self._progress = progress
        self._keep = keep
        self._waiting: deque[Record] = deque()
        self._shown = ("", "")

    def show(self, phase: str, fraction: float | None, detail: str) -> None:
        """Show how far a command has come; where no bar moves, each part once."""
        if self._progress.live or (phase, detail) != self._shown:
            self._progress.show(phase, fraction, detail)
        self._shown = phase, detail

    def tell(self, command: Command) -> None:
        """Send ``command`` and wait for nothing."""
        self._client.send(command)

    def ask(self, command: Command, kind: type[_Wanted]) -> _Wanted:
        """Send ``command`` and wait for the next record of ``kind``.

        Raises EngineFailedError for the error that came instead.
        """
        self.tell(command)
        record = next(one for one in self.records() if isinstance(one, kind))
        self._progress.clear()
        return record

    def carried_out(self, command: Command) -> Iterator[Record]:
        """Send what steps on, and give each record until the engine stands still after it.

        Raises EngineFailedError for an error that ends it before.
        """
        self.tell(command)
        for record in self.records():
            yield record
            if isinstance(record, StateChanged) and record.state in (
                RunState.STOPPED,
                RunState.PAUSED,
            ):
                self._progress.clear()
                return

    def records(self) -> Iterator[Record]:
        """Each record as it comes, without end; the progress of loading is shown.

        Raises EngineFailedError for an error, and where the engine has ended.
        """
        while True:
            while self._waiting:
                record = self._waiting.popleft()
                self._keep(record)
                self.log.add(record)
                match record:
                    case LoadProgress(phase, fraction, detail):
                        self._progress.show(phase, fraction, detail)
                    case EngineError(message) | StateChanged(RunState.DEAD, message):
                        self._progress.clear()
                        raise EngineFailedError(message)
                yield record
            self._waiting.extend(self._client.take(timeout=None))
