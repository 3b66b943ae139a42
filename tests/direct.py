"""The engine without a process: the same server, carried out when a test asks for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from engine.commands import Close, Command, Configure, Open, Submit
from engine.records.events import EngineError, Record, RunState, StateChanged
from engine.server import Engine

LETTERS = list("abcdefghijklmnopqrstuvwxyz")


class Inbox:
    """Stands in for the pipe that the engine looks at between two passes."""

    def __init__(self) -> None:
        self.waiting: deque[Command] = deque()

    def poll(self) -> bool:
        return bool(self.waiting)

    def recv(self) -> Command:
        return self.waiting.popleft()


class DirectClient:
    """An engine client that runs in this process: each command is carried out when it is sent.

    Held back, records stay in the engine until ``release``; that is how a test looks at the time
    between a key and its record.
    """

    can_run = True

    def __init__(self, notify: Callable[[], None] = lambda: None) -> None:
        self.notify = notify
        self.sent: list[Command] = []
        self.held = False
        self.pid = None
        self._records: deque[Record] = deque()
        self._late: deque[Command] = deque()
        self._inbox = Inbox()
        self._engine = Engine(self._records.append, self._inbox)  # type: ignore[arg-type]
        self.alive = True

    def start(self) -> None:
        pass

    def send(self, command: Command) -> None:
        self.sent.append(command)
        if not self.alive:
            return
        if self.held:
            self._late.append(command)
            return
        if not isinstance(command, Close):
            self._engine._carry_out(command)
        self.notify()

    def release(self) -> None:
        """Carry out what was sent while held back."""
        self.held = False
        while self._late:
            self._engine._carry_out(self._late.popleft())
        self.notify()

    def die(self) -> None:
        """End as a killed engine does."""
        self.alive = False
        message = "the engine ended: killed by SIGKILL; everything recorded is kept"
        self._records.extend(
            [EngineError(message, fatal=True), StateChanged(RunState.DEAD, message)]
        )
        self.notify()

    def take(self, timeout: float | None = 0.0) -> list[Record]:
        records = list(self._records)
        self._records.clear()
        return records

    def kill(self) -> None:
        self.alive = False

    def close(self, grace: float = 1.0) -> None:
        self.alive = False


def script(prompt: str = "abc", **options: Any) -> tuple[Open, Configure, Submit]:
    """The commands that open a scripted run: letters, all alike, temperature 1, 20 tokens."""
    settings = Configure(dials={"temperature": 1.0}, seed=7, max_tokens=20)
    return Open("scripted", {"tokens": LETTERS, **options}), settings, Submit(prompt)
