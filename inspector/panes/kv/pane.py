"""The KV cache: the pool of blocks, where the cursor's text lies in it, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from textual.binding import Binding
from textual.events import Leave, MouseMove
from textual.geometry import Size

from inspector.draw.numbers import Mark, plural, with_marks
from inspector.draw.numbers import size as amount
from inspector.messages import GoTo
from inspector.panes.kv.branch import Place
from inspector.panes.kv.detail import block_lines, last_node
from inspector.panes.kv.layout import KVRows, kv_rows
from inspector.panes.kv.logical import state
from inspector.panes.kv.pool import PoolLook, pool_look
from inspector.state.view import View
from inspector.widgets.line_view import Pane
from inspector.widgets.picture import Picture

_DETAILS_FROM = 7
"""The pane's height from which the chosen block is told about below."""


@dataclass(frozen=True)
class KVUI:
    """State of the pane."""

    picked: Place | None = None
    """The block that the user chose."""
    under_mouse: Place | None = None


def draw(view: View, size: Size, ui: KVUI = KVUI()) -> Picture:
    """The pane."""
    (width, height), look, footer = size, pool_look(view), []
    place = _chosen(look, ui)
    if not isinstance(look, str) and place is not None and height >= _DETAILS_FROM:
        footer = block_lines(view, look, place, width)
    kv, held = state(view), ""
    if kv is not None:
        held = plural(kv.stored, "position")
        if kv.nbytes is not None:
            by_formula = view.facts is not None and view.facts.kv_by_formula
            mark = Mark.DERIVED if by_formula else Mark.MEASURED
            held = f"{held} · {amount(kv.nbytes)} {mark}"
    rows = kv_rows(view, width, max(1, height - len(footer)), look, place)
    return Picture(rows, footer=footer, subtitle=with_marks(held, width))


def _chosen(look: PoolLook | str, ui: KVUI) -> Place | None:
    """The block that is told about."""
    if isinstance(look, str):
        return None
    for place in (ui.under_mouse, ui.picked):
        # The pool may have become another one since.
        if place is not None and _is_in(look, place):
            return place
    return look.cursor.newest(look.pool.block_size)


def _is_in(look: PoolLook, place: Place) -> bool:
    return place.group < len(look.groups) and place.block < len(look.groups[place.group].kind)


class KVPane(Pane):
    """The KV cache at the cursor. A click or enter on a block posts ``GoTo`` with its last node.

    The chosen block is the one that the cursor's newest position is in, until another is chosen;
    the one under the mouse comes before it.
    """

    NAME = "KV cache"
    SHORT = "KV"
    HELP = """
The grid is the pool of blocks that K and V lie in, in the pool's own order. **█** is part of the
text that led to the cursor's token, **▓** of a branch that is held, **░** of one that nobody holds:
it stays until its room is needed, oldest first. A low block is part-filled, a digit is how many
branches share it (**+**: ten or more), **·** is free, **×** free because it was thrown out.
A new branch begins some blocks behind the last one: so each can grow in one piece.

**[** and **]** choose the block before and after, **↑** and **↓** one a line up or down, and so
does the mouse; the lines below say what it holds. **enter**, or a click, goes to its last token.
**pgup** and **pgdn** scroll.

*table* is where each logical block lies: in one piece it is read as a view, without a copy.
*unpaged* is what a reservation of the whole context in one piece would waste instead.

*this round*: positions that a speculative round wrote, **█** kept and **↶** taken back: those of
drafts that were not accepted. **│** is the edge of a block.
"""

    BINDINGS = [
        Binding(
            "left_square_bracket",
            "block(-1)",
            "Block before",
            show=False,
            key_display="[",
            id="kv.block-before",
        ),
        Binding(
            "right_square_bracket",
            "block(1)",
            "Block after",
            show=False,
            key_display="]",
            id="kv.block-after",
        ),
    ]

    _ui = KVUI()

    @property
    def _rows(self) -> KVRows:
        return self.drawn.rows if isinstance(self.drawn.rows, KVRows) else KVRows()

    def picture(self, view: View, size: Size) -> Picture:
        return draw(view, size, self._ui)

    def show(self, view: View) -> None:
        if view.cursor != self.view.cursor:
            # The choice goes with the cursor.
            self._ui = replace(self._ui, picked=None)
        super().show(view)

    # --- the chosen block -------------------------------------------------------------------------

    def choose(self, place: Place | None) -> None:
        if place is None:
            return
        self._ui = replace(self._ui, picked=place, under_mouse=None)
        self.rebuild()
        row = self._rows.row_of(place)
        if row is not None:
            self.scroll_to_row(row)

    def action_block(self, by: int) -> None:
        self.choose(self._rows.beside(by))

    def action_move(self, by: int) -> None:
        place = self._rows.below(by)
        if place is None:
            super().action_move(by)
        else:
            self.choose(place)

    def action_page(self, by: int) -> None:
        self.scroll_relative(y=by * max(1, self.body_height - 1), animate=False)

    def action_first(self) -> None:
        self.scroll_home(animate=False)
        self.choose(self._rows.outermost(last=False))

    def action_last(self) -> None:
        self.choose(self._rows.outermost(last=True))

    def action_choose(self) -> None:
        look, place = pool_look(self.view), self._rows.chosen
        if place is None or isinstance(look, str):
            return
        node = last_node(self.view, look, place)
        if node is not None:
            self.post_message(GoTo(node))

    # --- the mouse --------------------------------------------------------------------------------

    def _hover(self, place: Place | None) -> None:
        if place != self._ui.under_mouse:
            self._ui = replace(self._ui, under_mouse=place)
            self.rebuild()

    def on_mouse_move(self, event: MouseMove) -> None:
        offset = event.get_content_offset(self)
        inside = offset is not None and offset.y < self.body_height
        if offset is None or not inside:
            self._hover(None)
        else:
            row = offset.y + round(self.scroll_offset.y)
            self._hover(self._rows.block_at(row, offset.x))

    def on_leave(self, event: Leave) -> None:
        self._hover(None)

    def clicked(self, row: int, x: int) -> None:
        place = self._rows.block_at(row, x)
        if place is not None:
            self.choose(place)
            self.action_choose()
