"""Points and lines over two axes, drawn by plotext as plain text and coloured by what they are."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from textual.content import Content

from inspector.draw.numbers import MUTED, cut

LEAST_WIDTH, LEAST_HEIGHT = 30, 5
"""Cells and lines that a chart needs for its axes and something between them."""

LINE = ""
"""The sign of what is drawn as a thin line through its points."""

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Dots:
    """Points that look alike: each as ``sign``, one character, or all joined to a ``LINE``."""

    points: tuple[Point, ...]
    sign: str
    style: str


@dataclass(frozen=True, slots=True)
class Axis:
    """Ends and labels of an axis; with ``log`` equal ratios are equally long."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    log: bool = False

    def place(self, value: float) -> float:
        """The place of a value, in plotext's own units."""
        return math.log10(value) if self.log else value

    def holds(self, value: float) -> bool:
        """True for a value that can be drawn."""
        return math.isfinite(value) and self.low <= value <= self.high


def decades(values: Iterable[float]) -> tuple[float, float]:
    """Powers of ten around positive ``values``: the ends of a logarithmic axis."""
    kept = [value for value in values if math.isfinite(value) and value > 0] or [1.0]
    low, high = math.floor(math.log10(min(kept))), math.ceil(math.log10(max(kept)))
    return 10.0**low, 10.0 ** max(high, low + 1)


# Drawing takes 10 to 20 ms, and a view that stands still is painted again and again.
@lru_cache(maxsize=16)
def xy_chart(
    dots: tuple[Dots, ...], across: Axis, up: Axis, width: int, height: int
) -> tuple[Content, ...]:
    """The chart in exactly ``height`` lines; what lies outside of the axes is not drawn.

    Of what falls into one cell, the later is seen. Empty where there is no room.
    """
    spans = across.low < across.high and up.low < up.high
    if width < LEAST_WIDTH or height < LEAST_HEIGHT or not spans:
        return ()
    # Only when something is drawn: the import takes longer than all panes of a first paint.
    import plotext

    plotext.clear_figure()
    plotext.limit_size(False, False)
    plotext.theme("clear")
    plotext.plot_size(width, height)
    for one in dots:
        inside = [(x, y) for x, y in one.points if across.holds(x) and up.holds(y)]
        if not inside:
            continue
        xs, ys = [across.place(x) for x, _ in inside], [up.place(y) for _, y in inside]
        if one.sign == LINE:
            plotext.plot(xs, ys, marker="braille")
        else:
            plotext.scatter(xs, ys, marker=one.sign)
    plotext.xlim(across.place(across.low), across.place(across.high))
    plotext.ylim(up.place(up.low), up.place(up.high))
    plotext.xticks([across.place(at) for at, _ in across.ticks], [name for _, name in across.ticks])
    plotext.yticks([up.place(at) for at, _ in up.ticks], [name for _, name in up.ticks])
    plotext.xaxes(True, False)
    plotext.yaxes(True, False)
    text = plotext.uncolorize(plotext.build())
    styles = {one.sign: one.style for one in dots if one.sign != LINE}
    line = next((one.style for one in dots if one.sign == LINE), MUTED)
    return tuple(_coloured(row, styles, line, width) for row in text.splitlines()[:height])


def _coloured(row: str, styles: dict[str, str], line: str, width: int) -> Content:
    """A line of the chart; signs, thin lines and axes each in their style."""
    parts: list[tuple[str, str]] = []
    for cell in row.rstrip():
        style = styles.get(cell, line if "\u2800" <= cell <= "\u28ff" else MUTED)
        if parts and parts[-1][1] == style:
            parts[-1] = (parts[-1][0] + cell, style)
        else:
            parts.append((cell, style))
    return cut(Content.assemble(*parts), width)
