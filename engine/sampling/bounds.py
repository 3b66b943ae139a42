"""Bounds on candidates that are not known one by one, followed through the stages of a chain.

What a stage makes of the others is not known, but lies between bounds. Where a stage takes them
all, whatever they are, what is left is exact from there on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.sampling.candidates import Candidates
from engine.sampling.partial import SLACK, Partial, Rest, log_sum
from engine.sampling.stages import Locality, Role, Stage, StageContext, Temperature, TopK
from engine.sampling.stages.truncation import Ties

_LOG_MANY = 50.0
"""The logarithm of more tokens than there are."""
_SHIFT = 1e-4
"""More than rounding can make of a logit that is one larger."""
_NO_REST = Rest(0, 0, -math.inf, -math.inf, -math.inf)


def apply(
    stage: Stage, before: Candidates, context: StageContext, *, scale_known: bool
) -> Candidates:
    """Candidates that a stage leaves of ``before``; whole where no rest can be left.

    ``scale_known``: see ``Partial``. Raises SamplingError where it leaves nothing.
    """
    if stage.off:
        return before
    if not len(before):
        return _unknown(before)
    if not scale_known and not _whatever_scale(stage, before, context):
        return replace(_unknown(before), sign_missing=True)
    if not isinstance(before, Partial):
        return stage.apply(before, context)
    known = Candidates(before.ids, before.logits, before.vocab_size)
    # Where a count of the model's own order is kept, that is the order of what is known.
    if _count_kept(stage) <= before.ordered:
        return known.leading(int(_count_kept(stage)))
    after = _after(stage, before, context)
    if after is None:
        return _unknown(before)
    if after.rest.count:
        return after
    return Candidates(after.ids, after.logits, after.vocab_size)


def _whatever_scale(stage: Stage, before: Candidates, context: StageContext) -> bool:
    """True if logits that are all larger by one amount come out larger by just that."""
    if stage.locality is not Locality.BY_ID and stage.role is not Role.LOGITS:
        return True
    if isinstance(before, Partial):
        others = before.vocab_size - len(before)
        before = _with_rest_at(before, np.full(others, before.rest.ceiling))
    more = before.with_logits(before.logits + np.float32(1.0))
    after, higher = stage.apply(before, context), stage.apply(more, context)
    same = np.array_equal(after.ids, higher.ids)
    return same and bool(np.abs(higher.logits - after.logits - 1.0).max() < _SHIFT)


def _unknown(before: Candidates) -> Partial:
    """The state in which any that were possible may be left, with any logit."""
    if isinstance(before, Partial):
        count, gone = len(before) + before.rest.count, before.gone
    else:
        gone = np.delete(np.arange(before.vocab_size, dtype=np.int32), before.ids)
        count = len(before)
    nothing = np.zeros(0, np.int32), np.zeros(0, np.float32)
    rest = Rest(0, count, math.inf, -math.inf, math.inf)
    return Partial(*nothing, before.vocab_size, rest, gone)


def peaked_logits(log_mass: float, ceiling: float, count: int) -> NDArray[np.float64]:
    """Logits of at most ``count`` tokens up to ``ceiling``, as few as can be, of this mass."""
    full = math.exp(min(log_mass - ceiling, _LOG_MANY))
    heights = np.full(min(count, int(full)), ceiling)
    over = full - heights.size
    if over > 0.0 and heights.size < count:
        heights = np.append(heights, ceiling + math.log(over))
    return heights


def _with_rest_at(known: Partial, heights: NDArray[np.float64]) -> Candidates:
    """The known tokens and as many others, of whatever ids, at these logits."""
    taken = np.zeros(known.vocab_size, dtype=np.bool_)
    taken[known.ids] = True
    others = np.flatnonzero(~taken)[: heights.size]
    taken[others] = True
    logits = np.empty(known.vocab_size, dtype=np.float32)
    logits[known.ids], logits[others] = known.logits, heights
    ids = np.flatnonzero(taken)
    return Candidates(ids.astype(np.int32), logits[ids], known.vocab_size)


def _count_kept(stage: Stage) -> float:
    """Tokens that a stage keeps by count, lowest ids first; infinity for any other stage."""
    if isinstance(stage, Temperature) and stage.greedy:
        return 1
    if isinstance(stage, TopK) and stage.ties is Ties.EXACT:
        return stage.top_k
    return math.inf


def _after(stage: Stage, known: Partial, context: StageContext) -> Partial | None:
    """Known part of the distribution after a stage; None where nothing can be said."""
    if isinstance(stage, Temperature) and not stage.greedy:
        return _tempered(stage, known, context) if stage.dynatemp_range == 0.0 else None
    if stage.locality is Locality.BY_ID:
        return _changed_by_id(stage, known, context)
    if stage.locality is Locality.LEADING or isinstance(stage, Temperature):
        return _cut(stage, known, context)
    return None


def _tempered(stage: Temperature, known: Partial, context: StageContext) -> Partial:
    """Every weight to the power 1 / T: what that makes of a sum is bounded by the flattest and the
    most peaked tail of that sum."""
    rest = known.rest
    before = _with_rest_at(known, np.array([rest.ceiling]))
    after = stage.apply(before, context)
    at = after.find(known.ids)[0]
    logits = after.logits[at]
    # From the largest on: where float32 has no room for the others, the stage counts from there.
    top, new_top = float(known.logits.max()), float(logits.max())
    ceiling = float(np.delete(after.logits, at).max()) - new_top
    power, many = 1.0 / max(stage.temperature, stage.floor), math.log(rest.count)
    low, high, peak = rest.low - top, rest.high - top, rest.ceiling - top
    even_low, even_high = (many + power * min(one - many, peak) for one in (low, high))
    peaked_low, peaked_high = (one + (power - 1.0) * peak for one in (low, high))
    # A power above 1 is convex: the even tail then has the smallest sum. Below, the largest.
    low, high = (even_low, peaked_high) if power >= 1.0 else (peaked_low, even_high)
    high = min(high, many + ceiling) + SLACK
    low, high = low - SLACK + new_top, high + new_top
    rest = replace(rest, ceiling=ceiling + new_top, low=low, high=high)
    return _left(known, logits=logits, rest=rest, kept_all=True)


def _changed_by_id(stage: Stage, known: Partial, context: StageContext) -> Partial:
    """The known tokens exactly; the tail as if every token in it stood at its ceiling."""
    rest = known.rest
    count = known.vocab_size - known.ids.size
    before = _with_rest_at(known, np.full(count, rest.ceiling))
    after = stage.apply(before, context)
    at, there = after.find(known.ids)
    of_rest = ~np.isin(after.ids, known.ids)
    heights = after.logits[of_rest].astype(np.float64)
    # What stays where it was at one height may not at another: zero has no multiple.
    lower = stage.apply(_with_rest_at(known, np.full(count, rest.ceiling - 1.0)), context)
    lower_heights = lower.logits[~np.isin(lower.ids, known.ids)]
    touched = count - min(
        int((heights == np.float32(rest.ceiling)).sum()),
        int((lower_heights == np.float32(rest.ceiling - 1.0)).sum()),
    )
    raised = heights[heights > np.float32(rest.ceiling)]
    high = float(np.logaddexp(rest.high, log_sum(raised))) if raised.size else rest.high
    low = _less(rest.low, math.log(touched) + rest.ceiling) if touched else rest.low
    ceiling = min(float(heights.max()), high) if heights.size else -math.inf
    left = min(rest.count, heights.size)
    least = max(0, rest.least - (count - heights.size))
    changed = Rest(least, left, ceiling, low, high) if left else _NO_REST
    gone = np.concatenate((known.gone, known.ids[~there]))
    return _left(
        known,
        ids=known.ids[there],
        logits=after.logits[at[there]],
        rest=changed,
        gone=gone,
        kept_all=heights.size == count and bool(there.all()),
    )


def _cut(stage: Stage, known: Partial, context: StageContext) -> Partial | None:
    """Result of a stage that keeps a leading stretch, whatever the tail is."""
    # A known token among those of the rest: who comes before it is not known.
    above = known.logits > known.rest.ceiling
    rest = known.rest.with_known(known.logits[~above])
    known = _left(known, ids=known.ids[above], logits=known.logits[above], rest=rest)
    if not len(known):
        return None
    certain = np.ones(len(known), dtype=np.bool_)
    possible, rest_left = ~certain, False
    for heights in _extremes(rest):
        left = stage.apply(_with_rest_at(known, heights), context).ids
        kept = np.isin(known.ids, left)
        certain, possible = certain & kept, possible | kept
        rest_left = rest_left or left.size > kept.sum()
    # Of what may be left any part may be gone.
    rest = (rest if rest_left else _NO_REST).with_known(known.logits[possible & ~certain])
    gone = np.concatenate((known.gone, known.ids[~possible]))
    return _left(
        known,
        ids=known.ids[certain],
        logits=known.logits[certain],
        rest=replace(rest, least=0, low=-math.inf),
        gone=gone,
    )


def _left(known: Partial, **changed: Any) -> Partial:
    """``known`` after a stage, which its own figures do not hold for any more."""
    own = {
        "ordered": 0,
        "log_z_known": None,
        "entropy_known": None,
        "kept_all": False,
        "loose": 0.0,
    }
    return replace(known, **own | changed)


def _extremes(rest: Rest) -> Iterator[NDArray[np.float64]]:
    """Tails of the least mass, also with one token as likely as can be; and of the most."""
    if rest.low < rest.ceiling:
        yield peaked_logits(rest.low, rest.ceiling, rest.count)
    for mass in (rest.low, rest.high):
        yield peaked_logits(max(mass, rest.ceiling), rest.ceiling, rest.count)


def _less(log_mass: float, log_part: float) -> float:
    """The logarithm of a sum without a part of it; minus infinity where nothing is left."""
    if log_part >= log_mass:
        return -math.inf
    return log_mass + math.log1p(-math.exp(log_part - log_mass))
