"""Lines as strips: in their styles, in the frame around them, and kept until they change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.segment import Segment
from textual.color import TRANSPARENT, Color
from textual.content import Content
from textual.filter import LineFilter
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

from inspector.safe_screen import SAFE_TEXT
from inspector.widgets.styles import StyleWords

SELECTED = "▸"
"""Drawn over the first cell of the selected row, where that is a space: colour is not enough."""

_HIGHLIGHT = "on $block-cursor-blurred-background $block-cursor-blurred-text-style"


@dataclass(frozen=True, slots=True)
class Frame:
    """Border and padding left and right of each line, and styles, as Textual painted them.

    Textual puts them on at every repaint, line by line. They are the same for all lines, so here
    they are put on once, and taken off again only when either changes.
    """

    left: Strip
    right: Strip
    inside: int
    """Cells between them."""
    style: Style
    filters: Sequence[LineFilter]
    background: Color

    def around(self, strip: Strip) -> Strip:
        strip = strip.adjust_cell_length(self.inside, self.style.rich_style)
        for line_filter in self.filters:
            strip = strip.apply_filter(line_filter, self.background)
        return Strip.join((self.left, strip, self.right))


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


class LinePainter:
    """Paints the lines of a widget, each only when it differs from what is on screen."""

    def __init__(self, widget: Widget) -> None:
        self._widget = widget
        self._painted: dict[int, _Painted] = {}
        self._frame: Frame | None = None
        self._words = StyleWords()

    def forget(self) -> None:
        """The styles have changed."""
        self._painted.clear()
        self._words.forget()

    def style_of(self, text: str | Style) -> Style:
        """The style that ``text`` stands for; none where a theme lacks a variable."""
        if isinstance(text, Style):
            return text
        return self._words.style(text, self._widget.app.theme_variables)

    def is_painted(self, y: int, line: Content, width: int, *, selected: bool) -> bool:
        """True if the line at ``y`` was painted last, at this width."""
        drawn = self._painted.get(y)
        return (
            drawn is not None
            and (drawn.width, drawn.selected) == (width, selected)
            and (line is drawn.line or line.is_same(drawn.line))
        )

    def strip(self, y: int, line: Content, width: int, *, selected: bool) -> Strip:
        return self._line(y, line, width, selected).strip

    def framed(self, y: int, line: Content, width: int, frame: Frame, *, selected: bool) -> Strip:
        """The line at ``y`` with what is left and right of it."""
        drawn = self._line(y, line, width, selected)
        if drawn.framed is None or drawn.frame is not frame:
            drawn.frame, drawn.framed = frame, frame.around(drawn.strip)
        return drawn.framed

    def frame(self, painted: Strip) -> Frame:
        """The frame around a line that Textual has painted in it; the last one while it is so."""
        widget, width = self._widget, painted.cell_length
        gutter, (_, background) = widget.gutter, widget.background_colors
        frame = Frame(
            painted.crop(0, gutter.left),
            painted.crop(width - gutter.right, width),
            width - gutter.width,
            widget.visual_style,
            widget.get_line_filters(),
            background,
        )
        if self._frame is None or frame != self._frame:
            self._frame = frame
        return self._frame

    def _line(self, y: int, line: Content, width: int, selected: bool) -> _Painted:
        if not self.is_painted(y, line, width, selected=selected):
            self._painted[y] = _Painted(line, selected, width, self._drawn(line, width, selected))
        return self._painted[y]

    def _drawn(self, line: Content, width: int, selected: bool) -> Strip:
        base = self._widget.visual_style
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
