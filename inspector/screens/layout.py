"""The panes on screen: everything where there is room, two or three where there is not.

In the wide layout the screen has six places. Some are shared: the pane that was opened last has
the place. In the compact layout there is the transcript, and one other pane below it; while the
dials are open they stand above that pane, so that what they do is seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate

from textual import events
from textual.content import Content
from textual.widgets import Static

from inspector.keys import pane_key
from inspector.panes.registry import DIALS_SPEC, PANES

TRANSCRIPT, LADDER, DIALS = "transcript", "ladder", DIALS_SPEC.name
SPECS = {one.name: one for one in (*PANES, DIALS_SPEC)}

TALL = 34
"""Lines from which the compact layout has room for the transcript beside the dials."""


def places() -> tuple[tuple[str, ...], ...]:
    """The places of the wide layout, row by row; the first pane of each has it at the start."""
    found: dict[str, list[str]] = {}
    for spec in SPECS.values():
        found.setdefault(spec.place, []).append(spec.name)
    return tuple(map(tuple, found.values()))


@dataclass
class Layout:
    """The panes that were opened, and those on screen because of it."""

    opened: str = LADDER
    """In the compact layout, the pane below."""
    zoomed: str | None = None
    dials: bool = False
    _holders: dict[tuple[str, ...], str] = field(
        default_factory=lambda: {place: place[0] for place in places()}
    )

    def turn_to(self, name: str) -> None:
        """Make room for a pane: in its place, below the transcript, or alone where one is."""
        place = self._place(name)
        self._holders[place] = name
        if DIALS in place:
            self.dials = name == DIALS
        if name == DIALS:
            self.opened = self.opened if SPECS[self.opened].tried else LADDER
        elif name != TRANSCRIPT:
            self.opened = name
        if self.zoomed:
            self.zoomed = name

    def close(self, name: str) -> None:
        """Give a pane's place back to the one it belongs to."""
        place = self._place(name)
        self._holders[place] = place[0]
        if name == DIALS:
            self.dials = False
        if self.opened == name:
            self.opened = place[0]
        if self.zoomed == name:
            self.zoomed = None

    def _place(self, name: str) -> tuple[str, ...]:
        return next(place for place in self._holders if name in place)

    def visible(self, *, wide: bool, tall: bool = False) -> set[str]:
        if self.zoomed:
            return {self.zoomed}
        if wide:
            return set(self._holders.values())
        if self.dials and SPECS[self.opened].tried:
            return {DIALS, self.opened, *([TRANSCRIPT] if tall else [])}
        if SPECS[self.opened].alone and not tall:
            return {self.opened}
        return {TRANSCRIPT, self.opened}


class TabStrip(Static):
    """In the compact layout: which panes there are, and which one is open below."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._labels: list[str] = []
        self._active = ""

    def show(self, active: str) -> None:
        labels = tab_labels(self.content_size.width)
        if (active, labels) == (self._active, self._labels):
            return
        self._active, self._labels = active, labels
        styles = ["bold reverse" if one.name == active else "$cut" for one in PANES]
        pairs = zip(self._labels, styles, strict=True)
        self.update(Content("").join(Content.styled(*pair) for pair in pairs))

    def on_resize(self, event: events.Resize) -> None:
        self.show(self._active)

    async def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        ends = accumulate(len(label) for label in self._labels)
        if offset is not None:
            number = 1 + sum(offset.x >= end for end in ends)
            await self.run_action(f"screen.focus_pane({number})")


def tab_labels(width: int) -> list[str]:
    """The panes' names as they fit: whole, closer together, shortened, or as keys alone."""
    keys = [pane_key(number) for number in range(1, len(PANES) + 1)]
    names = [one.pane.NAME for one in PANES]
    short = [one.pane.SHORT or one.pane.NAME for one in PANES]
    variants = (
        [f" {key} {name} " for key, name in zip(keys, names, strict=True)],
        [f"{key} {name} " for key, name in zip(keys, names, strict=True)],
        [f"{key} {name} " for key, name in zip(keys, short, strict=True)],
        [f"{key} {name[:2]} " for key, name in zip(keys, short, strict=True)],
        [f" {key} " for key in keys],
    )
    fitting = (one for one in variants if sum(map(len, one)) <= width + 1)
    return next(fitting, [f"{key} " for key in keys])
