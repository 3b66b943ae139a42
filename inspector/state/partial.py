"""Another chain over a step of which only the leading candidates are recorded."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from engine.records.step import Draw, StageTrace
from engine.sampling.chain import Ladder
from engine.sampling.draw import stretch
from inspector.state.candidates import CandidateRow, Recorded, Stretches


@dataclass(frozen=True, eq=False)
class Partial:
    """A record's candidates under another chain, as far as they decide what it does.

    ``low`` and ``high`` are the same chain's ladders over two ways to complete the distribution,
    between which the real one lies; both are left with the same tokens, all of the record's.
    """

    record: Recorded
    low: Ladder
    high: Ladder
    draw: Draw
    note: str = ""

    @property
    def ladder(self) -> Ladder:
        """One that is exact where the chain ends, and nearly so where it begins."""
        return self.low

    @property
    def stages(self) -> tuple[StageTrace, ...]:
        """Figures that the record does not settle are NaN."""
        return tuple(
            replace(
                low,
                mass_removed=_agreed(low.mass_removed, high.mass_removed),
                entropy=_agreed(low.entropy, high.entropy),
                derived={
                    name: value
                    for name, value in low.derived.items()
                    if not math.isnan(_agreed(value, high.derived.get(name, math.nan)))
                },
            )
            for low, high in zip(self.low.traces, self.high.traces, strict=True)
        )

    @property
    def total(self) -> int | None:
        return self.record.total

    @property
    def entropy(self) -> float:
        return self.record.entropy

    @cached_property
    def largest(self) -> float:
        return max(max(self[row].probs) for row in range(len(self)))

    @property
    def shown(self) -> tuple[float, float]:
        return self.record.shown[0], 1.0

    def __len__(self) -> int:
        return len(self.record)

    def __getitem__(self, row: int) -> CandidateRow:
        return self._candidates[row]

    @cached_property
    def _candidates(self) -> list[CandidateRow]:
        ids = self.record.step.top.ids
        low, high = self.low.probs(ids), self.high.probs(ids)
        probs, slack = ((low + high) / 2).T.tolist(), (np.abs(high - low) / 2).T.tolist()
        cut_by = self.low.cut_by_of(ids).tolist()
        return [
            replace(
                self.record[row],
                probs=(self.record[row].probs[0], *probs[row][1:]),
                slack=(0.0, *slack[row][1:]),
                cut_by=cut_by[row],
            )
            for row in range(len(self))
        ]

    def row_of(self, token_id: int) -> int | None:
        return self.record.row_of(token_id)

    def stretches(self) -> Stretches:
        final = self.low.final
        order = final.order()
        return Stretches(final.ids[order], final.probs[order])

    def place_of(self, token_id: int) -> tuple[float, float] | None:
        low, high = stretch(self.low.final, token_id)
        return (low, high) if high > low else None


def _agreed(one: float, other: float) -> float:
    """A figure on which both completions agree; else NaN."""
    return one if math.isclose(one, other, rel_tol=0.0, abs_tol=1e-6) else math.nan
