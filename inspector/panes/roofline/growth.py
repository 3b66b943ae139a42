"""Growth with the text: a step's time by its context, and the reading's by the prompt's length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from textual.content import Content

from engine.growth import Line, Parts, fitted_line, fitted_parts
from engine.passes import PassKind
from engine.records.measured import SERVERS_MACHINE, Ceilings
from engine.records.model import ModelFacts
from engine.roofline import floor_ms, step_bytes
from inspector.draw.numbers import derived, heading, labelled, ms, muted, nothing, three
from inspector.draw.plots import bounds
from inspector.draw.xy_chart import LEAST_HEIGHT, LINE, Axis, Dots, Point, xy_chart
from inspector.panes.roofline.roof import Found
from inspector.state.view import View

LABEL = 10
MEASURED, SIDE, FLOOR = "●", "○", "·"
READ, READ_SIDE = "■", "□"
FITTED, FORMULA = "fitted ⠒", f"formula {FLOOR}"
"""Labels of lines that are drawn, with their signs: a colour alone would not tell them apart."""
_THOUSAND = 1000.0
SAMPLES = 150
"""Points that a fitted line is drawn through: more than there are cells."""


@dataclass(frozen=True, eq=False)
class Growth:
    """Measured points (positions, ms) of the run and of the measurement beside it, and fits."""

    steps: tuple[Point, ...]
    steps_beside: tuple[Point, ...]
    step: Line | None
    reading: tuple[Point, ...]
    reading_beside: tuple[Point, ...]
    parts: Parts | None


def growth_of(view: View, found: Found) -> Growth:
    """Points along the cursor's path, and those of ``C``, which times the same text elsewhere."""
    decode = found.passes.get(PassKind.DECODE, ())
    steps = tuple((float(one.context), one.ms) for one in decode)
    curves = view.log.curves
    lengths = () if curves is None else curves.lengths
    with_ms, without_ms = ((), ()) if curves is None else (curves.with_ms, curves.without_ms)
    beside = tuple((float(at), value) for at, value in zip(lengths, with_ms, strict=True))
    full = tuple((float(at), value) for at, value in zip(lengths, without_ms, strict=True))
    reading: tuple[Point, ...] = ()
    if view.prefill is not None and not view.prefill.cached:
        chunks = view.prefill.chunks
        ends = [float(one.start + one.count) for one in chunks]
        reading = tuple(zip(ends, accumulate(one.ms for one in chunks), strict=True))
    # Other passes than those of the run: a fit through both would be of neither.
    stepped = max(steps, beside, key=_reach)
    read = max(reading, full, key=len)
    return Growth(
        steps,
        beside,
        fitted_line(*_columns(stepped)),
        reading,
        full,
        fitted_parts(*_columns(read)),
    )


def _reach(points: Sequence[Point]) -> float:
    """Positions that the points span."""
    return max((x for x, _ in points), default=0.0) - min((x for x, _ in points), default=0.0)


def _columns(points: Sequence[Point]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def growth_lines(view: View, found: Found, width: int, height: int) -> list[Content]:
    """Both charts, one below the other, each with its fit and its formula."""
    growth = growth_of(view, found)
    step, read = _step_words(growth, found, width), _read_words(growth, found, width)
    room = (height - len(step) - len(read) - 2) // 2
    steps = _legend(MEASURED, growth.steps, SIDE, growth.steps_beside)
    lines = [heading(f"A step's time by its context •{steps}", width)]
    lines += [*_step_chart(growth, found, width, room), *step]
    reading = _legend(READ, growth.reading, READ_SIDE, growth.reading_beside)
    lines.append(heading(f"Reading a prompt by its length •{reading}", width))
    return [*lines, *_read_chart(growth, width, room), *read]


def _legend(sign: str, own: Sequence[Point], side: str, beside: Sequence[Point]) -> str:
    """Signs of the run's points and of those of ``C``, where there are some."""
    run = f"  {sign} this run" if own else ""
    return f"{run}  {side} timed by C" if beside else ""


# --- a step ---------------------------------------------------------------------------------


def _floor_of(found: Found) -> Line | None:
    """The floor as a line: weights / bandwidth, and K/V of a position / bandwidth for each."""
    if found.facts is None or found.ceilings is None or found.each is None:
        return None
    start = _moving_ms(found.facts, found.ceilings, 0.0)
    slope = _moving_ms(found.facts, found.ceilings, found.each) - start
    return Line(start, slope, 0.0, 0)


def _moving_ms(facts: ModelFacts, ceilings: Ceilings, kv_bytes: float) -> float:
    return floor_ms(step_bytes(facts.weight_bytes, kv_bytes), 0.0, ceilings)


def _step_chart(growth: Growth, found: Found, width: int, height: int) -> Sequence[Content]:
    floor = _floor_of(found)
    points = (*growth.steps, *growth.steps_beside)
    if not points or height < LEAST_HEIGHT:
        return []
    across = _axis([x for x, _ in points])
    lines = []
    if floor is not None:
        places = np.linspace(across.low, across.high, SAMPLES).tolist()
        lines.append(Dots(tuple((at, floor.at(at)) for at in places), FLOOR, "$warning"))
    lines += _fit_dots(growth.step, across)
    lines += [
        Dots(growth.steps, MEASURED, "$bar"),
        Dots(growth.steps_beside, SIDE, "$kv-shared"),
    ]
    return _chart(lines, across, points, width, height)


def _beside(found: Found, hint: str) -> str:
    """``hint``, where the engine reads texts beside the run."""
    return "" if found.facts is not None and found.facts.top is not None else hint


def _no_formula(found: Found) -> Content:
    remote = found.facts is not None and found.facts.remote
    return muted(SERVERS_MACHINE) if remote else nothing("needs the machine's ceilings")


def _step_words(growth: Growth, found: Found, width: int) -> list[Content]:
    line, floor = growth.step, _floor_of(found)
    lines = []
    if line is None:
        why = f"needs steps at three contexts: go on{_beside(found, '; C times this text')}"
        lines.append(labelled("fitted", LABEL, width, nothing(why)))
    else:
        figure = derived(_sum(line))
        noise = figure + muted(f" ± {_per_thousand(2 * line.error)} ƒ")
        unclear = muted("  within the noise")
        more = unclear + muted(": longer texts tell, or C")
        told = (noise,) if line.resolved else (noise + more, figure + more, figure + unclear)
        lines.append(labelled(FITTED, LABEL, width, *told, figure))
    if floor is None:
        lines.append(labelled("formula", LABEL, width, _no_formula(found)))
    else:
        figure = derived(_sum(floor))
        what = muted("  (weights + K/V a position × context) / bandwidth")
        lines.append(labelled(FORMULA, LABEL, width, figure + what, figure))
    return lines


def _sum(line: Line) -> str:
    """A line as its start and what a thousand positions add to it, or take."""
    sign = "−" if line.slope < 0 else "+"
    return f"{ms(line.start)} {sign} {_per_thousand(abs(line.slope))} a 1,000 positions"


def _per_thousand(slope: float) -> str:
    """A slope in ms a position, for a thousand of them."""
    return ms(slope * _THOUSAND)


# --- the reading ----------------------------------------------------------------------------


def _read_chart(growth: Growth, width: int, height: int) -> Sequence[Content]:
    points = (*growth.reading, *growth.reading_beside)
    if not points or height < LEAST_HEIGHT:
        return []
    across = _axis([0.0, *(x for x, _ in points)])
    lines = _fit_dots(growth.parts, across)
    lines += [
        Dots(growth.reading, READ, "$phase-prefill"),
        Dots(growth.reading_beside, READ_SIDE, "$kv-shared"),
    ]
    return _chart(lines, across, points, width, height)


def _read_words(growth: Growth, found: Found, width: int) -> list[Content]:
    parts, lines = growth.parts, []
    if parts is None:
        why = f"needs three chunks or lengths: a longer prompt{_beside(found, ', or C')}"
        lines.append(labelled("fitted", LABEL, width, nothing(why)))
    else:
        lines.append(labelled(FITTED, LABEL, width, *_parts_words(parts)))
    formula = _formula_parts(found)
    if formula is None:
        lines.append(labelled("formula", LABEL, width, _no_formula(found)))
    else:
        what = muted("  2 N / rate, and 2 × layers × heads × head dim / rate")
        lines.append(
            labelled(
                "formula",
                LABEL,
                width,
                *(one + what for one in _parts_words(formula)),
                *_parts_words(formula),
            )
        )
    return lines


def _parts_words(parts: Parts) -> list[Content]:
    quadratic = f" + {_small(parts.quadratic)} × n²" if parts.quadratic else ""
    figure = derived(f"{ms(parts.linear)} × n{quadratic}")
    both = parts.equal_at
    if both is None:
        return [figure + muted("  no quadratic part beyond the noise"), figure]
    equal = muted("  equal at n = ") + derived(f"{both:,.0f}")
    return [figure + equal, figure]


def _small(value: float) -> str:
    """A duration that may lie far below a microsecond."""
    return ms(value) if not 0 < value < 1e-4 else f"{three(value * 1e6)} ns"


def _formula_parts(found: Found) -> Parts | None:
    """Both parts at the machine's rate of matrix products."""
    facts, ceilings = found.facts, found.ceilings
    if facts is None or ceilings is None or not facts.parameters:
        return None
    linear = 2.0 * facts.parameters / ceilings.flops_per_second * 1000
    width = facts.layers * facts.query_heads * facts.head_dim
    return Parts(linear, 2.0 * width / ceilings.flops_per_second * 1000, 0)


# --- both -----------------------------------------------------------------------------------


def _fit_dots(fit: Line | Parts | None, across: Axis) -> list[Dots]:
    if fit is None:
        return []
    places = np.linspace(across.low, across.high, SAMPLES).tolist()
    return [Dots(tuple((at, fit.at(at)) for at in places), LINE, "$title")]


def _axis(values: Sequence[float]) -> Axis:
    low, high = bounds(min(values), max(values))
    low = low if low < high else 0.0
    middle = (low + high) / 2
    ends = [low, middle, high] if high - low >= 2 else [low, high]
    return Axis(low, high, tuple((at, f"{at:,.0f}") for at in ends))


def _chart(
    dots: Sequence[Dots], across: Axis, points: Sequence[Point], width: int, height: int
) -> Sequence[Content]:
    high = bounds(0.0, max(y for _, y in points) * 1.1)[1] or 1.0
    up = Axis(0.0, high, tuple((at, ms(at) if at else "0") for at in (0.0, high / 2, high)))
    return xy_chart(tuple(dots), across, up, width, height)
