"""The part of the app that an action needs: the run, and a screen to ask on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from textual.screen import Screen
from textual.widget import Widget

from engine.commands import Command
from inspector.screens.debugger import DebuggerScreen
from inspector.state.controller import Controller
from inspector.state.request import Request

Answer = TypeVar("Answer")


class Host(Protocol):
    """The app, as ``inspector.actions`` see it.

    What asks the user something is a coroutine that the app runs as a worker (``App.flow``), so
    that it reads from top to bottom and no message waits for it.
    """

    asked: Request
    """The request that a new engine begins with."""

    @property
    def controller(self) -> Controller: ...
    @property
    def debugger(self) -> DebuggerScreen: ...
    @property
    def can_run(self) -> bool:
        """True if there is an engine with a model, and not only a recording."""

    @property
    def kept(self) -> bool:
        """True if a file holds what is on screen."""

    @property
    def focused(self) -> Widget | None: ...

    async def ask(self, screen: Screen[Answer]) -> Answer | None:
        """Open a screen, and wait for its answer."""

    def say(self, line: str, *, warn: bool = False) -> None:
        """Show a line for a while."""

    def send(self, command: Command) -> None:
        """Ask the engine."""

    def paint(self) -> None:
        """Show the run as it is now."""

    def call_later(self, callback: Callable[..., Any], *args: Any) -> bool:
        """Have the app call this soon; from any thread."""
