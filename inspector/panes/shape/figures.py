"""The shape of a step's distribution: the model's, what was drawn from, and what would be.

Everything that a record settles is taken from the record; what it does not settle is left open
until the whole logits are there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from textual.content import Content

from engine.records.partial import Interval, ends
from engine.records.step import SURVIVES, StepRecord
from engine.sampling.chain import Candidates
from engine.sampling.partial import Partial
from engine.sampling.shape import TAIL_AFTER, Census, Mark, Shape, mark_of, shape_of
from engine.text import visible
from inspector.draw.bars import share
from inspector.draw.block_chars import spark
from inspector.draw.cells import clip, left, right
from inspector.draw.numbers import MUTED, NOTHING, cut, heading, muted, three

TRIED = "$estimated"
_MARKS = {Mark.NEAR_FORCED: "▮", Mark.OPEN: "○", Mark.NONE: "·"}
_STYLES = {Mark.NEAR_FORCED: "$warning bold", Mark.OPEN: "$secondary bold", Mark.NONE: MUTED}


# --- from the record --------------------------------------------------------------------------


def recorded_shape(step: StepRecord, total: int | None) -> Shape:
    """The model's own distribution; ``total`` is how many ids there are, 0 stands for unknown."""
    top = step.top
    probs, logits = np.exp(top.raw_logprobs), top.raw_logits
    head = top.ranks <= TAIL_AFTER
    two = head.size > 1 and bool(np.isfinite(logits[1]))
    effective = Interval.of(*map(math.exp, ends(step.entropy_raw)))
    return Shape(
        survivors=total or 0,
        entropy=step.entropy_raw,
        effective=effective,
        varentropy=step.varentropy_raw,
        top=float(probs[0]),
        margin=float(probs[0] - probs[1]) if two else None,
        logit_margin=float(logits[0]) - float(logits[1]) if two else None,
        tail_mass=max(0.0, 1.0 - float(probs[head].sum())) if head.sum() >= TAIL_AFTER else 0.0,
        mark=mark_of(float(probs[0]), effective),
    )


def recorded_final(step: StepRecord) -> Candidates | None:
    """The distribution that the token was drawn from, where the record holds all of it."""
    final = step.top.probs[-1]
    alive = np.flatnonzero(final > 0.0)
    left_over = step.stages[-1].survivors if step.stages else -1
    if isinstance(left_over, Interval) or alive.size != left_over:
        return None
    order = alive[np.argsort(step.top.ids[alive])]
    logits = np.log(final[order]).astype(np.float32)
    size = int(step.top.ids.max()) + 1
    return Candidates(step.top.ids[order].copy(), logits, size)


def recorded_census(step: StepRecord, total: int | None) -> list[Census | None]:
    """Tokens and mass left by each stage; the mass is NaN where the record does not hold all."""
    top, raw = step.top, np.exp(step.top.raw_logprobs)
    rows: list[Census | None] = [Census("model", total, 1.0) if total else None]
    before: float | None = total
    mass = 1.0
    for index, trace in enumerate(step.stages):
        alive = (top.cut_by == SURVIVES) | (top.cut_by > index)
        if isinstance(trace.survivors, Interval):
            mass = math.nan
        elif int(alive.sum()) == trace.survivors:
            mass = float(raw[alive].sum())
        elif trace.survivors != before:
            mass = math.nan
        before = trace.survivors
        rows.append(Census(trace.label, trace.survivors, mass))
    return rows


# --- the table --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Column:
    """One distribution of the table: its name, its shape or None where it is not known."""

    title: str
    shape: Shape | None
    style: str = ""


def _or_none(value: float | None, text: Callable[[float], str]) -> str:
    return NOTHING if value is None or not math.isfinite(value) else text(value)


_FIGURES: tuple[tuple[str, Callable[[Shape], str], str], ...] = (
    ("tokens", lambda one: f"{one.survivors:,}" if one.survivors else NOTHING, ""),
    ("as wide as", lambda one: three(one.effective), "equally likely tokens, exp(entropy)"),
    ("entropy", lambda one: _or_none(one.entropy, three), "nats"),
    ("varentropy", lambda one: _or_none(one.varentropy, three), "nats², of the surprisal"),
    ("likeliest", lambda one: share(one.top), ""),
    ("margin", lambda one: _or_none(one.margin, share), "to the second"),
    ("logit margin", lambda one: _or_none(one.logit_margin, three), "to the second"),
    ("tail", lambda one: share(one.tail_mass), f"behind the first {TAIL_AFTER}"),
)
MAIN = ("tokens", "as wide as", "entropy", "margin", "tail")
OTHERS = tuple(label for label, _, _ in _FIGURES if label not in MAIN)
"""The figures that say most, and the rest."""
_LABEL, _CELLS = 13, 9


def table_width(columns: Sequence[Column]) -> int:
    """Cells that the table takes without notes."""
    return _LABEL + _CELLS * len(columns)


def table(
    columns: Sequence[Column], width: int, labels: Sequence[str] | None = None
) -> list[Content]:
    """The figures, a line each, a column a distribution; only those of ``labels`` if given."""
    names = "".join(right(one.title, _CELLS) for one in columns)
    lines = [cut(Content.styled(" " * _LABEL + names, "$title").stylize("underline"), width)]
    for label, text, note in _FIGURES:
        if labels is not None and label not in labels:
            continue
        cells = [
            (right(text(one.shape) if one.shape is not None else NOTHING, _CELLS), one.style)
            for one in columns
        ]
        line = Content.assemble((left(label, _LABEL), MUTED), *cells)
        if note and line.cell_length + 2 + len(note) <= width:
            line += muted(f"  {note}")
        lines.append(cut(line, width))
    return lines


def marks(columns: Sequence[Column], width: int) -> Content:
    """The marks in words: near-forced or open, and for which distribution."""
    found: dict[Mark, list[str]] = {}
    for one in columns:
        if one.shape is not None and one.shape.mark:
            found.setdefault(one.shape.mark, []).append(one.title)
    parts = [
        Content.styled(f"{_MARKS[mark]} {mark}", _STYLES[mark]) + muted(f": {', '.join(names)}")
        for mark, names in found.items()
    ]
    return cut(muted("  ").join(parts) if parts else muted("neither near-forced nor open"), width)


# --- the funnel -------------------------------------------------------------------------------


def funnel(
    rows: Sequence[Census | None], was: Sequence[Census | None] | None, width: int
) -> list[Content]:
    """Tokens that each stage left, on a logarithmic scale, and their share of the model's mass.

    In a what-if, ``was`` is the record's: a count that differs is given beside.
    """
    known = [row for row in rows if row is not None]
    most = max((row.survivors for row in known), default=1)
    label, count, mass = 18, 16 if was is not None else 8, 6
    cells = max(0, width - label - count - mass - 3)
    old = {_stage(row.label): row for row in was or () if row is not None}
    lines = []
    for row in known:
        filled = cells if most <= 1 else round(cells * _log_share(row.survivors, most))
        filled = max(1, filled) if cells else 0
        bar = ("█" * filled).center(cells)
        then = old.get(_stage(row.label))
        number = f"{row.survivors:,}"
        if was is not None and (then is None or then.survivors != row.survivors):
            number += " (new)" if then is None else f" was {then.survivors:,}"
        held = NOTHING if math.isnan(row.mass) else share(row.mass)
        lines.append(
            cut(
                Content.assemble(
                    (left(clip(visible(row.label), label), label) + " ", MUTED),
                    (bar, "$bar" if was is None else TRIED),
                    f" {right(number, count)}",
                    (f" {right(held, mass)}", MUTED),
                ),
                width,
            )
        )
    return lines


def _stage(label: str) -> str:
    return label.partition("=")[0]


def _log_share(survivors: float, most: float) -> float:
    return math.log1p(survivors) / math.log1p(most)


# --- so far -----------------------------------------------------------------------------------


def history(path: Sequence[StepRecord], width: int) -> list[Content]:
    """The model's entropy at each step so far, the newest at the right, and each step's mark."""
    label = 9
    shown = path[-max(1, width - label) :]
    if not shown or width < label + 8:
        return []
    entropies = [step.entropy_raw for step in shown]
    found = [_mark_at(step) for step in shown]
    forced, wide = found.count(Mark.NEAR_FORCED), found.count(Mark.OPEN)
    strip = [(_MARKS[one], _STYLES[one]) for one in found]
    told = f"{_MARKS[Mark.NEAR_FORCED]} near-forced {forced:,}, {_MARKS[Mark.OPEN]} open {wide:,}"
    return [
        heading(f"Last {len(shown):,} of {len(path):,} steps: {told}", width),
        cut(
            Content.assemble(
                (left("entropy", label), MUTED), (spark(entropies, max(entropies)), "$bar")
            ),
            width,
        ),
        cut(Content.assemble((left("shape", label), MUTED), *strip), width),
    ]


def _mark_at(step: StepRecord) -> Mark:
    return mark_of(math.exp(float(step.top.raw_logprobs[0])), math.exp(step.entropy_raw))


def final_shape(final: Candidates | None) -> Shape | None:
    """The shape of what is drawn from, where that is known."""
    return None if final is None or isinstance(final, Partial) else shape_of(final)
