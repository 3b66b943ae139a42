"""Waiting for an engine's answers, with its progress shown: for commands without a screen."""

from __future__ import annotations

from collections import deque
from typing import TypeVar

from engine.commands import Command
from engine.records.events import EngineError, LoadProgress, Record
from inspector.cli.run import Progress
from inspector.state.client import Client
from inspector.state.view import RunLog

_Wanted = TypeVar("_Wanted")


class EngineFailedError(Exception):
    """The engine could not do what it was asked; one line says why."""


class Answers:
    """An engine's records one by one; ``log`` holds those that were taken."""

    def __init__(self, client: Client, progress: Progress) -> None:
        self.log = RunLog()
        self._client = client
        self._progress = progress
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
        self._client.send(command)
        return self.next(kind)

    def next(self, kind: type[_Wanted]) -> _Wanted:
        """Wait for the next record of ``kind``.

        Raises EngineFailedError for the error that came instead.
        """
        while True:
            while self._waiting:
                record = self._waiting.popleft()
                self.log.add(record)
                if isinstance(record, LoadProgress):
                    self._progress.show(record.phase, record.fraction, record.detail)
                    continue
                if isinstance(record, EngineError):
                    self._progress.clear()
                    raise EngineFailedError(record.message)
                if isinstance(record, kind):
                    self._progress.clear()
                    return record
            self._waiting.extend(self._client.take(timeout=None))
