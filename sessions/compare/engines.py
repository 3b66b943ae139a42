"""One text through two engines: how far their distributions are apart, token by token.

Both have read the same ids at every position, so that each pair of distributions is of one
context. A figure is exact where both whole vectors are there, else a bound.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.records.arrays import DoubleArray, FloatArray
from engine.records.step import StepRecord
from engine.records.vocabulary import Token
from sessions.compare.diff import Side
from sessions.compare.tables import Bound, RankChange, kl, rank_changes

_LEADING = 10
"""Ranks down to which a change of rank counts."""


@dataclass(frozen=True, slots=True)
class EnginePair:
    """One position: the token that both read there, and their distributions before it."""

    position: int
    token: Token
    prob_a: float
    """Its probability; an interval where only bounds are known."""
    prob_b: float
    kl: Bound
    top_a: Token
    top_b: Token
    largest: float | None
    """Largest difference of a log-probability, of tokens above 1e-4 in either."""
    ranks: tuple[RankChange, ...]
    """Candidates among the first ten of either whose ranks differ."""

    @property
    def flips(self) -> bool:
        """True if greedy decoding would take another token."""
        return self.top_a.id != self.top_b.id


@dataclass(frozen=True, slots=True)
class EngineSide:
    """An engine's part: its step, in milliseconds, the median of those behind the first."""

    label: str
    engine: str
    model: str
    step_ms: float | None

    @property
    def tps(self) -> float | None:
        return None if not self.step_ms else 1000.0 / self.step_ms


@dataclass(frozen=True, slots=True)
class EnginesDiff:
    """Differences between two engines on one text, in nats."""

    a: EngineSide
    b: EngineSide
    pairs: tuple[EnginePair, ...]

    @property
    def flips(self) -> tuple[EnginePair, ...]:
        return tuple(pair for pair in self.pairs if pair.flips)

    @property
    def exact(self) -> bool:
        return all(pair.kl.exact for pair in self.pairs)

    @property
    def mean_kl(self) -> float:
        """The mean of the least that each can be."""
        return statistics.fmean(pair.kl.low for pair in self.pairs) if self.pairs else 0.0

    @property
    def largest_kl(self) -> EnginePair | None:
        return max(self.pairs, key=lambda pair: pair.kl.low, default=None)


def compare_engines(a: Side, b: Side) -> EnginesDiff:
    """Compare two runs over one sequence of tokens. Raises ValueError where they are not that."""
    if [step.token.id for step in a.steps] != [step.token.id for step in b.steps]:
        raise ValueError("the two engines were not given the same tokens")
    pairs = tuple(
        _pair(one, other, a.dense(one.node), b.dense(other.node))
        for one, other in zip(a.steps, b.steps, strict=True)
    )
    return EnginesDiff(_side(a), _side(b), pairs)


def _pair(
    a: StepRecord, b: StepRecord, dense_a: FloatArray | None, dense_b: FloatArray | None
) -> EnginePair:
    leading = (one for one in rank_changes(a.top, b.top) if min(one.a, one.b) <= _LEADING)
    return EnginePair(
        position=a.position,
        token=a.token,
        prob_a=_prob(a),
        prob_b=_prob(b),
        kl=kl(a.top, b.top, 0, dense_a, dense_b),
        top_a=_first(a),
        top_b=_first(b),
        largest=_largest(a, b),
        ranks=tuple(leading),
    )


def _prob(step: StepRecord) -> float:
    row = int((step.top.ids == step.token.id).argmax())
    return step.top.prob(0, row)


def _first(step: StepRecord) -> Token:
    return step.top.tokens[int(np.argmin(step.top.ranks))]


def _largest(a: StepRecord, b: StepRecord) -> float | None:
    """Of tokens that both have, and at least one finds worth a ten-thousandth."""
    left, right = _known(a), _known(b)
    common = left.keys() & right.keys()
    found = [abs(left[one] - right[one]) for one in common if max(left[one], right[one]) > -9.21]
    return max(found, default=None)


def _known(step: StepRecord) -> dict[int, float]:
    """Log-probabilities by id, of tokens whose probability is known."""
    top = step.top
    probs: DoubleArray = top.probs[0]
    sure = probs > 0 if top.slack is None else (probs > 0) & (top.slack[0] == 0.0)
    return dict(zip(top.ids[sure].tolist(), np.log(probs[sure]).tolist(), strict=True))


def _side(side: Side) -> EngineSide:
    facts = side.facts
    times = [step.timing.total_ms for step in _timed(side.steps)]
    return EngineSide(
        side.label,
        facts.backend if facts else "",
        facts.name if facts else "",
        statistics.median(times) if times else None,
    )


def _timed(steps: Sequence[StepRecord]) -> list[StepRecord]:
    """Steps that ran a pass: not the first, whose pass was the prompt's."""
    return [step for step in steps[1:] if not step.timing.warmup and not step.timing.reused]
