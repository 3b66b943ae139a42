"""Commands that wait for a running engine, in the order in which they came."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from multiprocessing.connection import Connection

from engine.commands import (
    Command,
    Configure,
    MeasureDrift,
    NameBranch,
    SendLogits,
    SendVocabulary,
    SetBreakpoints,
    Tokenize,
)

_BETWEEN = (
    *(MeasureDrift, SendLogits, SendVocabulary, Tokenize),
    *(NameBranch, Configure, SetBreakpoints),
)
"""Commands that are carried out between two passes of a run, which then goes on."""


class Inbox:
    """Queue of the commands that came through the pipe and are not carried out yet."""

    def __init__(self, receive: Connection) -> None:
        self._receive = receive
        self._waiting: deque[Command] = deque()
        self.paused = False
        """True once what runs is to stop between two passes."""

    def next(self) -> Command:
        """The next command, waiting for one. Raises EOFError when nobody is there any more."""
        return self._waiting.popleft() if self._waiting else self._receive.recv()

    def is_called(self) -> bool:
        """True if a command has come that a measurement should make way for; all of them wait."""
        self._take_in()
        return any(not isinstance(command, _BETWEEN) for command in self._waiting)

    def holds_any(self) -> bool:
        """True if any command has come."""
        self._take_in()
        return bool(self._waiting)

    def pause_wanted(self, answer: Callable[[Command], None]) -> bool:
        """Look at what came in between two passes: questions are answered, the rest waits.

        In their order: what comes behind a command that has to wait waits behind it, a Pause too,
        which is then meant for that command.
        """
        self._take_in()
        while self._waiting and not self.paused:
            if isinstance(self._waiting[0], _BETWEEN):
                answer(self._waiting.popleft())
            else:
                # A Pause, or something else that means to do other than go on.
                self.paused = True
        return self.paused

    def _take_in(self) -> None:
        while self._receive.poll():
            self._waiting.append(self._receive.recv())
