"""The panes on screen: everything where there is room, two or three where there is not.

In the wide layout the places are those of ``desk.py``, to be chosen and sized; a pane without one
is opened in another's. In the compact layout there is the transcript, and one other pane below it;
while the dials are open they stand above that pane, so that what they do is seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate
from typing import Literal

from textual import events
from textual.content import Content
from textual.geometry import Region
from textual.widgets import Static

from inspector.keys import pane_key
from inspector.panes.registry import DIALS_SPEC, PANES
from inspector.screens.desk import (
    LAYOUTS,
    LOWEST,
    Axis,
    Border,
    Part,
    borders,
    grown,
    moved,
    names,
    parse,
    regions,
)

TRANSCRIPT, LADDER, DIALS = "transcript", "ladder", DIALS_SPEC.name
TABS = "tabs"
SPECS = {one.name: one for one in (*PANES, DIALS_SPEC)}

TALL = 34
"""Lines from which the compact layout has room for the transcript beside the dials."""


LOW = 15
"""Lines below which the transcript has two, so that the other pane has rows."""


def places() -> tuple[tuple[str, ...], ...]:
    """Panes that share a place where a layout has none of their own; it is the first one's."""
    found: dict[str, list[str]] = {}
    for spec in SPECS.values():
        found.setdefault(spec.place, []).append(spec.name)
    return tuple(map(tuple, found.values()))


@dataclass
class Layout:
    """The panes that were opened, and those on screen because of it."""

    desk: Part = field(default_factory=lambda: parse(LAYOUTS["debug"], SPECS))
    """The places of the wide layout."""
    lines: int | None = None
    """In the compact layout, height of the transcript; None: what there is room for."""
    opened: str = LADDER
    """In the compact layout, the pane below."""
    zoomed: str | None = None
    dials: bool = False
    wide: bool = False
    tall: bool = False
    """Lines enough, in the compact layout, for the transcript beside the dials."""
    _guests: dict[str, str] = field(default_factory=dict)
    """Pane with a place -> the one that was opened there in its stead."""

    def use(self, desk: Part) -> str:
        """Put the panes into other places. Returns the one with the most room for itself."""
        self.desk, self.zoomed, self.dials = desk, None, False
        self._guests.clear()
        rooms = regions(desk, Region(0, 0, 160, 46))
        first = max(rooms, key=lambda name: (name != TRANSCRIPT, rooms[name].area))
        self.opened = self.opened if first in (TRANSCRIPT, DIALS) else first
        return first

    def has_place(self, name: str) -> bool:
        """True if a pane is on screen whatever was opened."""
        return self.wide and name in names(self.desk)

    def turn_to(self, name: str) -> None:
        """Make room for a pane: in its place, below the transcript, or alone where one is."""
        place = self._place(name)
        if self._guests.pop(place, "") == DIALS:
            self.dials = False
        if name != place:
            self._guests[place] = name
        if name == DIALS:
            self.dials = True
            self.opened = self.opened if SPECS[self.opened].tried else LADDER
        elif name != TRANSCRIPT:
            self.opened = name
        if self.zoomed:
            self.zoomed = name

    def close(self, name: str) -> None:
        """Give a pane's place back to the one it belongs to."""
        place = self._place(name)
        if self._guests.get(place) == name:
            del self._guests[place]
        if name == DIALS:
            self.dials = False
        if self.opened == name:
            self.opened = place if place != name else LADDER
        if self.zoomed == name:
            self.zoomed = None

    def _place(self, name: str) -> str:
        """The pane in whose place this one is opened: its own, where it has one."""
        there = names(self.desk)
        return next((one for one in (name, SPECS[name].place) if one in there), there[-1])

    @property
    def state(self) -> tuple[object, ...]:
        """Everything that places depend on, to be compared."""
        shown = self.opened, self.zoomed, self.dials, self.wide, self.tall
        return self.desk, self.lines, shown, tuple(self._guests.items())

    def regions(self, room: Region) -> dict[str, Region]:
        """The cells of each pane on screen, and those of the tabs."""
        if self.zoomed:
            return {self.zoomed: room}
        if self.wide:
            places = regions(self.desk, room)
            return {self._guests.get(name, name): its for name, its in places.items()}
        return self._compact(room)

    def _compact(self, room: Region) -> dict[str, Region]:
        below = max(0, room.height - 1)
        tried = self.dials and SPECS[self.opened].tried
        if SPECS[self.opened].alone and not (tried or self.tall):
            text = 0
        elif self.lines is not None:
            text = max(LOWEST - 1, min(self.lines, below - 2 * LOWEST))
        else:
            # Beside the dials, a line of the text at least.
            text = (7 if below >= LOW else 4) if self.tall or not tried else 3 * (below > 12)
        dials = min(9, (below - text) // 2) if tried else 0
        heights = {TRANSCRIPT: text, TABS: 1, DIALS: dials}
        heights[self.opened] = max(0, room.height - sum(heights.values()))
        found, y = {}, room.y
        for name, height in heights.items():
            if height:
                found[name] = Region(room.x, y, room.width, height)
                y += height
        return found

    # --- borders --------------------------------------------------------------------------------

    def grip(self, room: Region, x: int, y: int) -> Border | Literal["text"] | None:
        """The border at a cell, if one can be dragged there."""
        if self.zoomed:
            return None
        if self.wide:
            # The innermost: where borders cross, that moves the fewest panes.
            return next(
                (one for one in [*borders(self.desk, room)][::-1] if one.touches(x, y)), None
            )
        text = self.regions(room).get(TRANSCRIPT)
        return "text" if text is not None and y == text.bottom - 1 else None

    def drag(self, grip: Border | Literal["text"], room: Region, x: int, y: int) -> None:
        """Move a border to a cell."""
        if grip == "text":
            self.lines = max(LOWEST - 1, y + 1 - room.y)
        else:
            self.desk = moved(self.desk, grip, x if grip.axis is Axis.ACROSS else y)

    def grow(self, room: Region, name: str, axis: Axis, by: int) -> None:
        """Make a pane wider or higher by so many cells."""
        if self.zoomed:
            return
        if self.wide:
            self.desk = grown(self.desk, room, self._place(name), axis, by)
        elif axis is Axis.DOWN:
            text = self.regions(room).get(TRANSCRIPT)
            if text is not None:
                self.lines = max(LOWEST - 1, text.height + (by if name == TRANSCRIPT else -by))


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
    # Of the names that do not fit whole the last ones are cut first.
    wholes = range(len(short), -1, -1)

    def closer(names: list[str]) -> list[str]:
        return [f"{key} {name} " for key, name in zip(keys, names, strict=True)]

    lengths = ((max(map(len, short)), 4), (4, 3), (3, 2))
    variants = (
        [f" {key} {name} " for key, name in zip(keys, names, strict=True)],
        closer(names),
        *(
            closer([name[: long if at < whole else less] for at, name in enumerate(short)])
            for long, less in lengths
            for whole in wholes
        ),
        [f" {key} " for key in keys],
        [f"{key} " for key in keys],
    )
    fitting = (one for one in variants if sum(map(len, one)) <= width + 1)
    return next(fitting, [f"{key.removeprefix('f')} " for key in keys])
