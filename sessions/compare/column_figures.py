"""Figures of one column of a comparison: how it went on, and how much it repeats itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from engine.acceptance import acceptance
from engine.records.round import RoundRecord
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
    ``closest_position``: rounding of another size would have drawn another token there. ``rounds``
    are speculative ones that its tokens came in, ``accepted`` the share of their drafts that was.
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
    rounds: int = 0
    accepted: float | None = None


class ColumnCounter:
    """Counts of a column that grows: each step is read once, however often its figures are told."""

    def __init__(self) -> None:
        self._repetition = Repetition()
        self._counted = 0
        self._left, self._with_stages = 0.0, 0
        self._closest: tuple[float, int] | None = None

    def figures(
        self,
        steps: Sequence[StepRecord],
        error: str = "",
        rounds: Mapping[int, RoundRecord] = MappingProxyType({}),
    ) -> ColumnFigures:
        """The figures of the column's ``steps`` of now; ``error`` if it ended by one.

        ``rounds`` are those of the run, by the node of their first token.
        """
        figures, ids = figures_of(steps), ids_of(steps)
        own = [rounds[one] for one in np.unique(figures["round"]).tolist() if one in rounds]
        self._count(steps[self._counted :])
        stop = steps[-1].stop if ids else None
        ended = stop.kind.value if stop is not None else RUNS_ON
        closest, closest_position = self._closest or (None, None)
        return ColumnFigures(
            tokens=len(ids),
            entropy=_mean(figures["entropy_raw"]),
            entropy_final=_mean(figures["entropy_final"]),
            surprisal=_mean(-figures["raw_logprob"]),
            distinct_1=distinct(ids, 1),
            distinct_2=distinct(ids, 2),
            repetition=self._repetition.longest,
            survivors=self._left / self._with_stages if self._with_stages else None,
            ended_by="error" if error else ended,
            ended_detail=error or (stop.detail if stop is not None else ""),
            tps=speed(None, None, steps).tps if ids else None,
            closest=closest,
            closest_position=closest_position,
            rounds=len(own),
            accepted=acceptance(own).rate,
        )

    def _count(self, new: Sequence[StepRecord]) -> None:
        self._counted += len(new)
        for step in new:
            self._repetition.add(step.token.id)
            if step.stages:
                self._left += step.stages[-1].survivors
                self._with_stages += 1
            margin = margin_of(step)
            if margin is not None:
                here = margin, step.position
                self._closest = min(self._closest or here, here)


def column_figures(
    steps: Sequence[StepRecord],
    error: str = "",
    rounds: Mapping[int, RoundRecord] = MappingProxyType({}),
) -> ColumnFigures:
    """The figures of a column's steps, from the first token on; see ``ColumnCounter.figures``."""
    return ColumnCounter().figures(steps, error, rounds)


def to_json(found: ColumnFigures) -> dict[str, Any]:
    """The same as plain values."""
    line: dict[str, Any] = plain(asdict(found))
    return line


def distinct(ids: Sequence[int], n: int) -> float | None:
    """Different runs of ``n`` ids over all of them; None where there is none."""
    runs = list(zip(*(ids[at:] for at in range(n)), strict=False))
    return len(set(runs)) / len(runs) if runs else None


class Repetition:
    """The longest stretch of ids that comes twice, overlapping or not, in a text that grows."""

    def __init__(self) -> None:
        self.longest = 0
        # A character an id, so that ``str.find`` looks for a stretch.
        self._text = ""
        self._characters: dict[int, str] = {}

    def add(self, token_id: int) -> None:
        self._text += self._characters.setdefault(token_id, chr(len(self._characters)))
        # One that is longer than all before ends here, and by one id: the rest came twice before.
        tail = self._text[-self.longest - 1 :]
        self.longest += self._text.find(tail, 0, -1) >= 0


def _mean(values: Any) -> float | None:
    return float(np.mean(values)) if len(values) else None
