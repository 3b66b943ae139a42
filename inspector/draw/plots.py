"""A series over steps, drawn in whatever room there is: one line, two, or a chart with axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from textual.content import Content

from engine.timing import percentile
from inspector.draw.block_chars import NOT_FINITE, chart, dots, spark
from inspector.draw.numbers import MEANING, MUTED, Mark, cut, fit, muted, padded, right

CHART_FROM = 4
AXIS = 10
WIDEST = 3
SMALLEST_SPAN = 1e-6
LEAST = 8
"""With fewer steps than this the figures make way for the drawing."""


@dataclass(frozen=True)
class Series:
    """One value a step, the newest last, and how to show it.

    ``skipped`` maps the index of a value that is in no figure to the letter shown in its place.
    """

    name: str
    title: str
    values: Sequence[float] | NDArray[np.float64]
    text: Callable[[float | None], str]
    mark: Mark
    style: str
    skipped: Mapping[int, str]
    first_step: int = 1
    none_yet: str = "no step yet"
    """The reason for which there are no values."""
    nearby: bool = False
    """True if values lie close together, far from 0: a chart then shows where, not how much."""

    def tail(self, count: int) -> Series:
        drop = max(0, len(self.values) - count)
        return replace(
            self,
            values=self.values[drop:],
            skipped={i - drop: letter for i, letter in self.skipped.items() if i >= drop},
            first_step=self.first_step + drop,
        )

    @cached_property
    def counted(self) -> NDArray[np.float64]:
        """The values that are in the figures: not skipped, and finite."""
        values = np.asarray(self.values, np.float64)
        counts = np.isfinite(values)
        counts[list(self.skipped)] = False
        return values[counts]

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the greatest value that is in the figures, of which there are some."""
        return float(self.counted.min()), float(self.counted.max())


def plot(series: Series, width: int, height: int) -> list[Content]:
    """The series in at most ``height`` lines; the newest steps where ``width`` is not enough."""
    if not len(series.values):
        return [cut(padded(muted(series.name), AXIS) + muted(f"—  {series.none_yet}"), width)]
    if height <= 1:
        return [_line(series, width)]
    if height < CHART_FROM:
        drawn = series.tail(max(1, width))
        return [_stats(drawn, width), _wide(spark_row(drawn), drawn, width)]
    return [_stats(series, width), *_chart(series, width, height - 1)]


def _line(series: Series, width: int) -> Content:
    """``latency  ▃▃▄w▃  41.0 ms – 52.3 ms •``: all in one line, of the steps that are drawn."""
    room = max(1, width - AXIS)
    head = padded(muted(series.name), AXIS)
    for form in ("  {low} – {high}", "  to {high}", ""):
        drawn, left, note = series.tail(room), room + 1, Content("")
        # A longer note leaves room for fewer steps, and those may have other bounds.
        while left + note.cell_length > room:
            left = room - note.cell_length
            drawn = series.tail(max(1, left))
            note = _bounds(drawn, form)
        if left >= min(len(series.values), LEAST) or not form:
            break
    return cut(Content.assemble(head, _wide(spark_row(drawn), drawn, left), note), width)


def _bounds(series: Series, form: str) -> Content:
    """The least and the greatest value in words; nothing where there are none."""
    if not form or not len(series.counted):
        return Content("")
    low, high = map(series.text, series.bounds)
    return _marked(series, form.format(low=low, high=high))


def _marked(series: Series, text: str) -> Content:
    return Content.assemble((text, MUTED), (f" {series.mark}", f"${MEANING[series.mark]}"))


def _stats(series: Series, width: int) -> Content:
    """Title, least, median and most of the whole series, and what was left out of it."""
    title, name = Content.styled(series.title, "bold"), Content.styled(series.name, "bold")
    counted = series.counted
    if not len(counted):
        return cut(title + muted("  —  no value to show"), width)
    text = series.text
    (low, high), middle = series.bounds, percentile(counted, 0.5)
    spread = _marked(series, f"  {text(low)} – {text(high)}")
    median = _marked(series, f"  {text(low)} – {text(high)}, median {text(middle)}")
    lost = len(series.values) - len(counted)
    out = muted(f"  {lost:,} left out" if lost else "")
    return fit(width, title + median + out, title + median, title + spread, name + spread, name)


def spark_row(series: Series) -> str:
    """One character a step: letters for what was left out."""
    cells = spark(_drawn(series), series.bounds[1] if len(series.counted) else 0.0)
    return _lettered(series, cells)


def _drawn(series: Series) -> list[float | None]:
    drawn: list[float | None] = np.asarray(series.values, np.float64).tolist()
    for index in series.skipped:
        drawn[index] = None
    return drawn


def _lettered(series: Series, cells: str) -> str:
    return "".join(series.skipped.get(i, cell) for i, cell in enumerate(cells))


def _each(series: Series, width: int) -> int:
    """Cells a step: more than one where there are few."""
    return max(1, min(WIDEST, width // max(1, len(series.values))))


def _wide(cells: str, series: Series, width: int) -> Content:
    each = _each(series, width)
    letters = {*series.skipped.values(), NOT_FINITE}
    gap = "" if each == 1 else " "
    wide = "".join(
        (cell if cell in letters else cell * (each - len(gap))).ljust(each) for cell in cells
    )
    return Content.styled(wide, series.style)


def _chart(series: Series, width: int, height: int) -> list[Content]:
    """A scale at the left, the steps' numbers below, and the values in between."""
    room = width - AXIS - 1
    shown = series.tail(max(1, room))
    if room < LEAST or not len(shown.counted):
        return [_wide(spark_row(series.tail(width)), series.tail(width), width)]
    tall = height - 1
    least, most = shown.bounds
    if series.nearby:
        low, high = bounds(least, most)
        rows = dots(_stretched(shown, room), tall, low, high)
        rows[-1] = _letters_under(shown, rows[-1], room)
        drawn = [Content.styled(row, series.style) for row in rows]
    else:
        low, high = 0.0, bounds(0.0, most)[1] if most > 0 else 1.0
        rows = chart(_drawn(shown), tall, high)
        rows[-1] = _lettered(shown, rows[-1])
        drawn = [_wide(row, shown, room) for row in rows]
    lines = []
    for index, line in enumerate(drawn):
        value = high - (high - low) * index / tall
        named = index == 0 or (tall >= 6 and index * 2 == tall)
        label = right(muted(series.text(value)), AXIS) if named else Content(" " * AXIS)
        lines.append(Content.assemble(label, ("┤" if named else "│", MUTED), line))
    lines.append(_steps(shown, series.text(low) if low else "0", room))
    return lines


def _stretched(series: Series, width: int) -> list[float | None]:
    each = _each(series, width)
    return [value for value in _drawn(series) for _ in range(each)]


def _letters_under(series: Series, row: str, width: int) -> str:
    each, cells = _each(series, width), list(row)
    for index, letter in series.skipped.items():
        cells[index * each] = letter
    for index, value in enumerate(series.values):
        if not math.isfinite(value):
            cells[index * each] = NOT_FINITE
    return "".join(cells)


def _steps(series: Series, low: str, width: int) -> Content:
    """The line below a chart: the foot of the scale, and which steps stand above."""
    first, last = f"{series.first_step:,}", f"{series.first_step + len(series.values) - 1:,}"
    at = min((len(series.values) - 1) * _each(series, width), width - len(last))
    steps = first if first == last else first.ljust(max(len(first) + 1, at)) + last
    line = right(muted(low), AXIS) + muted("┴" + steps)
    return cut(fit(AXIS + 1 + width, line + muted(" step"), line), AXIS + 1 + width)


def bounds(low: float, high: float) -> tuple[float, float]:
    """Round numbers just outside of ``low`` and ``high``: the ends of an axis."""
    span = max(high - low if high > low else abs(high), SMALLEST_SPAN)
    unit = 10.0 ** math.floor(math.log10(span))
    step = next(unit * part for part in (0.1, 0.2, 0.5, 1) if span / (unit * part) <= 20)
    return math.floor(low / step) * step, math.ceil(high / step) * step
