"""Lines in a pane's frame: the border and the padding left and right of what it says.

Textual puts them on at every repaint, line by line. They are the same for all lines, so here they
are put on once, and taken off again only when either changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.color import Color
from textual.filter import LineFilter
from textual.geometry import Spacing
from textual.strip import Strip
from textual.style import Style


@dataclass(frozen=True, eq=False, slots=True)
class Frame:
    """Borders and styles around each line, as it was painted."""

    left: Strip
    right: Strip
    inside: int
    """Cells between them."""
    style: Style
    filters: Sequence[LineFilter]
    background: Color

    def around(self, strip: Strip) -> Strip:
        """The whole line."""
        strip = strip.adjust_cell_length(self.inside, self.style.rich_style)
        for line_filter in self.filters:
            strip = strip.apply_filter(line_filter, self.background)
        return Strip.join((self.left, strip, self.right))

    def is_same(self, other: Frame | None) -> bool:
        """True if lines look the same in it."""
        return other is not None and (
            (self.left, self.right, self.inside, self.style, self.filters, self.background)
            == (other.left, other.right, other.inside, other.style, other.filters, other.background)
        )


def frame_of(
    painted: Strip, gutter: Spacing, style: Style, filters: Sequence[LineFilter], background: Color
) -> Frame:
    """The frame, from any line that Textual has painted in it."""
    width, right = painted.cell_length, gutter.right
    return Frame(
        painted.crop(0, gutter.left),
        painted.crop(width - right, width),
        width - gutter.width,
        style,
        filters,
        background,
    )
