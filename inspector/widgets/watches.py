"""Watches and breakpoints as they stand at the cursor: a line or two above the footer."""

from __future__ import annotations

from textual.content import Content
from textual.widget import Widget

from engine.conditions.condition import Unavailable, spell
from engine.conditions.figures import Value
from engine.text import visible
from inspector.draw.numbers import MUTED, NOTHING, cut
from inspector.state.breakpoints import Mark, Watch, Watched

LINES = 2
BETWEEN = Content.styled(" │ ", "$kv-free")

HERE, ON, OFF, UNTOLD = "◉", "●", "○", "?"
SIGNS = {HERE: "strikes here", ON: "on", OFF: "off", UNTOLD: "cannot be told here"}
"""The signs of a breakpoint, and what they mean."""
STYLES = {HERE: "$error bold", ON: "$error", OFF: MUTED, UNTOLD: "$warning"}


def sign(mark: Mark, *, at_prompt: bool = False) -> str:
    """The sign of a breakpoint. At the prompt, where nothing was drawn, it is just on or off."""
    if not mark.point.enabled:
        return OFF
    if mark.here is None:
        return ON if at_prompt else UNTOLD
    return HERE if mark.here else ON


def value_text(value: Value | Unavailable) -> Content:
    """A value, or a dash for one that cannot be told."""
    if isinstance(value, Unavailable):
        return Content.styled(NOTHING, MUTED)
    return Content.styled(spell(value), "bold")


def watch_lines(watched: Watched, width: int, *, lines: int = LINES) -> list[Content]:
    """The strip of watches, in at most so many lines; the last says how much did not fit."""
    parts = [_watch(one) for one in watched.watches]
    parts += [_mark(one, watched.at_prompt) for one in watched.marks]
    found: list[Content] = []
    for index, part in enumerate(parts):
        joined = found[-1] + BETWEEN + part if found else part
        last = len(found) == lines
        more = Content.styled(f" │ {len(parts) - index} more: B", MUTED)
        # What is left out has to be said in the last line, so that must fit there as well.
        room = width - (more.cell_length if last and index < len(parts) - 1 else 0)
        if found and joined.cell_length <= room:
            found[-1] = joined
        elif len(found) < lines:
            found.append(cut(part, width))
        else:
            found[-1] = cut(found[-1], width - more.cell_length) + more
            break
    return found


def _watch(one: Watch) -> Content:
    return Content.assemble((f"{visible(one.text)} = ", MUTED)) + value_text(one.value)


def _mark(one: Mark, at_prompt: bool) -> Content:
    shown = sign(one, at_prompt=at_prompt)
    hits = f" ×{one.point.hits:,}" if one.point.hits else ""
    return Content.assemble(
        (f"{shown}{one.point.number} ", STYLES[shown]),
        (visible(one.point.text), "" if one.point.enabled else MUTED),
        (hits, MUTED),
    )


class WatchStrip(Widget):
    """The strip; there only when there is something to watch."""

    DEFAULT_CSS = """
    WatchStrip { height: auto; padding: 0 1; background: $surface; }
    WatchStrip.-empty, .-small WatchStrip { display: none; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, classes="-empty")
        self._watched = Watched()

    def show(self, watched: Watched) -> None:
        changed = watched != self._watched
        self._watched = watched
        self.set_class(not watched, "-empty")
        if changed:
            self.refresh(layout=True)

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        return len(watch_lines(self._watched, width))

    def render(self) -> Content:
        return Content("\n").join(watch_lines(self._watched, self.content_size.width))

    async def on_click(self) -> None:
        await self.run_action("app.breakpoints")
