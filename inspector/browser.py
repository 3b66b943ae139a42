"""``llm-inspect sessions`` in a terminal: the session browser by itself."""

from __future__ import annotations

from pathlib import Path

import themes
from inspector.safe_screen import SafeApp
from inspector.screens.sessions import SessionsScreen
from inspector.theming import use_theme
from sessions.library import Library


class Browser(SafeApp[Path | None]):
    """Ends with the session to open; None for none."""

    TITLE = "llm-inspect sessions"
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, library: Library, theme: str = themes.DEFAULT) -> None:
        super().__init__()
        self._library = library
        use_theme(self, theme)

    def on_mount(self) -> None:
        self.push_screen(SessionsScreen(self._library), self.exit)
