"""Screens without a run: the session browser, the start without a prompt, the ready requests."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from textual.screen import Screen

import themes
from inspector.safe_screen import SafeApp
from inspector.screens.sessions import SessionsScreen
from inspector.screens.shapes.screen import Begin, ShapesScreen
from inspector.screens.start import Chosen, StartScreen
from inspector.state.shapes.carry_out import Carried
from inspector.theming import use_theme
from sessions.library import Library

Result = TypeVar("Result")


class _Before(SafeApp[Result]):
    """An app of one screen, whose answer it ends with."""

    ENABLE_COMMAND_PALETTE = False

    def __init__(self, screen: Screen[Result], theme: str) -> None:
        super().__init__()
        self._first = screen
        use_theme(self, theme)

    def on_mount(self) -> None:
        self.push_screen(self._first, self.exit)


class Browser(_Before[Path | None]):
    """Ends with the session to open; None for none."""

    TITLE = "llm-inspect sessions"

    def __init__(self, library: Library, theme: str = themes.DEFAULT) -> None:
        super().__init__(SessionsScreen(library), theme)


class Shapes(_Before[Carried]):
    """Ends with what was carried out."""

    TITLE = "llm-inspect shapes"

    def __init__(self, begin: Begin, theme: str = themes.DEFAULT) -> None:
        super().__init__(ShapesScreen(begin, opens=True), theme)


class Start(_Before[Chosen | None]):
    """Ends with the prompt to run, or the session to open; None for neither."""

    TITLE = "llm-inspect"

    def __init__(
        self, library: Library, theme: str = themes.DEFAULT, *, chat: bool = False
    ) -> None:
        super().__init__(StartScreen(library, chat=chat), theme)
