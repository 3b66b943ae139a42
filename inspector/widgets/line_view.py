"""The base of all panes: lines drawn one by one, only those on screen, from a pure function.

A pane subclass says what its lines are (``header``, ``rows`` and ``footer``); this class scrolls,
caches, selects and repaints. Lines are Textual ``Content`` built without markup, so that model
text is never parsed, and coloured by the theme's variables (``"$bar"``, ``"on $surprisal-3"``,
``"$cut $cut-style"``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar, Protocol

from rich.segment import Segment
from textual.binding import Binding, BindingType
from textual.color import TRANSPARENT
from textual.content import Content
from textual.events import Click, Resize
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBar
from textual.strip import Strip
from textual.style import Style

from inspector.safe_screen import SAFE_TEXT
from inspector.state.view import RunLog, View
from inspector.widgets.frame import Frame, frame_of
from inspector.widgets.scrollbar import PaneScrollBar
from inspector.widgets.styles import StyleWords

SELECTED = "▸"
"""Drawn over the first cell of the selected row, where that is a space: colour is not enough."""

WHAT_IF = "WHAT IF, not the record"
"""In the title of a pane that shows what was tried; its border is dashed as well."""

_HIGHLIGHT = "on $block-cursor-blurred-background"


class Rows(Protocol):
    """Lines that are made when asked for: a list will do, and so will a whole vocabulary."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Content: ...


_BLANK = Content("")


_NOTHING = (None, Size())
"""Key of lines that have not been made, or were made for another state."""


@dataclass(eq=False, slots=True)
class _Painted:
    """A line on screen, and what it was drawn from."""

    line: Content
    selected: bool
    width: int
    strip: Strip
    frame: Frame | None = None
    framed: Strip | None = None
    """The strip in that frame."""


def _stretches(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Rising numbers as runs without a gap: (the first, how many)."""
    for _, run in groupby(enumerate(numbers), lambda one: one[1] - one[0]):
        found = [number for _, number in run]
        yield found[0], len(found)


def _content(text: str | Content) -> Content:
    return text if isinstance(text, Content) else Content(text)


class Pane(ScrollView, can_focus=True, inherit_bindings=False):
    """One pane. Subclasses override ``rows`` and, where they like, the other hooks."""

    NAME: ClassVar[str] = ""
    """Shown in the border, the help and the palette."""

    SHORT: ClassVar[str] = ""
    """Short name for little room, if it has another one."""

    SELECTABLE: ClassVar[bool] = False
    """True if one row is highlighted and moved with the arrow keys. Leave its first cell blank."""

    TRIES: ClassVar[bool] = False
    """True if a chain that is tried changes what it shows."""

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
        """Enter or a click on the row that was selected already."""

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
        self._header: Sequence[Content] = ()
        self._footer: Sequence[Content] = ()
        self._rows: Rows = ()
        self._followed: tuple[int, Size] | None = None
        # What the lines were made for; and by line on screen, which row it is and what it says.
        self._made_for: tuple[View | None, Size] = _NOTHING
        self._in_sight: dict[int, tuple[int, Content]] = {}
        self._painted: dict[int, _Painted] = {}
        self._frame: Frame | None = None
        self._titles: dict[str, Content] = {}
        self._words = StyleWords()

    # --- what a pane says of itself -----------------------------------------------------------

    def header(self, view: View, width: int) -> Sequence[Content]:
        """Lines that stay at the top while the rest scrolls."""
        return ()

    def rows(self, view: View, width: int, height: int) -> Rows:
        """The pane's lines, each at most ``width`` cells; ``height`` is what fits on screen."""
        raise NotImplementedError

    def footer(self, view: View, width: int) -> Sequence[Content]:
        """Lines that stay at the bottom. Asked anew whenever another row is selected."""
        return ()

    def tries(self, view: View) -> bool:
        """True if the lines show what a chain to try would do, and not the record."""
        return False

    def remark(self, view: View) -> Content:
        """A remark in the title."""
        return Content("")

    def needs_dense(self, view: View) -> bool:
        """True if the pane lacks the whole logits of the cursor's step; they are then asked for."""
        return False

    def subtitle(self, view: View) -> str | Content:
        """A short figure for the border."""
        return ""

    def follow(self, view: View) -> int | None:
        """The row that belongs to the cursor, if any; brought into sight when it changes."""
        return None

    def clicked(self, row: int, x: int) -> None:
        """A click on a row, ``x`` cells from its left edge."""
        if self.SELECTABLE:
            if row == self.selected:
                self.action_choose()
            self.select(row)

    @property
    def vertical_scrollbar(self) -> ScrollBar:
        if self._vertical_scrollbar is None:
            bar = PaneScrollBar(name="vertical", thickness=self.scrollbar_size_vertical)
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
        """Make the lines, the titles and all else that the view says, for a place of this size."""
        width = size.width
        self._made_for = (self.view, size)
        self._in_sight.clear()
        self._header = self.header(self.view, width)
        self._footer = self.footer(self.view, width)
        self._rows = self.rows(self.view, width, self.body_height)
        if self.selected >= len(self._rows):
            self.selected = max(0, len(self._rows) - 1)
            self._footer = self.footer(self.view, width)
        self._measure(width)
        self._entitle("border_subtitle", _content(self.subtitle(self.view)))
        tries = self.tries(self.view)
        self.set_class(tries, "-what-if")
        remarks = [Content(WHAT_IF)] * tries + [self.remark(self.view)]
        self._entitle("border_title", Content(" · ").join([self._title, *filter(len, remarks)]))
        row = self.follow(self.view)
        if row is not None and (row, size) != self._followed:
            # Only when it moved: who scrolled away to read must not be pulled back by a record.
            self.scroll_to_row(row)
            self._followed = (row, size)

    @property
    def _up_to_date(self) -> bool:
        """True if the lines are those of the view and the size that there are now."""
        view, size = self._made_for
        return view is self.view and size == self.scrollable_content_region.size

    def _measure(self, width: int) -> None:
        size = Size(width, len(self._rows) + len(self._header) + len(self._footer))
        before = self.virtual_size
        if size != before:
            # Set as other attributes are, a row more would lay out the whole screen again.
            self.set_reactive(Pane.virtual_size, size)
            # A scrollbar is painted whole; one that is blank stays so.
            if max(size.height, before.height) > self.scrollable_content_region.height:
                self._scroll_update(size)

    def _entitle(self, name: str, title: Content) -> None:
        # Setting a title repaints the whole pane, the same title too.
        if not title.is_same(self._titles.get(name, Content(""))):
            self._titles[name] = title
            setattr(self, name, title)

    def _refresh_changed(self) -> None:
        """Repaint the lines that differ from what is on screen, and no others."""
        width, height = self._made_for[1]
        changed = [y for y in range(height) if self._painted_still(y) is None]
        if changed:
            self.refresh(*(Region(0, y, width, count) for y, count in _stretches(changed)))

    def on_resize(self, event: Resize) -> None:
        if not self._up_to_date:
            self.rebuild()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._painted.clear()
        self._words.forget()

    def render_lines(self, crop: Region) -> list[Strip]:
        # A layout is painted before anybody is told of it. Made only then, the lines would be
        # painted twice, and what was asked for would be in the second picture.
        size = self.scrollable_content_region.size
        if not size.area:
            return super().render_lines(crop)
        if not self._up_to_date:
            self._make(size)
        width, height = self.outer_size
        top, below = self.gutter.top, height - self.gutter.bottom
        frame = self._framed_now(top)
        strips = [
            self._in_frame(y - top, frame)
            if top <= y < below
            else super(Pane, self).render_lines(Region(0, y, width, 1))[0]
            for y in crop.line_range
        ]
        if crop.column_span == (0, width):
            return strips
        return [strip.crop(*crop.column_span) for strip in strips]

    def _framed_now(self, y: int) -> Frame:
        """The frame as Textual paints it around the line ``y`` of the widget."""
        painted = super().render_lines(Region(0, y, self.outer_size.width, 1))[0]
        _, background = self.background_colors
        filters = self.get_line_filters()
        frame = frame_of(painted, self.gutter, self.visual_style, filters, background)
        if not frame.is_same(self._frame):
            self._frame = frame
        assert self._frame is not None
        return self._frame

    def _in_frame(self, y: int, frame: Frame) -> Strip:
        drawn = self._line_drawn(y)
        if drawn.framed is None or drawn.frame is not frame:
            drawn.frame, drawn.framed = frame, frame.around(drawn.strip)
        return drawn.framed

    def render_line(self, y: int) -> Strip:
        return self._line_drawn(y).strip

    def _line_drawn(self, y: int) -> _Painted:
        drawn = self._painted_still(y)
        if drawn is None:
            width = self._made_for[1].width
            line, selected = self._line(y)
            drawn = _Painted(line, selected, width, self._strip(line, width, selected=selected))
            self._painted[y] = drawn
        return drawn

    def _line(self, y: int) -> tuple[Content, bool]:
        """The pane's line ``y``, and True if it is the selected row."""
        above, below = len(self._header), len(self._footer)
        height = max(1, self._made_for[1].height - above - below)
        if y < above:
            return self._header[y], False
        if y >= above + height:
            line = y - above - height
            return (self._footer[line] if line < below else _BLANK), False
        index = y - above + round(self.scroll_offset.y)
        if index >= len(self._rows):
            return _BLANK, False
        at, row = self._in_sight.get(y, (-1, _BLANK))
        if at != index:
            row = self._rows[index]
            self._in_sight[y] = index, row
        return row, self.SELECTABLE and index == self.selected and self.has_focus

    def _painted_still(self, y: int) -> _Painted | None:
        """The line drawn at ``y``, if it is what would be drawn now."""
        drawn = self._painted.get(y)
        if drawn is None or drawn.width != self._made_for[1].width:
            return None
        line, selected = self._line(y)
        if selected != drawn.selected:
            return None
        return drawn if line is drawn.line or line.is_same(drawn.line) else None

    def _strip(self, line: Content, width: int, *, selected: bool) -> Strip:
        base = self.visual_style
        line = line.truncate(width, ellipsis=True)
        if selected:
            if line.plain.startswith(" "):
                line = Content.styled(SELECTED, "bold") + line[1:]
            line = line.stylize_before(f"{_HIGHLIGHT} bold")
            base += self.style_of(_HIGHLIGHT)
        # Not Visual.to_strips: that wraps words, and takes spaces off the ends of lines.
        segments = [
            Segment(text, style.rich_style)
            for text, style in line.render(base, end="", parse_style=self.style_of)
        ]
        strip = Strip(segments, line.cell_length).extend_cell_length(width, base.rich_style)
        # The app's own filter does it too, but a pane must be safe in any app.
        return strip if line.plain.isprintable() else strip.apply_filter(SAFE_TEXT, TRANSPARENT)

    def style_of(self, text: str | Style) -> Style:
        """The style that ``text`` stands for; none where a theme lacks a variable."""
        if isinstance(text, Style):
            return text
        return self._words.style(text, self.app.theme_variables)

    # --- moving -------------------------------------------------------------------------------

    @property
    def body_height(self) -> int:
        """Number of rows between the header and the footer."""
        fixed = len(self._header) + len(self._footer)
        return max(1, self.scrollable_content_region.height - fixed)

    def scroll_to_row(self, row: int) -> None:
        """Scroll just enough that ``row`` is in sight."""
        top = round(self.scroll_offset.y)
        if row < top:
            self.scroll_to(y=row, animate=False, force=True)
        elif row >= top + self.body_height:
            self.scroll_to(y=row - self.body_height + 1, animate=False, force=True)

    def select(self, row: int) -> None:
        """Select ``row`` (kept in range) and bring it into sight."""
        self.selected = max(0, min(row, len(self._rows) - 1))
        self.refresh_footer()
        self.scroll_to_row(self.selected)

    def refresh_footer(self) -> None:
        """Make the lines at the bottom again, and no others."""
        size = self.scrollable_content_region.size
        if not size.area:
            # Out of sight; it is made with all the rest.
            self._made_for = _NOTHING
            return
        width = size.width
        before = len(self._footer)
        self._footer = self.footer(self.view, width)
        if len(self._footer) != before:
            self._measure(width)
        self._refresh_changed()

    def action_move(self, by: int) -> None:
        if self.SELECTABLE:
            self.select(self.selected + by)
        else:
            self.scroll_relative(y=by, animate=False)

    def action_page(self, by: int) -> None:
        self.action_move(by * max(1, self.body_height - 1))

    def action_first(self) -> None:
        self.action_move(-len(self._rows))

    def action_last(self) -> None:
        self.action_move(len(self._rows))

    def action_choose(self) -> None:
        if self.SELECTABLE and len(self._rows):
            self.post_message(self.Chosen(self, self.selected))

    def on_click(self, event: Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None:
            return
        line = offset.y - len(self._header)
        row = line + round(self.scroll_offset.y)
        if 0 <= line < self.body_height and row < len(self._rows):
            self.clicked(row, offset.x)
