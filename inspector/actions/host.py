"""The part of the app that an action needs: the run, and a screen to ask on."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from textual.app import App
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget

from inspector.flows import Answer
from inspector.screens.debugger import DebuggerScreen
from inspector.state.controller import Controller
from inspector.state.engine import Engine
from inspector.state.request import Request

if TYPE_CHECKING:
    from inspector.actions.player import Player


class Host(Protocol):
    """The app, as ``inspector.actions`` see it.

    What asks the user something is a coroutine that the app runs as a worker (``FlowApp.flow``), so
    that it reads from top to bottom and no message waits for it.
    """

    asked: Request
    """The request that a new engine begins with."""

    @property
    def controller(self) -> Controller: ...
    @property
    def debugger(self) -> DebuggerScreen: ...
    @property
    def engine(self) -> Engine: ...
    @property
    def busy_s(self) -> float | None:
        """Seconds since the engine last gave a sign of life during a pass; None when idle."""

    @property
    def player(self) -> Player | None:
        """The player of the recording that is shown; None where none is."""

    @property
    def focused(self) -> Widget | None: ...
    @property
    def app(self) -> App[Any]: ...
    @property
    def screen(self) -> Screen[Any]: ...

    async def ask(self, screen: Screen[Answer]) -> Answer:
        """Open a screen, and wait for its answer."""

    async def flow(self, flow: Coroutine[Any, Any, None]) -> None:
        """Begin what asks the user something, and return once it asks."""

    async def picture(self) -> str:
        """The screen as SVG, without the dialog that asked for it."""

    def say(self, line: str, *, warn: bool = False) -> None:
        """Show a line for a while."""

    def copy_to_clipboard(self, text: str) -> None:
        """Hand a text to the terminal's clipboard."""

    def paint(self) -> None:
        """Show the run as it is now."""

    def end(self, next_session: Path | None = None) -> None:
        """End the app; a session to open is opened after it."""

    def set_timer(self, delay: float, callback: Callable[[], None]) -> Timer:
        """Have the app call this after so many seconds."""

    def call_later(self, callback: Callable[..., Any], *args: Any) -> bool:
        """Have the app call this soon; from any thread."""
