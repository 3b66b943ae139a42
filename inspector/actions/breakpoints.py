"""The keys for breakpoints: the list of them, and back to where one struck."""

from __future__ import annotations

from inspector.actions.host import Host
from inspector.actions.keeping import Keeping
from inspector.screens.breakpoints import BreakpointsScreen


class Breakpoints:
    """Opens the list, and has the engine and the file know what is changed in it."""

    def __init__(self, host: Host, keeping: Keeping) -> None:
        self._host = host
        self._keeping = keeping

    async def edit(self) -> None:
        controller = self._host.controller

        def changed() -> None:
            controller.tell_breakpoints()
            self._keeping.keep_breakpoints()
            self._host.paint()

        await self._host.ask(
            BreakpointsScreen(controller.breakpoints, lambda: controller.cursor.node, changed)
        )

    def reverse(self) -> None:
        host, controller = self._host, self._host.controller
        if not controller.breakpoints.points.active:
            host.say("no breakpoint is on: B opens the list", warn=True)
        elif not controller.reverse():
            host.say("no breakpoint strikes before: this is the prompt")
        host.paint()

    def tell_news(self) -> None:
        """Show what has come of them since the last time."""
        for line in self._host.controller.breakpoints.take_news():
            self._host.say(line, warn=True)
