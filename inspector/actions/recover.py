"""Tells once of a run that a crash, or a kill, has interrupted; from then on it is listed."""

from __future__ import annotations

import contextlib

from inspector.actions.host import Host
from inspector.actions.sessions import Sessions
from inspector.background import Background
from inspector.draw.numbers import plural
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
        self.runs: list[Preview] = []
        """Interrupted runs that the user has been told of, the newest first."""

    def begin(self) -> None:
        """Look for them in a thread: many files may have to be looked at."""
        self.looking.submit(self._look)

    def _look(self) -> None:
        with contextlib.suppress(SessionError):
            if left := self._library.to_offer():
                self._host.call_later(self._offer, left)
            self._library.tidy()

    def _offer(self, runs: list[Preview]) -> None:
        """Say so in a line, once; the key is there until the program ends."""
        self.runs = runs
        try:
            self._library.offered(one.path for one in runs)
        except SessionError as error:
            self._host.say(str(error), warn=True)
        newest, others = runs[0], len(runs) - 1
        more = f" (and {others:,} more)" if others else ""
        tokens = plural(newest.steps, "token")
        self._host.say(f"a run was interrupted: {newest.name}, {tokens}{more} · I looks after it")
        self._host.screen.refresh_bindings()

    async def answer(self) -> None:
        """Ask what is to become of the newest run."""
        if not self.runs:
            return
        newest = self.runs[0]
        match await self._host.ask(InterruptedMenu(newest, len(self.runs) - 1)):
            case "open":
                await self._sessions.leave(newest.path)
            case "keep":
                self.runs = []
            case "discard":
                self._discard(newest)
                self.runs = self.runs[1:]
        self._host.screen.refresh_bindings()

    def _discard(self, run: Preview) -> None:
        try:
            deleted = self._library.delete(run.path)
        except SessionError as error:
            self._host.say(str(error), warn=True)
        else:
            self._host.say(f"in the trash for 30 days: {deleted.path}")
