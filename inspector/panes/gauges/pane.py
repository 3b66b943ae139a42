"""Speed, memory and entropy over the run, beside the machine's ceilings."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.geometry import Size

from engine.records.step import StepRecord
from engine.records.step_table import figures_of
from inspector.draw.numbers import Mark, beside, cut, ms, muted, nats, rate, row, with_marks
from inspector.draw.plots import Series, plot
from inspector.panes.gauges.cache_curves import FROM, Chart, chart_of, curve_lines
from inspector.panes.gauges.figures import LABEL, MBU, Gauge, gauges
from inspector.panes.gauges.steps import letters, step_table
from inspector.state.view import View
from inspector.widgets.line_view import Pane
from inspector.widgets.picture import CEILINGS, Picture

TWO_COLUMNS = 72
EXPLAIN_FROM = 30
EXPLAIN_WIDTH = 76
TABLE_FROM = 24


def latency(path: Sequence[StepRecord]) -> Series:
    """Time of each step after the first token's, whose wait is TTFT."""
    later = figures_of(path)[1:]
    return Series(
        "latency",
        "step latency",
        later["total_ms"],
        ms,
        Mark.MEASURED,
        "$phase-prefill",
        letters(later),
        first_step=2,
        none_yet="the first token's wait is TTFT" if len(path) else "no step yet",
        nearby=True,
    )


def entropies(path: Sequence[StepRecord]) -> tuple[Series, Series]:
    """Entropy of the model's distributions and of what the chain left, over the run."""
    figures = figures_of(path)
    raw, final = figures["entropy_raw"], figures["entropy_final"]
    return (
        Series("entropy", "entropy of the model", raw, nats, Mark.DERIVED, "$bar", {}),
        Series(" final", "entropy after the chain", final, nats, Mark.DERIVED, "$secondary", {}),
    )


def draw(view: View, size: Size) -> Picture:
    """The pane."""
    tps = view.speed.tps
    subtitle = with_marks("" if tps is None else f"{rate(tps)} {Mark.DERIVED}", size.width)
    return Picture(_lines(view, *size), subtitle=subtitle, wants=(CEILINGS,))


def _lines(view: View, width: int, height: int) -> list[Content]:
    known, can_measure = view.log.ceilings, view.log.can_measure
    ceilings, stale = (known.ceilings, known.stale) if known is not None else (None, "")
    shown = gauges(view, ceilings, stale, can_measure=can_measure)
    raw, final = entropies(view.path)
    series = (latency(view.path), raw, final)
    chart = chart_of(view)
    if width >= TWO_COLUMNS:
        left = max(38, min(78, width // 2))
        right_width = width - left - 2
        lines = _figures(shown, left, height)
        if height >= TABLE_FROM:
            lines += [Content(""), *step_table(view.path, left, height - len(lines) - 1)]
        room = max(len(series), height)
        return beside(lines, _plots(series, right_width, room, chart), left)
    lines = _figures(shown, width, 0)
    spare = height - len(lines)
    if spare >= len(series):
        return [*lines, *_plots(series, width, spare, chart)]
    # The plots stay in sight, and as many of the figures as there is room for beside them.
    head = max(3, height - len(series))
    return [*lines[:head], *_plots(series, width, len(series)), *lines[head:]]


def _plots(
    series: Sequence[Series], width: int, height: int, chart: Chart | None = None
) -> list[Content]:
    """All of them below each other in ``height`` lines; what is left over goes to the first.

    ``chart``, behind the first, is drawn only as a whole: the others then make room.
    """
    curves: list[Content] = []
    if chart is not None:
        equal = height // (len(series) + 1)
        curves = curve_lines(chart, width, equal if equal >= FROM else height - len(series))
    each, more = divmod(height - len(curves), len(series))
    rooms = [each + more, *[each] * (len(series) - 1)]
    drawn = [plot(one, width, room) for one, room in zip(series, rooms, strict=True)]
    return [line for lines in (drawn[0], curves, *drawn[1:]) for line in lines]


def _figures(shown: Sequence[Gauge], width: int, height: int) -> list[Content]:
    """The figures, with their definitions where there is room for both."""
    explain = width >= EXPLAIN_WIDTH and height >= max(EXPLAIN_FROM, 2 * len(shown))
    lines = []
    for gauge in shown:
        lines.append(row(gauge.label, LABEL, width, gauge.figure, *gauge.notes))
        if explain and gauge.definition:
            lines.append(cut(muted(" " * LABEL + gauge.definition), width))
    return lines


class GaugesPane(Pane):
    """Speed, memory and entropy up to the cursor."""

    NAME = "Gauges"

    def picture(self, view: View, size: Size) -> Picture:
        return draw(view, size)

    def clicked(self, row: int, x: int) -> None:
        log = self.view.log
        if log.can_measure and log.ceilings is None and self.drawn.rows[row].plain.startswith(MBU):
            self.call_later(self.run_action, "app.measure_ceilings")
