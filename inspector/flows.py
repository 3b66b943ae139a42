"""An app whose actions ask the user something, and wait for the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from textual.screen import Screen

from engine.text import visible
from inspector.safe_screen import Result, SafeApp

Answer = TypeVar("Answer")


class FlowApp(SafeApp[Result]):
    """A flow is a coroutine that runs as a worker, so that no message waits for it."""

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
