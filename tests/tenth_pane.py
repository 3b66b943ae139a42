"""The program with two panes more than it has, for tests: run as a program, it prints how far."""

from __future__ import annotations

import asyncio
import json
from typing import Any, ClassVar

from textual.content import Content
from textual.geometry import Size

from inspector.keys import pane_key
from inspector.panes import registry
from inspector.panes.registry import PaneSpec
from inspector.state.view import View
from inspector.widgets.line_view import Pane
from inspector.widgets.picture import Picture
from tests import settling


class Toy(Pane):
    NAME: ClassVar[str] = "Toy"

    def picture(self, view: View, size: Size) -> Picture:
        return Picture([Content(f"{size.width} by {size.height}")])


class Twelfth(Toy):
    NAME: ClassVar[str] = "Twelfth"


async def reached() -> dict[str, Any]:
    """The pane that has the focus, and whether it can be seen, after each way to the new ones."""
    from tests.inspector.test_app import app, press, screen_text, visible

    one, found = app(), {}
    before, first, second = (pane_key(len(registry.PANES) - back) for back in (2, 1, 0))
    async with one.run_test(size=(160, 48)) as pilot:
        await press(pilot)

        def note(name: str) -> None:
            focused = one.focused.id if one.focused is not None else ""
            found[name] = [focused, focused in visible(one), len(visible(one))]

        await press(pilot, first)
        note("key")
        await press(pilot, second)
        note("second key")
        found["title"] = f"{second} Twelfth" in screen_text(one)
        await press(pilot, before, "tab")
        note("tab")
        await press(pilot, "tab", "tab")
        note("around")
        await press(pilot, "shift+tab")
        note("back")
        await press(pilot, "2", "ctrl+p", *"PaneToy", "down", "enter")
        await settling.until(lambda: "toy" in visible(one))
        note("palette")
        await press(pilot, "2")
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        strip = one.query_one("#tabs")
        at = screen_text(one).splitlines()[strip.region.y].index(first)
        await pilot.click("#tabs", offset=(at - strip.region.x, 0))
        await pilot.pause()
        note("mouse")
        await press(pilot, second)
        note("small")
    from inspector.screens.layout import tab_labels

    found["widths"] = [sum(map(len, tab_labels(width))) for width in range(40, 200)]
    return found


if __name__ == "__main__":
    settling.install()
    registry.PANES += (PaneSpec("toy", Toy), PaneSpec("twelfth", Twelfth))
    print(json.dumps(asyncio.run(reached())))
