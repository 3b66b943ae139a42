"""An app whose actions ask the user something, and wait for the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from textual.screen import Screen
from textual.worker import WorkerFailed

from engine.text import visible
from inspector.exit_codes import EXIT_USAGE
from inspector.safe_screen import Result, SafeApp
from sessions.file.format import SessionError

Answer = TypeVar("Answer")


class FlowApp(SafeApp[Result]):
    """A flow is a coroutine that runs as a worker, so that no message waits for it."""

    damage = ""
    """The reason for which the app had to end: rows of the session contradict each other."""

    def _handle_exception(self, error: Exception) -> None:
        """End with one line where a step cannot be read; Textual would print a traceback."""
        cause = error.error if isinstance(error, WorkerFailed) else error
        if isinstance(cause, SessionError):
            self.damage = self.damage or str(cause)
            self._return_code = EXIT_USAGE
            self._close_messages_no_wait()
        else:
            super()._handle_exception(error)

    async def flow(self, flow: Coroutine[Any, Any, None]) -> None:
        """Begin what asks the user something, and return once it asks."""
        self.run_worker(flow, group="flows")
        # Its first step is done after this: the next key is meant for the screen that it opens.
        await asyncio.sleep(0)

    async def ask(self, screen: Screen[Answer]) -> Answer:
        """Open a screen, and wait for its answer; only in a flow."""
        # Shielded: a key may still close the screen of a flow that the end of the app has stopped.
        return await asyncio.shield(self.push_screen(screen, wait_for_dismiss=True))

    async def picture(self) -> str:
        """The screen as SVG, once what is to be seen on it is drawn; without lines that pass."""
        passing = [one for one in self.screen.children if one.id == "textual-toastrack"]
        for one in passing:
            one.display = False
        drawn = asyncio.Event()
        self.call_after_refresh(drawn.set)
        await drawn.wait()
        picture = self.export_screenshot()
        for one in passing:
            one.display = True
        return picture

    def say(self, line: str, *, warn: bool = False) -> None:
        """Show a line for a while."""
        self.notify(visible(line), severity="warning" if warn else "information", markup=False)
