"""The KV cache: the pool of blocks, where the cursor's text lies in it, and what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.events import Leave, MouseMove

from inspector.draw.numbers import plural, size
from inspector.messages import GoTo
from inspector.panes.kv.branch import Place, TextTree
from inspector.panes.kv.detail import block_lines, last_node
from inspector.panes.kv.layout import KVRows, kv_rows
from inspector.panes.kv.logical import state
from inspector.panes.kv.pool import PoolLook, pool_look
from inspector.state.view import View
from inspector.widgets.line_view import Pane, Rows

_DETAILS_FROM = 7
"""The pane's height from which the chosen block is told about below."""


class KVPane(Pane):
    """The KV cache at the cursor. A click or enter on a block posts ``GoTo`` with its last node.

    The chosen block is the one that the cursor's newest position is in, until another is chosen;
    the one under the mouse comes before it.
    """

    NAME: ClassVar[str] = "KV cache"
    SHORT: ClassVar[str] = "KV"
    HELP = """
The grid is the pool of blocks that K and V lie in, in the pool's own order. **█** is part of the
text that led to the cursor's token, **▓** of a branch that is held, **░** of one that nobody holds:
it stays until its room is needed, oldest first. A low block is part-filled, a digit is how many
branches share it (**+**: ten or more), **·** is free, **×** free because it was thrown out.

**[** and **]** choose the block before and after, **↑** and **↓** one a line up or down, and so
does the mouse; the lines below say what it holds. **enter**, or a click, goes to its last token.
**pgup** and **pgdn** scroll.

*table* is where each logical block lies: in one piece it is read as a view, without a copy.
*unpaged* is what a reservation of the whole context in one piece would waste instead.
"""

    BINDINGS: ClassVar[list[BindingType]] = [
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

    def __init__(self, *, id: str | None = None, number: int | str | None = None) -> None:
        super().__init__(id=id, number=number)
        self._texts = TextTree(self.view.log)
        self._look: PoolLook | str = ""
        self._source: tuple[object, ...] = ()
        self._lines: KVRows | None = None
        self._picked: Place | None = None
        self._under_mouse: Place | None = None
        self._cursor: int | None = None

    # --- lines ----------------------------------------------------------------------------------

    def header(self, view: View, width: int) -> Sequence[Content]:
        # The first hook that is asked: what the others need is found here.
        if view.log.tree is not self._texts.nodes:
            self._texts = TextTree(view.log)
        source = (view.pool, view.prompt, view.prefill, view.step, self._texts)
        if source != self._source:
            self._look, self._source = pool_look(view, self._texts), source
        if view.cursor != self._cursor:
            # The choice goes with the cursor.
            self._cursor, self._picked = view.cursor, None
        return ()

    def rows(self, view: View, width: int, height: int) -> Rows:
        self._lines = kv_rows(view, width, height, self._look, self.chosen)
        return self._lines

    def footer(self, view: View, width: int) -> Sequence[Content]:
        height, place, look = self.scrollable_content_region.height, self.chosen, self._look
        if isinstance(look, str) or place is None or height < _DETAILS_FROM:
            return ()
        return block_lines(view, look, place, width)

    def subtitle(self, view: View) -> str:
        kv = state(view)
        if kv is None:
            return ""
        held = plural(kv.stored, "position")
        return held if kv.nbytes is None else f"{held} · {size(kv.nbytes)}"

    # --- the chosen block -------------------------------------------------------------------------

    @property
    def chosen(self) -> Place | None:
        """The block that is told about."""
        look = self._look
        if isinstance(look, str):
            return None
        newest = look.cursor.newest(look.pool.block_size)
        for place in (self._under_mouse, self._picked):
            # The pool may have become another one since.
            if place is not None and _is_in(look, place):
                return place
        return newest

    def choose(self, place: Place | None) -> None:
        """Choose a block and bring it into sight."""
        if place is None:
            return
        self._picked, self._under_mouse = place, None
        self.rebuild()
        row = self._lines.row_of(place) if self._lines is not None else None
        if row is not None:
            self.scroll_to_row(row)

    def action_block(self, by: int) -> None:
        """Choose the block before or after."""
        if self._lines is not None:
            self.choose(self._lines.beside(self.chosen, by))

    def action_move(self, by: int) -> None:
        place = self._lines.below(self.chosen, by) if self._lines is not None else None
        if place is None:
            super().action_move(by)
        else:
            self.choose(place)

    def action_page(self, by: int) -> None:
        self.scroll_relative(y=by * max(1, self.body_height - 1), animate=False)

    def action_first(self) -> None:
        self.scroll_home(animate=False)
        if self._lines is not None:
            self.choose(self._lines.outermost(last=False))

    def action_last(self) -> None:
        if self._lines is not None:
            self.choose(self._lines.outermost(last=True))

    def action_choose(self) -> None:
        look, place = self._look, self.chosen
        if isinstance(look, str) or place is None:
            return
        node = last_node(self.view, look, place)
        if node is not None:
            self.post_message(GoTo(node))

    # --- the mouse --------------------------------------------------------------------------------

    def _hover(self, place: Place | None) -> None:
        if place != self._under_mouse:
            self._under_mouse = place
            self.rebuild()

    def on_mouse_move(self, event: MouseMove) -> None:
        offset = event.get_content_offset(self)
        inside = offset is not None and offset.y < self.body_height
        if self._lines is None or offset is None or not inside:
            self._hover(None)
            return
        self._hover(self._lines.block_at(offset.y + round(self.scroll_offset.y), offset.x))

    def on_leave(self, event: Leave) -> None:
        self._hover(None)

    def clicked(self, row: int, x: int) -> None:
        place = self._lines.block_at(row, x) if self._lines is not None else None
        if place is not None:
            self.choose(place)
            self.action_choose()


def _is_in(look: PoolLook, place: Place) -> bool:
    return place.group < len(look.groups) and place.block < len(look.groups[place.group].kind)
