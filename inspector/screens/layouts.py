"""The named layouts, and the window in which panes are chosen, ordered and sized."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from textual import on
from textual.binding import BindingType
from textual.content import Content
from textual.geometry import Region
from textual.widget import Widget
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from inspector.keys import shown
from inspector.screens.desk import (
    LAYOUTS,
    Axis,
    LayoutError,
    Part,
    added,
    names,
    parse,
    regions,
    spell,
    swapped,
    without,
)
from inspector.screens.dialog import Ask, Dialog
from inspector.screens.layout import SPECS, Layout

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,23}")
_MAP = (60, 9)
"""Cells and lines of the map of a layout."""


def kept_nowhere(name: str, text: str) -> None:
    """Refuse to keep a layout. Raises OSError."""
    raise OSError("there is no place to keep it in")


@dataclass
class Layouts:
    """The layouts there are, by name. ``keep`` keeps one; it raises OSError or ValueError."""

    own: Mapping[str, str] = field(default_factory=dict)
    """Those of the configuration file, in writing."""
    chosen: str = "debug"
    keep: Callable[[str, str], None] = kept_nowhere

    def __post_init__(self) -> None:
        """Raise LayoutError, which names it, for a layout that cannot be used."""
        self.all = dict(LAYOUTS)
        for name, text in self.own.items():
            try:
                if _NAME.fullmatch(name) is None:
                    raise LayoutError("its name is no word of small letters")
                self.all[name] = spell(parse(text, SPECS))
            except LayoutError as error:
                raise LayoutError(f"layout {name!r}: {error}") from None
        if self.chosen not in self.all:
            raise LayoutError(f"no layout {self.chosen!r}; there are {', '.join(self.all)}")

    @property
    def desk(self) -> Part:
        """The places of the chosen one."""
        return parse(self.all[self.chosen], SPECS)


def desk_map(part: Part, width: int, height: int, marked: str = "") -> list[Content]:
    """A small picture of the places; the one of ``marked`` stands out by more than its colour."""
    cells = [[" "] * width for _ in range(height)]
    styles = [[""] * width for _ in range(height)]
    for name, room in regions(part, Region(0, 0, width, height)).items():
        title = SPECS[name].pane.NAME
        title = f"▸{title}" if name == marked else title
        text = f"╭{title[: room.width - 2].ljust(room.width - 2, '─')}╮"
        middle, last = f"│{' ' * (room.width - 2)}│", f"╰{'─' * (room.width - 2)}╯"
        for y in range(room.y, room.bottom):
            line = text if y == room.y else last if y == room.bottom - 1 else middle
            cells[y][room.x : room.right] = line[: room.width]
            styles[y][room.x : room.right] = ["$primary" if name == marked else ""] * room.width
    return [
        Content.assemble(*zip(line, style, strict=True))
        for line, style in zip(cells, styles, strict=True)
    ]


class LayoutName(Ask[str]):
    """A name under which a layout is kept."""

    OK: ClassVar[str] = "Keep"

    def understand(self, text: str) -> str:
        if _NAME.fullmatch(text.strip()) is None:
            raise ValueError("a name is small letters, digits, - and _, 24 at most")
        return text.strip()


class LayoutScreen(Dialog[None]):
    """The layouts by name, and below them the panes: in or out, earlier or later, wider or higher.

    What is changed is seen at once behind the window; ``rearranged`` is called for it.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        shown("q", "close", "Close", "layouts.close", "Leave the panes as they are now"),
        shown("space", "pick", "In or out", "layouts.pick", "This layout; this pane, or not"),
        shown("left_curly_bracket", "order(-1)", "Earlier", "layouts.earlier",
              "This pane in the place before"),
        shown("right_curly_bracket", "order(1)", "Later", "layouts.later",
              "This pane in the place after"),
        shown("minus", "size('/', -1)", "Lower", "layouts.lower", "This pane a line lower"),
        shown("plus,equals_sign", "size('/', 1)", "Higher", "layouts.higher",
              "This pane a line higher"),
        shown("less_than_sign", "size('|', -2)", "Narrower", "layouts.narrower",
              "This pane narrower"),
        shown("greater_than_sign", "size('|', 2)", "Wider", "layouts.wider", "This pane wider"),
        shown("w", "keep", "Keep", "layouts.keep", "Keep this layout in the configuration file"),
    ]  # fmt: skip

    DEFAULT_CSS = """
    LayoutScreen #choices { max-height: 40vh; }
    LayoutScreen #map { height: auto; }
    """

    def __init__(
        self, layouts: Layouts, panes: Layout, room: Region, rearranged: Callable[[], None]
    ) -> None:
        super().__init__(Content("Layout"))
        self._layouts, self._panes, self._room = layouts, panes, room
        self._rearranged = rearranged

    def body(self) -> Iterable[Widget]:
        yield Static(id="map")
        yield OptionList(*self._options(), id="choices", compact=True)
        yield Static(id="said")

    def on_mount(self) -> None:
        small = "" if self._panes.wide else "seen whole on larger screens · "
        self._say(f"{small}space takes one · {{ }} order · - + < > size · w keeps · q closes")
        self._draw()

    # --- the list ---------------------------------------------------------------------------------

    def _options(self) -> Iterable[Option]:
        for name in self._layouts.all:
            mark = "●" if name == self._layouts.chosen else "○"
            yield Option(Content(f" {mark} {name}"), id=f"layout:{name}")
        there = names(self._panes.desk)
        for name in [*there, *(one for one in SPECS if one not in there)]:
            mark = "x" if name in there else " "
            yield Option(Content(f" [{mark}] {SPECS[name].pane.NAME}"), id=f"pane:{name}")

    @property
    def _list(self) -> OptionList:
        return self.query_one("#choices", OptionList)

    @property
    def _at(self) -> tuple[str, str]:
        """Kind and name of the highlighted row."""
        at = self._list.highlighted_option
        kind, _, name = (at.id or "" if at is not None else "").partition(":")
        return kind, name

    def _draw(self) -> None:
        kind, name = self._at
        marked = name if kind == "pane" else ""
        width, height = _MAP
        if self.size.height < 20:
            height = 0
        self.query_one("#map", Static).update(
            Content("\n").join(desk_map(self._panes.desk, width, height, marked))
        )

    def _say(self, text: str, style: str = "$title") -> None:
        self.query_one("#said", Static).update(Content.styled(text, style))

    def _changed(self) -> None:
        kind, name = self._at
        self._list.clear_options()
        self._list.add_options(self._options())
        self._list.highlighted = self._list.get_option_index(f"{kind}:{name}")
        self._rearranged()
        self._draw()

    @on(OptionList.OptionHighlighted)
    def _looked_at(self) -> None:
        self._draw()

    # --- changes ----------------------------------------------------------------------------------

    @on(OptionList.OptionSelected)
    def action_pick(self) -> None:
        """Use this layout; have this pane in it, or not."""
        kind, name = self._at
        desk = self._panes.desk
        if kind == "layout":
            self._layouts.chosen = name
            self._panes.use(self._layouts.desk)
        elif name in names(desk):
            self._panes.use(without(desk, name))
        else:
            self._panes.use(added(desk, name, self._room))
        self._changed()

    def action_order(self, by: int) -> None:
        kind, name = self._at
        there = names(self._panes.desk)
        if kind == "pane" and name in there:
            other = there[(there.index(name) + by) % len(there)]
            self._panes.use(swapped(self._panes.desk, name, other))
            self._changed()

    def action_size(self, axis: str, by: int) -> None:
        kind, name = self._at
        if kind == "pane":
            self._panes.grow(self._room, name, Axis(axis), by)
            self._changed()

    def action_keep(self) -> None:
        """Ask for a name, and keep the layout under it."""
        asked = LayoutName(Content("Keep this layout as"), self._layouts.chosen)
        self.app.push_screen(asked, self._keep)

    def _keep(self, name: str | None) -> None:
        if name is None:
            return
        text = spell(self._panes.desk)
        try:
            self._layouts.keep(name, text)
        except (OSError, ValueError) as error:
            self._say(f"not kept: {error}", "$error")
            return
        self._layouts.all[name], self._layouts.chosen = text, name
        self._changed()
        self._say(f"kept: the next start begins with {name}")
