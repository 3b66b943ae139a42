"""Asks once about a run that a crash, or a kill, has interrupted; from then on it is listed."""

from __future__ import annotations

import contextlib
from pathlib import Path

from textual import on
from textual.message import Message
from textual.screen import ModalScreen

from engine.text import visible
from inspector.safe_screen import SafeApp
from inspector.screens.session_asks import InterruptedMenu
from sessions.file.format import SessionError
from sessions.library import Library
from sessions.preview import Preview


class RecoveringApp(SafeApp[None]):
    """Looks for interrupted runs when it begins."""

    library: Library | None = None
    """The user's sessions; None in a run that is to leave no trace."""

    class Interrupted(Message):
        """Runs that a crash left behind, the newest first, found in a thread."""

        def __init__(self, runs: list[Preview]) -> None:
            super().__init__()
            self.runs = runs

    def open_instead(self, path: Path) -> None:
        """Open a session in this run's place."""
        raise NotImplementedError

    def say(self, line: str, *, warn: bool = False) -> None:
        """Show a line for a while."""
        if not line:
            return
        self.notify(visible(line), severity="warning" if warn else "information", markup=False)

    def look_for_interrupted(self) -> None:
        """In a thread: many files may have to be looked at."""
        library = self.library
        if library is None:
            return
        with contextlib.suppress(SessionError):
            if left := library.to_offer():
                self.post_message(self.Interrupted(left))
            library.tidy()

    @on(Interrupted)
    def _offer(self, message: Interrupted) -> None:
        """Ask once what is to become of a run; whatever the answer, not again."""
        library, newest = self.library, message.runs[0]
        if library is None or isinstance(self.screen, ModalScreen):
            # Another window is open already: the next start asks.
            return

        def answered(name: str | None) -> None:
            if name == "open":
                self.open_instead(newest.path)
            elif name == "discard":
                self._discard(library, newest.path)

        try:
            library.offered(one.path for one in message.runs)
        except SessionError as error:
            self.say(str(error), warn=True)
        self.push_screen(InterruptedMenu(newest, len(message.runs) - 1), answered)

    def _discard(self, library: Library, path: Path) -> None:
        try:
            deleted = library.delete(path)
        except SessionError as error:
            self.say(str(error), warn=True)
        else:
            self.say(f"in the trash for 30 days: {deleted.path}")
