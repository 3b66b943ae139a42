"""Figures of one column of a comparison: how it went on, and how much it repeats itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from engine.records.step import StepRecord
from engine.records.step_table import figures_of
from engine.timing import speed
from sessions.compare.divergence import ids_of, margin_of
from sessions.export.jsonl import plain

RUNS_ON = "running"
"""``ended_by`` of a column that has not ended."""


@dataclass(frozen=True, slots=True)
class ColumnFigures:
    """Figures over all tokens of a column. None where there is nothing to take them of.

    Entropies and surprisal are means in nats: of the model's own distribution, of what the stages
    left, and ``-log p`` of the tokens that came by the model's own. ``distinct_1`` and
    ``distinct_2`` are different tokens and pairs of tokens over all there are (Li et al., "A
    Diversity-Promoting Objective Function", arXiv:1510.03055). ``repetition`` is the length of the
    longest stretch of tokens that comes twice, overlapping or not. ``survivors`` is the mean
    number of tokens that the last stage left. ``tps``: see ``engine.timing.Speed``; in a pass that
    columns share each waits for all. ``closest`` is the smallest margin of all draws, at
    ``closest_position``: rounding of another size would have drawn another token there.
    """

    tokens: int
    entropy: float | None
    entropy_final: float | None
    surprisal: float | None
    distinct_1: float | None
    distinct_2: float | None
    repetition: int
    survivors: float | None
    ended_by: str
    ended_detail: str
    tps: float | None
    closest: float | None
    closest_position: int | None


def column_figures(steps: Sequence[StepRecord], error: str = "") -> ColumnFigures:
    """The figures of a column's steps, from the first token on; ``error`` if it ended by one."""
    figures, ids = figures_of(steps), ids_of(steps)
    stop = steps[-1].stop if ids else None
    races = [(margin, step.position) for step in steps if (margin := margin_of(step)) is not None]
    closest = min(races, default=(None, None))
    last = [step.stages[-1].survivors for step in steps if step.stages]
    ended = stop.kind.value if stop is not None else RUNS_ON
    return ColumnFigures(
        tokens=len(ids),
        entropy=_mean(figures["entropy_raw"]),
        entropy_final=_mean(figures["entropy_final"]),
        surprisal=_mean(-figures["raw_logprob"]),
        distinct_1=distinct(ids, 1),
        distinct_2=distinct(ids, 2),
        repetition=longest_repetition(ids),
        survivors=_mean(np.array(last, np.float64)),
        ended_by="error" if error else ended,
        ended_detail=error or (stop.detail if stop is not None else ""),
        tps=speed(None, None, steps).tps if ids else None,
        closest=closest[0],
        closest_position=closest[1],
    )


def to_json(found: ColumnFigures) -> dict[str, Any]:
    """The same as plain values."""
    line: dict[str, Any] = plain(asdict(found))
    return line


def distinct(ids: Sequence[int], n: int) -> float | None:
    """Different runs of ``n`` ids over all of them; None where there is none."""
    runs = list(zip(*(ids[at:] for at in range(n)), strict=False))
    return len(set(runs)) / len(runs) if runs else None


def longest_repetition(ids: Sequence[int]) -> int:
    """Length of the longest run of ids that occurs twice; they may overlap."""
    data, size = np.array(ids, np.int32).tobytes(), 4

    def occurs_twice(length: int) -> bool:
        count = len(ids) - length + 1
        runs = {data[at * size : (at + length) * size] for at in range(count)}
        return len(runs) < count

    # A run that comes twice begins with all the shorter ones that do.
    low, high = 0, max(0, len(ids) - 1)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if occurs_twice(middle) else (low, middle - 1)
    return low


def _mean(values: Any) -> float | None:
    return float(np.mean(values)) if len(values) else None
