"""Lines as strips: in their styles, in the frame around them, and kept until they change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.color import TRANSPARENT, Color
from textual.content import Content
from textual.filter import LineFilter
from textual.geometry import Size
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
    """Border and padding left and right of each line, as Textual painted them, and its filters.

    Textual puts them on at every repaint, line by line. They are the same for all lines, so here
    they are put on once, and taken off again only when either changes.
    """

    left: Sequence[Segment]
    right: Sequence[Segment]
    size: Size
    """Cells of the whole widget."""
    inside: Size
    """Cells of its lines."""
    filters: Sequence[LineFilter]
    background: Color

    def around(self, line: list[Segment]) -> Strip:
        for line_filter in self.filters:
            line = line_filter.apply(line, self.background)
        return Strip([*self.left, *line, *self.right], self.size.width)


@dataclass(eq=False, slots=True)
class _Painted:
    """A line on screen, and what it was drawn from."""

    line: Content
    selected: bool
    width: int
    segments: list[Segment]
    frame: Frame | None = None
    framed: Strip | None = None
    """The line in that frame."""


class LinePainter:
    """Paints the lines of a widget, each only when it differs from what is on screen."""

    def __init__(self, widget: Widget) -> None:
        self._widget = widget
        self._painted: dict[int, _Painted] = {}
        self._words = StyleWords()
        self._looks: tuple[object, ...] = ()
        # Over each style that a line has, the words in its text and what they are for Rich.
        self._styles: dict[Style, dict[str | Style, RichStyle]] = {}

    def forget(self) -> None:
        """The styles may have changed; a focus that comes or goes changes none that a line has."""
        looks = self._widget.visual_style, self._widget.app.theme_variables
        if looks != self._looks:
            self._looks = looks
            self._painted.clear()
            self._words.forget()
            self._styles.clear()

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
        return Strip(self._line(y, line, width, selected).segments, width)

    def framed(self, y: int, line: Content, width: int, frame: Frame, *, selected: bool) -> Strip:
        """The line at ``y`` with what is left and right of it."""
        drawn = self._line(y, line, width, selected)
        if drawn.framed is None or drawn.frame is not frame:
            drawn.frame, drawn.framed = frame, frame.around(drawn.segments)
        return drawn.framed

    def frame(self, painted: Strip, inside: Size) -> Frame:
        """The frame around a line that Textual has painted in it; ``inside``: size of all lines."""
        widget, size = self._widget, self._widget.outer_size
        left = widget.gutter.left
        return Frame(
            [*painted.crop(0, left)],
            [*painted.crop(left + inside.width, size.width)],
            size,
            inside,
            widget.get_line_filters(),
            widget.background_colors[1],
        )

    def _line(self, y: int, line: Content, width: int, selected: bool) -> _Painted:
        if not self.is_painted(y, line, width, selected=selected):
            self._painted[y] = _Painted(line, selected, width, self._drawn(line, width, selected))
        return self._painted[y]

    def _drawn(self, line: Content, width: int, selected: bool) -> list[Segment]:
        base = under = self._widget.visual_style
        line = line.truncate(width, ellipsis=True)
        if selected:
            if line.plain.startswith(" "):
                line = Content.styled(SELECTED, "bold") + line[1:]
            under += self.style_of(_HIGHLIGHT)
            base = under + self.style_of("bold")
        segments = self._segments(line, base)
        if (rest := width - line.cell_length) > 0:
            segments.append(Segment(" " * rest, under.rich_style))
        # The app's own filter does it too, but a pane must be safe in any app.
        return segments if line.plain.isprintable() else SAFE_TEXT.apply(segments, TRANSPARENT)

    def _segments(self, line: Content, base: Style) -> list[Segment]:
        """The text in its styles, as ``Content.render`` has it, which takes many times as long.

        Not ``Visual.to_strips``: that wraps words, and takes spaces off the ends of lines.
        """
        text, at = line.plain, 0
        styles = self._styles.setdefault(base, {"": base.rich_style})
        pieces: list[tuple[str, RichStyle]] = []
        for start, end, words in line.spans:
            if start < at:
                # One within another: the last one wins, whatever is not said in it is inherited.
                found = line.render(base, end="", parse_style=self.style_of)
                return [Segment(piece, style.rich_style) for piece, style in found]
            style = styles.get(words)
            if style is None:
                style = styles[words] = (base + self.style_of(words)).rich_style
            pieces += ((text[at:start], styles[""]), (text[start:end], style))
            at = end
        pieces.append((text[at:], styles[""]))
        return [Segment(piece, style) for piece, style in pieces if piece]
