"""The base of all panes: a picture drawn line by line, only what is on screen.

A pane says in ``picture`` what is to be seen of a view; this class scrolls, caches, selects and
repaints. Lines are Textual ``Content`` built without markup, so that model text is never parsed,
and coloured by the theme's variables (``"$bar"``, ``"on $surprisal-3"``, ``"$cut $cut-style"``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.events import Click, Resize
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBar
from textual.strip import Strip

from inspector.state.view import RunLog, View
from inspector.widgets.line_painter import Frame, LinePainter
from inspector.widgets.picture import Picture, Want
from inspector.widgets.scrollbar import PaneScrollBar

WHAT_IF = "WHAT IF, not the record"
"""In the title of a pane that shows what was tried; its border is dashed as well."""

_BLANK = Content("")
_NOTHING = (None, Size())
"""Key of lines that have not been made, or were made for another state."""


def _content(text: str | Content) -> Content:
    return text if isinstance(text, Content) else Content(text)


class Pane(ScrollView, can_focus=True, inherit_bindings=False):
    """One pane. A subclass says what is seen on it (``picture``), and what its keys do."""

    NAME: ClassVar[str] = ""
    """Shown in the border, the help and the palette."""

    SHORT: ClassVar[str] = ""
    """Short name for little room, if it has another one."""

    SELECTABLE: ClassVar[bool] = False
    """True if one row is highlighted and moved with the arrow keys. Leave its first cell blank."""

    # A text selection would need the text of lines that are not drawn.
    ALLOW_SELECT = False

    # A scrollbar that comes and goes would wrap the lines anew, and lay out the whole screen; one
    # that has nothing to scroll is blank.
    DEFAULT_CSS = "Pane { overflow-y: scroll; }"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False, id="pane.up"),
        Binding("down,j", "move(1)", "Down", show=False, id="pane.down"),
        Binding("pageup", "page(-1)", "Page up", show=False, id="pane.page-up"),
        Binding("pagedown", "page(1)", "Page down", show=False, id="pane.page-down"),
        Binding("home", "first", "Top", show=False, id="pane.top"),
        Binding("end", "last", "Bottom", show=False, id="pane.bottom"),
        Binding("enter", "choose", "Choose this row", show=False, id="pane.choose"),
    ]

    class Chosen(Message):
        """Enter or a double click on a row."""

        def __init__(self, pane: Pane, row: int) -> None:
            super().__init__()
            self.pane, self.row = pane, row

    def __init__(self, *, id: str | None = None, number: int | str | None = None) -> None:
        """``number`` is the key that gives the pane the focus."""
        super().__init__(id=id)
        self._title = Content(f"{number} {self.NAME}" if number else self.NAME)
        self.border_title = self._title
        self.view = View(RunLog())
        self.selected = 0
        self.drawn = Picture(())
        """The picture as it was made last."""
        self.painter = LinePainter(self)
        self._followed: tuple[int, Size] | None = None
        # What the picture was made for; by line on screen, which row it is and what it says.
        self._made_for: tuple[View | None, Size] = _NOTHING
        self._in_sight: dict[int, tuple[int, Content]] = {}
        self._titles: dict[str, Content] = {}
        # What Textual paints, by line on screen: the border, and lines of ours in their frame.
        self._edges: dict[int, Strip] = {}
        self._frame: Frame | None = None

    def picture(self, view: View, size: Size) -> Picture:
        """Draw ``view`` for a place of this size, which is never empty."""
        raise NotImplementedError

    @property
    def wants(self) -> Sequence[Want]:
        """Wishes of the picture of now, which is made if need be."""
        size = self.scrollable_content_region.size
        if size.area and not self._up_to_date:
            self._make(size)
        return self.drawn.wants

    def clicked(self, row: int, x: int) -> None:
        """A click on a row, ``x`` cells from its left edge."""
        if self.SELECTABLE:
            self.select(row)

    def double_clicked(self, row: int, x: int) -> None:
        """The second click of two in the same place, at once after the first."""
        if self.SELECTABLE and row == self.selected:
            self.action_choose()
        else:
            self.clicked(row, x)

    @property
    def vertical_scrollbar(self) -> ScrollBar:
        if self._vertical_scrollbar is None:
            bar = PaneScrollBar(self.prepare, self.scrollbar_size_vertical)
            bar.display = False
            self._vertical_scrollbar = bar
            self.app._start_widget(self, bar)
        return self._vertical_scrollbar

    # --- drawing ------------------------------------------------------------------------------

    def on_mount(self) -> None:
        self.show(self.view)

    def show(self, view: View) -> None:
        """Draw this view from now on; a pane that is hidden does so once it is in sight."""
        self.view = view
        if self.display:
            self.rebuild()

    def rebuild(self) -> None:
        """Make the lines again: the view, the size or something of the pane's own has changed."""
        size = self.scrollable_content_region.size
        if self.is_mounted and size.area:
            self._make(size)
            self._refresh_changed()
        else:
            self._made_for = _NOTHING

    def _make(self, size: Size) -> None:
        rows = self.drawn.rows
        self._made_for = (self.view, size)
        self.drawn = self.picture(self.view, size)
        if self.drawn.select is not None:
            self.selected = self.drawn.select
        elif self.selected > (last := max(0, len(self.drawn.rows) - 1)):
            self.selected = last
            self.drawn = self.picture(self.view, size)
        if self.drawn.rows is not rows:
            self._in_sight.clear()
        self._measure(size.width)
        self._entitle("border_subtitle", self.outer_size.height - 1, _content(self.drawn.subtitle))
        self.set_class(self.drawn.tries, "-what-if")
        remarks = [Content(WHAT_IF)] * self.drawn.tries + [_content(self.drawn.remark)]
        self._entitle("border_title", 0, Content(" · ").join([self._title, *filter(len, remarks)]))
        if self.drawn.top:
            self.scroll_to(y=0, animate=False)
        row = self.drawn.follow
        if row is not None and (row, size) != self._followed:
            # Only when it moved: who scrolled away to read must not be pulled back by a record.
            self.scroll_to_row(row)
            self._followed = (row, size)

    @property
    def _up_to_date(self) -> bool:
        view, size = self._made_for
        return view is self.view and size == self.scrollable_content_region.size

    def _measure(self, width: int) -> None:
        drawn = self.drawn
        size = Size(width, len(drawn.rows) + len(drawn.header) + len(drawn.footer))
        before = self.virtual_size
        if size != before:
            # Set as other attributes are, a row more would lay out the whole screen again.
            self.set_reactive(Pane.virtual_size, size)
            # A scrollbar is painted whole; one that is blank stays so.
            if max(size.height, before.height) > self.scrollable_content_region.height:
                self._scroll_update(size)

    def _entitle(self, name: str, y: int, title: Content) -> None:
        if not title.is_same(self._titles.get(name, _BLANK)):
            self._titles[name] = title
            # Set as other attributes are, a title repaints the whole pane.
            setattr(self, f"_{name}", title)
            self._edges.pop(y, None)
            line = Region(0, y, self.outer_size.width, 1)
            self.refresh(line.translate(-self.content_offset))

    def _refresh_changed(self) -> None:
        """Repaint the lines that differ from what is on screen, and no others."""
        width = self._made_for[1].width
        painted = self.painter.is_painted
        changed = [
            y
            for y, (line, selected) in enumerate(self._lines())
            if not painted(y, line, width, selected=selected)
        ]
        if changed:
            self.refresh(*(Region(0, y, width, 1) for y in changed))

    def on_resize(self, event: Resize) -> None:
        if not self._up_to_date:
            self.rebuild()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self.painter.forget()
        self._edges.clear()
        self._frame = None

    def prepare(self) -> None:
        """Make the lines, where the size has changed since they were made.

        A layout is painted before anybody is told of it. Made only then, the lines would be painted
        twice, and what was asked for would be in the second picture.
        """
        size = self.scrollable_content_region.size
        if size.area and not self._up_to_date:
            self._make(size)
            # All of both is being painted, with what has just changed.
            for widget in (self, self.vertical_scrollbar):
                widget._repaint_regions.clear()

    def render_lines(self, crop: Region) -> list[Strip]:
        if not self.scrollable_content_region.size.area:
            return super().render_lines(crop)
        self.prepare()
        top, inside = self.gutter.top, self._made_for[1]
        frame, framed = self._framed_now(top), self.painter.framed
        lines = dict(enumerate(self._lines(), start=top))
        strips = []
        for y in crop.line_range:
            if y in lines:
                line, selected = lines[y]
                strips.append(framed(y - top, line, inside.width, frame, selected=selected))
            else:
                strips.append(self._edge(y))
        if crop.column_span == (0, self.outer_size.width):
            return strips
        return [strip.crop(*crop.column_span) for strip in strips]

    def _framed_now(self, y: int) -> Frame:
        now = self.outer_size, self._made_for[1], self.get_line_filters()
        frame = self._frame
        if frame is None or now != (frame.size, frame.inside, frame.filters):
            self._edges.clear()
            self._frame = frame = self.painter.frame(self._edge(y), self._made_for[1])
        return frame

    def _edge(self, y: int) -> Strip:
        """A line as Textual paints it."""
        if y not in self._edges:
            self._edges[y] = super().render_lines(Region(0, y, self.outer_size.width, 1))[0]
        return self._edges[y]

    def render_line(self, y: int) -> Strip:
        line, selected = next(islice(self._lines(), y, None), (_BLANK, False))
        return self.painter.strip(y, line, self._made_for[1].width, selected=selected)

    def _lines(self) -> Iterator[tuple[Content, bool]]:
        """All lines inside the frame from the top, and True with one that is selected."""
        height = self._made_for[1].height
        return islice(self._all_lines(self.drawn, self.drawn.room(height)), height)

    def _all_lines(self, drawn: Picture, room: int) -> Iterator[tuple[Content, bool]]:
        selected = self.selected if self.has_focus else -1
        yield from ((line, False) for line in drawn.header)
        top, end = round(self.scroll_offset.y), len(drawn.rows)
        for index in range(top, top + room):
            at, row = self._in_sight.get(index - top, (-1, _BLANK))
            if at != index and index < end:
                row = drawn.rows[index]
                self._in_sight[index - top] = index, row
            yield row if index < end else _BLANK, self.SELECTABLE and index == selected < end
        for number, line in enumerate(drawn.footer):
            yield line, number < len(drawn.pinned) and drawn.pinned[number] == selected

    # --- moving -------------------------------------------------------------------------------

    @property
    def body_height(self) -> int:
        """Number of rows between the header and the footer."""
        return self.drawn.room(self.scrollable_content_region.height)

    def scroll_to_row(self, row: int) -> None:
        """Scroll just enough that ``row`` is in sight."""
        top = round(self.scroll_offset.y)
        if row < top:
            self.scroll_to(y=row, animate=False, force=True)
        elif row >= top + self.body_height:
            self.scroll_to(y=row - self.body_height + 1, animate=False, force=True)

    def select(self, row: int) -> None:
        """Select ``row`` (kept in range) and bring it into sight."""
        self.selected = max(0, min(row, len(self.drawn.rows) - 1))
        self.rebuild()
        self.scroll_to_row(self.selected)

    def action_move(self, by: int) -> None:
        if self.SELECTABLE:
            self.select(self.selected + by)
        else:
            self.scroll_relative(y=by, animate=False)

    def action_page(self, by: int) -> None:
        self.action_move(by * max(1, self.body_height - 1))

    def action_first(self) -> None:
        self.action_move(-len(self.drawn.rows))

    def action_last(self) -> None:
        self.action_move(len(self.drawn.rows))

    def action_choose(self) -> None:
        if self.SELECTABLE and len(self.drawn.rows):
            self.post_message(self.Chosen(self, self.selected))

    def on_click(self, event: Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None:
            return
        line = offset.y - len(self.drawn.header)
        row, below = line + round(self.scroll_offset.y), line - self.body_height
        if 0 <= below < len(self.drawn.pinned):
            row = self.drawn.pinned[below]
        elif not 0 <= line < self.body_height:
            return
        if row < len(self.drawn.rows):
            (self.double_clicked if event.chain == 2 else self.clicked)(row, offset.x)
