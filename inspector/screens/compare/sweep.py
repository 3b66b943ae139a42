"""Figures of the columns over the dial that they differ in; for two dials a map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from textual.content import Content
from textual.geometry import Size

from engine.sampling.chain import SpecError
from inspector.draw.numbers import NOTHING, beside, cut, muted, padded, three
from inspector.draw.plots import bounds
from inspector.draw.xy_chart import LEAST_HEIGHT, LEAST_WIDTH, LINE, Axis, Dots, xy_chart
from inspector.state.columns import ComparedColumn
from inspector.state.view import View
from inspector.state.whatif import chain_of
from inspector.widgets.line_view import Pane
from inspector.widgets.picture import Picture
from sessions.compare.column_figures import ColumnFigures

_NONE = (
    "a plot needs columns that differ in one number, such as temperature, or a map in two: "
    "llm-inspect compare --sweep temperature=0.2:1.4:0.2"
)
_SHADES = 7
_CELL = 9


@dataclass(frozen=True, eq=False)
class SweepPoint:
    """One column: the numbers of its dials, its figures, and how soon it parts."""

    letter: str
    dials: dict[str, float]
    figures: ColumnFigures
    parts_after: int | None = None
    """Tokens that it has in common with the first column; None while it has not parted."""


Measure = tuple[str, Callable[[SweepPoint], float | None]]
MEASURES: tuple[Measure, ...] = (
    ("entropy of what is left, nats ƒ", lambda one: one.figures.entropy_final),
    ("tokens left by the sampler ƒ", lambda one: one.figures.survivors),
    ("distinct-2 ƒ", lambda one: one.figures.distinct_2),
    ("tokens until it parts from A", lambda one: one.parts_after),
)


def numbers_of(column: ComparedColumn) -> dict[str, float]:
    """Every dial of a column's chain that is a number; none where its chain is not known here."""
    known, last = column.known, column.last
    try:
        if last is not None:
            chain = chain_of(last.chain_spec, last.preset)
        elif known is not None:
            chain = chain_of(known.chain_spec, known.preset)
        else:
            return {}
    except SpecError:
        return {}
    return {
        name: float(value)
        for stage in chain.stages
        for name, value in stage.params.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def swept(points: Sequence[SweepPoint]) -> list[str]:
    """Dials whose number is known for all columns and is not the same for all."""
    if len(points) < 2:
        return []
    shared = set.intersection(*(set(one.dials) for one in points))
    names = [name for name in points[0].dials if name in shared]
    return [name for name in names if len({one.dials[name] for one in points}) > 1]


def draw(points: Sequence[SweepPoint], size: Size) -> Picture:
    """The pane."""
    dials, (width, height) = swept(points), size
    if len(dials) == 1:
        return Picture(_charts(points, dials[0], width, height), remark=f"over {dials[0]}")
    if len(dials) == 2:
        lines = _maps(points, dials[0], dials[1], width)
        return Picture(lines, remark=f"{dials[0]} across, {dials[1]} down")
    return Picture(muted(_NONE).wrap(max(8, width)))


# --- one dial ---------------------------------------------------------------------------------


def _charts(points: Sequence[SweepPoint], dial: str, width: int, height: int) -> list[Content]:
    """The charts, two side by side where there is room."""
    pair = width >= 2 * LEAST_WIDTH + 2
    across = (width - 2) // 2 if pair else width
    rows = max(1, min(len(MEASURES) // (2 if pair else 1), height // (LEAST_HEIGHT + 3)))
    each = max(LEAST_HEIGHT, height // rows - 1)
    drawn = [_chart(points, dial, one, across, each) for one in MEASURES]
    if not pair:
        return [line for one in drawn for line in one]
    lines: list[Content] = []
    for at in range(0, len(drawn), 2):
        lines += beside(drawn[at], drawn[at + 1], across)
    return lines


def _chart(
    points: Sequence[SweepPoint], dial: str, measure: Measure, width: int, height: int
) -> list[Content]:
    name, value_of = measure
    found = [
        (one.dials[dial], float(value)) for one in points if (value := value_of(one)) is not None
    ]
    title = cut(Content.styled(name, "bold"), width)
    if not found:
        return [title, muted(f"{NOTHING}  nothing to show yet")]
    xs = sorted({one.dials[dial] for one in points})
    low, high = bounds(min(0.0, min(y for _, y in found)), max(y for _, y in found))
    margin = (xs[-1] - xs[0]) * 0.04
    ticks = xs if len(xs) * 6 <= width else xs[:: max(1, len(xs) // 3)]
    across = Axis(xs[0] - margin, xs[-1] + margin, tuple((x, f"{x:g}") for x in ticks))
    up = Axis(low, high if high > low else low + 1.0, tuple((y, three(y)) for y in (low, high)))
    in_order = tuple(sorted(found))
    dots = (Dots(in_order, LINE, "$bar"), Dots(in_order, "●", "$bar bold"))
    return [title, *xy_chart(dots, across, up, width, height)]


# --- two dials --------------------------------------------------------------------------------


def _maps(points: Sequence[SweepPoint], across: str, down: str, width: int) -> list[Content]:
    """A table for each measure, its cells shaded from the least to the most."""
    lines: list[Content] = []
    for name, value_of in MEASURES:
        lines += [*_map(points, across, down, (name, value_of), width), Content("")]
    return lines


def _map(
    points: Sequence[SweepPoint], across: str, down: str, measure: Measure, width: int
) -> list[Content]:
    name, value_of = measure
    values = {(one.dials[across], one.dials[down]): value_of(one) for one in points}
    known = [float(value) for value in values.values() if value is not None]
    least, most = (min(known), max(known)) if known else (0.0, 0.0)
    xs = sorted({x for x, _ in values})
    head = Content.styled(" " * _CELL + "".join(f"{x:>{_CELL}g}" for x in xs), "$title")
    lines = [Content.assemble((name, "bold"), f"  {three(least)} – {three(most)}")]
    lines.append(head)
    for y in sorted({y for _, y in values}):
        cells = [_cell(values.get((x, y)), least, most) for x in xs]
        lines.append(Content.assemble((f"{y:>{_CELL}g}", "$title"), *cells))
    return [cut(line, width) for line in lines]


def _cell(value: float | None, least: float, most: float) -> Content:
    """A value on its shade: the number says it without the colour."""
    if value is None:
        return padded(Content(f"{NOTHING:>{_CELL}}"), _CELL)
    share = (value - least) / (most - least) if most > least else 0.0
    shade = min(_SHADES - 1, int(share * _SHADES))
    return Content.styled(f"{three(value):>{_CELL}}", f"on $surprisal-{shade}")


class PlotsPane(Pane):
    """Plots of the columns over what they differ in."""

    NAME = "Plots"
    HELP = """
Where the columns differ in **one** number, such as the temperature, their figures are drawn over
it; where they differ in **two**, as a map. `llm-inspect compare --sweep` makes such columns.
"""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._points: Sequence[SweepPoint] = ()

    def show_points(self, view: View, points: Sequence[SweepPoint]) -> None:
        """Draw these from now on."""
        self._points = points
        self.show(view)

    def picture(self, view: View, size: Size) -> Picture:
        return draw(self._points, size)
