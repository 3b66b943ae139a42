"""Asks once about a run that a crash, or a kill, has interrupted; from then on it is listed."""

from __future__ import annotations

import contextlib

from textual.screen import ModalScreen

from inspector.actions.host import Host
from inspector.actions.sessions import Sessions
from inspector.background import Background
from inspector.screens.session_asks import InterruptedMenu
from sessions.file.format import SessionError
from sessions.library import Library
from sessions.preview import Preview


class Recovery:
    """Looks for interrupted runs in the user's library."""

    def __init__(self, host: Host, sessions: Sessions, library: Library) -> None:
        self._host = host
        self._sessions = sessions
        self._library = library
        self.looking = Background("recovery")

    def begin(self) -> None:
        """Look for them in a thread: many files may have to be looked at."""
        self.looking.submit(self._look)

    def _look(self) -> None:
        with contextlib.suppress(SessionError):
            if left := self._library.to_offer():
                self._host.call_later(lambda: self._host.flow(self._offer(left)))
            self._library.tidy()

    async def _offer(self, runs: list[Preview]) -> None:
        """Ask once what is to become of the newest run; whatever the answer, not again."""
        if isinstance(self._host.screen, ModalScreen):
            # Another window is open already: the next start asks.
            return
        try:
            self._library.offered(one.path for one in runs)
        except SessionError as error:
            self._host.say(str(error), warn=True)
        newest = runs[0]
        match await self._host.ask(InterruptedMenu(newest, len(runs) - 1)):
            case "open":
                await self._sessions.leave(newest.path)
            case "discard":
                self._discard(newest)

    def _discard(self, run: Preview) -> None:
        try:
            deleted = self._library.delete(run.path)
        except SessionError as error:
            self._host.say(str(error), warn=True)
        else:
            self._host.say(f"in the trash for 30 days: {deleted.path}")
