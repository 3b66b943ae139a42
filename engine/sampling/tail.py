"""Bounds on the part of a distribution that is not recorded, followed through a chain.

A record has a step's leading candidates, the exact mass of all others and their number. What a
stage makes of the others is not known, but lies between bounds: how many there are, what logit none
exceeds, and what their weights add up to. Where a stage takes them all, whatever they are, what is
left is exact from there on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.records.arrays import FloatArray, IntArray
from engine.records.step import StepRecord
from engine.sampling.candidates import Candidates
from engine.sampling.chain import Chain
from engine.sampling.stages import Locality, Stage, StageContext, Temperature, TopK
from engine.sampling.stages.truncation import Ties

_SLACK = 4e-6
"""More than float32 rounding of logits and probabilities can move a share of the mass."""

_LOG_MANY = 50.0
"""The logarithm of more tokens than there are."""


def rest_mass(step: StepRecord) -> float:
    """The share of the model's distribution that is not in the record's table."""
    return max(0.0, 1.0 - float(np.exp(step.top.raw_logprobs).sum()))


def leading_rows(step: StepRecord) -> int:
    """Number of rows that are the model's first; single tokens from further down follow."""
    ranks = step.top.ranks
    return int(np.logical_and.accumulate(ranks == np.arange(1, ranks.size + 1)).sum())


def last_of_head(step: StepRecord) -> float:
    """The logit that no token of the rest exceeds."""
    return float(step.top.raw_logits[leading_rows(step) - 1])


def peaked_logits(log_mass: float, ceiling: float, count: int) -> NDArray[np.float64]:
    """Logits of at most ``count`` tokens up to ``ceiling``, as few as can be, of this mass."""
    full = math.exp(min(log_mass - ceiling, _LOG_MANY))
    heights = np.full(min(count, int(full)), ceiling)
    over = full - heights.size
    if over > 0.0 and heights.size < count:
        heights = np.append(heights, ceiling + math.log(over))
    return heights


@dataclass(frozen=True, slots=True)
class _Tail:
    """Bounds on the tokens that are not known one by one.

    There are at most ``count``, none has a logit above ``ceiling``, and the logarithm of the sum
    of their weights, ``exp(logit)``, lies between ``low`` and ``high``.
    """

    count: int
    ceiling: float
    low: float
    high: float

    def with_known(self, logits: FloatArray) -> _Tail:
        """These and some more, of known logits."""
        if not logits.size:
            return self
        more = _log_sum(logits)
        return _Tail(
            self.count + logits.size,
            max(self.ceiling, float(logits.max())),
            float(np.logaddexp(self.low, more)),
            float(np.logaddexp(self.high, more)),
        )


_NO_TAIL = _Tail(0, -math.inf, -math.inf, -math.inf)


@dataclass(frozen=True, eq=False)
class _Known:
    """Tokens that are there for certain, ids ascending, with their exact logits; and the rest."""

    ids: IntArray
    logits: FloatArray
    tail: _Tail
    vocab_size: int

    def pick(self, keep: NDArray[np.bool_], tail: _Tail) -> _Known:
        return _Known(self.ids[keep], self.logits[keep], tail, self.vocab_size)

    def with_tail_at(self, heights: NDArray[np.float64]) -> Candidates:
        """These tokens and as many others, of whatever ids, at these logits."""
        taken = np.zeros(self.vocab_size, dtype=np.bool_)
        taken[self.ids] = True
        others = np.flatnonzero(~taken)[: heights.size]
        taken[others] = True
        logits = np.empty(self.vocab_size, dtype=np.float32)
        logits[self.ids], logits[others] = self.logits, heights
        ids = np.flatnonzero(taken)
        return Candidates(ids.astype(np.int32), logits[ids], self.vocab_size)


def settled(step: StepRecord, chain: Chain, context: StageContext, vocab_size: int) -> bool:
    """True if all that the chain can leave is in the record's table, and for certain the same.

    Raises SamplingError where a stage leaves nothing.
    """
    if step.top.ids.size >= vocab_size:
        return True
    known, untouched = _recorded(step, vocab_size), True
    leading = leading_rows(step)
    for stage in chain.stages:
        if stage.off:
            continue
        # Where a count of the model's own order is kept, that is the table's order.
        if untouched and _count_kept(stage) <= leading:
            return True
        untouched = False
        following = _after(stage, known, context)
        if following is None or not following.ids.size:
            return False
        known = following
        if not known.tail.count:
            return True
    return False


def _recorded(step: StepRecord, vocab_size: int) -> _Known:
    top = step.top
    possible = top.raw_logits > -np.inf
    ids, logits = top.ids[possible], top.raw_logits[possible]
    order = np.argsort(ids)
    mass = rest_mass(step)
    low = math.log(mass - _SLACK) if mass > _SLACK else -math.inf
    high = math.log(mass + _SLACK) + step.log_z_raw
    tail = _Tail(
        vocab_size - top.ids.size,
        min(last_of_head(step), high),
        low + step.log_z_raw,
        high,
    )
    return _Known(ids[order], logits[order], tail, vocab_size)


def _count_kept(stage: Stage) -> float:
    """Tokens that a stage keeps by count, lowest ids first; infinity for any other stage."""
    if isinstance(stage, Temperature) and stage.greedy:
        return 1
    if isinstance(stage, TopK) and stage.ties is Ties.EXACT:
        return stage.top_k
    return math.inf


def _after(stage: Stage, known: _Known, context: StageContext) -> _Known | None:
    """Known part of the distribution after a stage; None where nothing can be said."""
    if isinstance(stage, Temperature) and not stage.greedy:
        return _tempered(stage, known, context) if stage.dynatemp_range == 0.0 else None
    if stage.locality is Locality.BY_ID:
        return _changed_by_id(stage, known, context)
    if stage.locality is Locality.LEADING or isinstance(stage, Temperature):
        return _cut(stage, known, context)
    return None


def _tempered(stage: Temperature, known: _Known, context: StageContext) -> _Known:
    """Every weight to the power 1 / T: what that makes of a sum is bounded by the flattest and the
    most peaked tail of that sum."""
    tail = known.tail
    before = known.with_tail_at(np.array([tail.ceiling]))
    after = stage.apply(before, context)
    at = after.find(known.ids)[0]
    logits = after.logits[at]
    # From the largest on: where float32 has no room for the others, the stage counts from there.
    top, new_top = float(known.logits.max()), float(logits.max())
    ceiling = float(np.delete(after.logits, at).max()) - new_top
    power, many = 1.0 / max(stage.temperature, stage.floor), math.log(tail.count)
    low, high, peak = tail.low - top, tail.high - top, tail.ceiling - top
    even_low, even_high = (many + power * min(one - many, peak) for one in (low, high))
    peaked_low, peaked_high = (one + (power - 1.0) * peak for one in (low, high))
    # A power above 1 is convex: the even tail then has the smallest sum. Below, the largest.
    low, high = (even_low, peaked_high) if power >= 1.0 else (peaked_low, even_high)
    high = min(high, many + ceiling) + _SLACK
    tail = _Tail(tail.count, ceiling + new_top, low - _SLACK + new_top, high + new_top)
    return _Known(known.ids, logits, tail, known.vocab_size)


def _changed_by_id(stage: Stage, known: _Known, context: StageContext) -> _Known:
    """The known tokens exactly; the tail as if every token in it stood at its ceiling."""
    tail = known.tail
    count = known.vocab_size - known.ids.size
    before = known.with_tail_at(np.full(count, tail.ceiling))
    after = stage.apply(before, context)
    at, there = after.find(known.ids)
    of_tail = ~np.isin(after.ids, known.ids)
    heights = after.logits[of_tail].astype(np.float64)
    # What stays where it was at one height may not at another: zero has no multiple.
    lower = stage.apply(known.with_tail_at(np.full(count, tail.ceiling - 1.0)), context)
    lower_heights = lower.logits[~np.isin(lower.ids, known.ids)]
    touched = count - min(
        int((heights == np.float32(tail.ceiling)).sum()),
        int((lower_heights == np.float32(tail.ceiling - 1.0)).sum()),
    )
    raised = heights[heights > np.float32(tail.ceiling)]
    high = float(np.logaddexp(tail.high, _log_sum(raised))) if raised.size else tail.high
    low = _less(tail.low, math.log(touched) + tail.ceiling) if touched else tail.low
    ceiling = min(float(heights.max()), high) if heights.size else -math.inf
    changed = _Tail(tail.count, ceiling, low, high) if heights.size else _NO_TAIL
    return _Known(known.ids[there], after.logits[at[there]], changed, known.vocab_size)


def _cut(stage: Stage, known: _Known, context: StageContext) -> _Known | None:
    """Result of a stage that keeps a leading stretch, whatever the tail is."""
    # A known token among those of the tail: who comes before it is not known.
    above = known.logits > known.tail.ceiling
    known = known.pick(above, known.tail.with_known(known.logits[~above]))
    if not known.ids.size:
        return None
    certain = np.ones(known.ids.size, dtype=np.bool_)
    possible, tail_left = ~certain, False
    for heights in _extremes(known.tail):
        left = stage.apply(known.with_tail_at(heights), context).ids
        kept = np.isin(known.ids, left)
        certain, possible = certain & kept, possible | kept
        tail_left = tail_left or left.size > kept.sum()
    # Of what may be left any part may be gone.
    tail = known.tail if tail_left else _NO_TAIL
    tail = replace(tail.with_known(known.logits[possible & ~certain]), low=-math.inf)
    return known.pick(certain, tail)


def _extremes(tail: _Tail) -> Iterator[NDArray[np.float64]]:
    """Tails of the least mass, also with one token as likely as can be; and of the most."""
    if tail.low < tail.ceiling:
        yield peaked_logits(tail.low, tail.ceiling, tail.count)
    for mass in (tail.low, tail.high):
        yield peaked_logits(max(mass, tail.ceiling), tail.ceiling, tail.count)


def _less(log_mass: float, log_part: float) -> float:
    """The logarithm of a sum without a part of it; minus infinity where nothing is left."""
    if log_part >= log_mass:
        return -math.inf
    return log_mass + math.log1p(-math.exp(log_part - log_mass))


def _log_sum(logits: NDArray[np.floating[Any]]) -> float:
    return float(np.logaddexp.reduce(logits.astype(np.float64)))
