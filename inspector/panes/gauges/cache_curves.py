"""Chart of a token's cost with a KV cache and without, by the length of the text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from textual.content import Content

from engine.records.measured import CacheCurves
from engine.records.step_table import steady
from inspector.draw.numbers import MUTED, Mark, fit, marked, ms, muted, right, three
from inspector.draw.plots import AXIS, bounds
from inspector.state.view import View

FROM = 5
"""Lines that a chart needs."""
LEAST = 8
WITH, WITHOUT, RUN = "○", "●", "·"
_STYLES = {WITH: "$kv-shared", WITHOUT: "$phase-prefill bold", RUN: "$phase-prefill"}
Point = tuple[float, float, str]
"""Positions, ms, and the sign that stands for it."""


@dataclass(frozen=True, eq=False)
class Chart:
    """The curves that were measured, and the steps of a run that keeps no cache."""

    curves: CacheCurves
    run: Sequence[tuple[int, float]] = ()

    @property
    def ratio(self) -> float | None:
        """Factor by which a token takes longer without a cache, at the longest text."""
        with_ms, without_ms = self.curves.with_ms[-1], self.curves.without_ms[-1]
        return without_ms / with_ms if with_ms > 0 else None

    @property
    def points(self) -> list[Point]:
        """All points, those that matter most last."""
        curves = self.curves
        run: list[Point] = [(at, value, RUN) for at, value in self.run]
        for sign, times in ((WITHOUT, curves.without_ms), (WITH, curves.with_ms)):
            run += [(at, value, sign) for at, value in zip(curves.lengths, times, strict=True)]
        return run


def chart_of(view: View) -> Chart | None:
    """The points to draw; None where nothing was measured."""
    curves = view.log.curves
    if curves is None or not curves.lengths:
        return None
    return Chart(curves, _steps_without(view))


def _steps_without(view: View) -> list[tuple[int, float]]:
    """(positions read, ms of the pass) of the cursor's path, in a run without a cache."""
    if view.facts is None or view.facts.keeps_cache or view.prompt is None:
        return []
    figures, start = view.path.figures, len(view.prompt.tokens)
    counts = steady(figures) & (figures["forward_ms"] > 0)
    return [
        (start + at, float(figures["forward_ms"][at])) for at in range(len(figures)) if counts[at]
    ]


def in_words(chart: Chart) -> str:
    """The last point of both curves."""
    curves = chart.curves
    return (
        f"without {ms(curves.without_ms[-1])}, with {ms(curves.with_ms[-1])} "
        f"at {curves.lengths[-1]:,} tokens •"
    )


def curve_lines(chart: Chart, width: int, height: int) -> list[Content]:
    """The chart in exactly ``height`` lines, at least ``FROM``: a legend, the points, an axis."""
    room = width - AXIS - 1
    if room < LEAST or height < FROM or not chart.points:
        return []
    tall = height - 2
    most = max(at for at, _, _ in chart.points)
    high = bounds(0.0, max(value for _, value, _ in chart.points))[1] or 1.0
    lines = [_legend(chart, width)]
    for index, cells in enumerate(_grid(chart.points, room, tall, most, high)):
        value = high * (1 - index / tall)
        named = index == 0 or (tall >= 6 and index * 2 == tall)
        label = right(muted(ms(value)), AXIS) if named else Content(" " * AXIS)
        line = Content("").join(Content.styled(cell, _STYLES.get(cell, "")) for cell in cells)
        lines.append(Content.assemble(label, ("┤" if named else "│", MUTED), line))
    last = f"{most:,} tokens"
    axis = f"0{last:>{room - 1}}" if room > len(last) + 1 else "0"
    return [*lines, right(muted("0"), AXIS) + muted(f"┴{axis}")]


def _grid(
    points: Iterable[Point], width: int, tall: int, most: float, high: float
) -> list[list[str]]:
    """Cells, top line first; of points in one cell the last one is seen."""
    cells = [[" "] * width for _ in range(tall)]
    for at, value, sign in points:
        column = round(at / most * (width - 1))
        row = min(int(value / high * tall), tall - 1)
        cells[tall - 1 - row][column] = sign
    return cells


def _legend(chart: Chart, width: int) -> Content:
    """Key to the signs, and the distance of the curves at their end."""
    curves, ratio = chart.curves, chart.ratio
    signs = [
        Content.assemble((f"{WITHOUT} ", _STYLES[WITHOUT]), "without"),
        Content.assemble((f"{WITH} ", _STYLES[WITH]), "with a cache"),
    ]
    if chart.run:
        signs.append(Content.assemble((f"{RUN} ", _STYLES[RUN]), "this run"))
    keys = Content("  ").join(signs) + marked("", Mark.MEASURED)
    times = (
        muted("  ") + marked(f"{three(ratio)} ×", Mark.DERIVED, "bold") if ratio else Content("")
    )
    note = f"; {curves.note}" if curves.note else ""
    turns = f"{min(curves.reps)}–{max(curves.reps)}".removeprefix(f"{max(curves.reps)}–")
    more = muted(f" {in_words(chart)}; medians of {turns} turns, {curves.cache}{note}")
    place = muted(f" at {curves.lengths[-1]:,} tokens{note}")
    return fit(width, keys + times + more, keys + times + place, keys + times, keys)
