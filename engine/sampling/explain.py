"""Explanations: a token's fate, dials that would change it, distance of the draw to another."""

from __future__ import annotations

import dataclasses
import functools
import math
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.records.partial import ends
from engine.records.step import CUT_BY_MODEL, SURVIVES, Draw
from engine.sampling.candidates import Candidates, SamplingError
from engine.sampling.draw import stretch
from engine.sampling.ladder import Chain, Ladder
from engine.sampling.partial import Partial
from engine.sampling.stages import (
    Border,
    Dial,
    Figure,
    Stage,
    StageContext,
    Temperature,
    TopH,
    TopK,
    TopP,
    Typical,
    Xtc,
    default_of,
    spelled,
)
from engine.text import share

Number = int | float


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one dial, and what it does.

    ``new`` is the value nearest to ``old`` that has the effect; one step back towards ``old`` has
    it not. ``short`` is a value beyond it with few digits, to be typed.
    """

    stage: int
    dial: str
    old: Number
    new: Number
    short: Number

    @property
    def text(self) -> str:
        return f"{self.dial} {spelled(self.old)} → {spelled(self.short)}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """One token's fate.

    ``stage`` is the index of the stage that cut it, SURVIVES or CUT_BY_MODEL; ``figure`` is what
    that stage judged it by, None where it just forbids.
    ``saved_by`` is the smallest change of one of that stage's dials that keeps the token there;
    ``then_cut_by`` the label of the later stage that would cut it all the same, or nothing.
    """

    token_id: int
    stage: int
    figure: Figure | None
    text: str
    saved_by: Change | None = None
    then_cut_by: str = ""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """The token next to the drawn one on the cumulative bar, and how far u was from it."""

    token_id: int
    distance: float


@dataclass(frozen=True, slots=True)
class Flip:
    """Distance of a draw to its neighbours: u and its two borders."""

    u: float
    low: float
    high: float
    below: Neighbour | None
    above: Neighbour | None

    @property
    def nearest(self) -> Neighbour | None:
        """The nearer neighbour; None when nothing else could be drawn."""
        there = [one for one in (self.below, self.above) if one is not None]
        return min(there, key=lambda one: one.distance) if there else None


@dataclass(frozen=True, slots=True)
class DialFlip:
    """A change of one dial that draws another token with the same u."""

    change: Change
    token_id: int

    @property
    def effort(self) -> float:
        """The change in proportion to the dial's value, to compare dials of different units."""
        return abs(self.change.new - self.change.old) / max(abs(self.change.old), 1e-3)


# --- one token ---------------------------------------------------------------------------------


def explain(
    chain: Chain, ladder: Ladder, context: StageContext, token_id: int, *, saving: bool = True
) -> Explanation:
    """The fate of one token. With ``saving`` also look for what would have kept it."""
    stage = int(ladder.cut_by_of(np.array([token_id]))[0])
    if stage == CUT_BY_MODEL:
        text = "cut by the model: its logit is minus infinity"
        return Explanation(token_id, stage, None, text)
    if stage == SURVIVES:
        probability = ladder.final.prob(token_id)
        survives = "survives" if ends(probability)[0] > 0.0 else "may survive"
        text = f"{survives}: probability {probability:.3g} among {ladder.final.survivors:,}"
        return Explanation(token_id, stage, None, text)
    one, before = chain.stages[stage], ladder.before(stage)
    if isinstance(before, Partial) and not (
        before.log_z_known is not None and before.find(np.array([token_id]))[1][0]
    ):
        # What it was judged by depends on tokens that are not known.
        return Explanation(token_id, stage, None, f"cut by {one.label}, whatever the others are")
    figure = one.figure(before, context, token_id)
    text = f"cut by {one.label}: {in_words(figure)}" if figure else f"forbidden by {one.label}"
    if figure and (tied := _tied(one, before, ladder.after[stage], token_id)):
        text = f"cut by {one.label}: {tied}"
    if not saving:
        return Explanation(token_id, stage, figure, text)
    change = _saving(one, stage, before, context, token_id)
    then = ""
    if change is not None:
        changed = with_dial(chain, stage, change.dial, change.new)
        then = _next_cut(changed, stage, before, context, token_id)
    return Explanation(token_id, stage, figure, text, change, then)


def _tied(one: Stage, before: Candidates, after: Candidates, token_id: int) -> str:
    """A note on a tie with a kept token, and on which of equals stay; or nothing."""
    if not isinstance(one, (TopK, TopP, TopH, Typical, Xtc)):
        return ""
    logit = before.logits[before.find(np.array([token_id]))[0][0]]
    kept = int(np.count_nonzero(after.find(before.ids[before.logits == logit])[1]))
    if not kept:
        return ""
    probability = float(before.probs_of(np.array([token_id]))[0])
    at = f"tied with {kept:,} that it keeps, at {share(probability)}"
    upwards = isinstance(one, Xtc) or (isinstance(one, TopP) and one.border is Border.TAIL)
    ids = "highest" if upwards else "lowest"
    return f"{at}; of equals this stack keeps the {ids} ids"


def in_words(figure: Figure) -> str:
    """Two figures and their order, such as ``probability 0.031 < 0.041``, in digits that differ."""
    value, limit = float(figure.value), float(figure.limit)
    digits = 3
    while digits < 17 and (
        f"{value:.{digits}g}" == f"{limit:.{digits}g}"
        or (f"{value:.{digits}g}" == "1" and value < 1)
    ):
        digits += 1
    if value == limit:
        digits = 3
    return f"{figure.what} {value:.{digits}g} {figure.sign} {limit:.{digits}g}"


def with_dial(chain: Chain, stage: int, dial: str, value: Number) -> Chain:
    """The chain with one dial of one stage at another value."""
    changed: Any = dataclasses.replace(chain.stages[stage], **{dial: value})  # type: ignore[type-var]
    stages = (*chain.stages[:stage], changed, *chain.stages[stage + 1 :])
    return dataclasses.replace(chain, stages=stages)


def _saving(
    one: Stage, stage: int, before: Candidates, context: StageContext, token_id: int
) -> Change | None:
    """The smallest change of one of the stage's dials at which it keeps the token.

    A set that a truncation keeps only grows as its dial goes one way, so bisection is exact.
    """
    if isinstance(one, Temperature):
        return None  # greedy cuts it, and any other temperature would not: no smallest one

    def keeps(dial: str, value: Number) -> bool:
        changed: Any = dataclasses.replace(one, **{dial: value})  # type: ignore[type-var]
        try:
            return bool(changed.apply(before, context).find(np.array([token_id]))[1][0])
        except SamplingError:
            return False

    found = []
    for dial in one.dials:
        if not dial.numeric:
            continue
        old = getattr(one, dial.name)
        for end in _ends(dial, len(before)):
            if end != old and keeps(dial.name, end):
                holds = functools.partial(keeps, dial.name)
                new = _bisect(old, end, holds)
                found.append(Change(stage, dial.name, old, new, _shorten(old, new, end, holds)))
    return min(found, key=lambda change: abs(change.new - change.old), default=None)


def _next_cut(
    chain: Chain, stage: int, before: Candidates, context: StageContext, token_id: int
) -> str:
    level = before
    for one in chain.stages[stage:]:
        try:
            level = one.apply(level, context)
        except SamplingError:
            return one.label
        if not level.find(np.array([token_id]))[1][0]:
            return one.label
    return ""


# --- the draw ----------------------------------------------------------------------------------


def flip_distance(ladder: Ladder, drawn: Draw) -> Flip | None:
    """Distance of u to the nearest other token; None for a token that no u has drawn."""
    if drawn.u is None:
        return None
    final = ladder.final
    rank = final.rank(drawn.token_id)
    low, high = stretch(final, drawn.token_id)
    below = above = None
    if rank > 1:
        below = Neighbour(int(final.ids[final.ranked(rank - 2)]), drawn.u - low)
    # Behind u's token only those of probability 0 may be left, at the end of the bar.
    if rank < len(final) and high < 1.0:
        above = Neighbour(int(final.ids[final.ranked(rank)]), high - drawn.u)
    return Flip(drawn.u, low, high, below, above)


Choose = Callable[[Chain, Ladder, StageContext], Draw]


def dial_flips(
    chain: Chain, ladder: Ladder, context: StageContext, drawn: Draw, choose: Choose = Chain.choose
) -> tuple[DialFlip, ...]:
    """For each dial in use, the nearest change that draws another token; least effort first.

    ``choose``: how a chain's token is drawn, if it is not from what its stages leave alone.

    Found on the real chain with the same dice: outward from the dial's value in steps that grow
    by an eighth (whole numbers one by one up to 256), then by bisection to the very border. So
    the border is exact, and a change nearer than the one found would have to begin and end
    between two such steps.
    """
    flips: list[DialFlip] = []
    for stage, one in enumerate(chain.stages):
        for dial in one.dials:
            in_use = dial is one.dials[0] or getattr(one, dial.name) != default_of(type(one), dial)
            if dial.numeric and in_use:
                flips += _flips_of(chain, ladder, context, drawn, choose, stage, dial)
    return tuple(sorted(flips, key=lambda flip: flip.effort))


def _flips_of(
    chain: Chain,
    ladder: Ladder,
    context: StageContext,
    drawn: Draw,
    choose: Choose,
    stage: int,
    dial: Dial,
) -> Iterator[DialFlip]:
    before = ladder.before(stage)
    old = getattr(chain.stages[stage], dial.name)

    def outcome(value: Number) -> int | None:
        changed = with_dial(chain, stage, dial.name, value)
        try:
            level = before
            for one in changed.stages[stage:]:
                level = one.apply(level, context)
            return choose(changed, Ladder(level, (), ()), context).token_id
        except SamplingError:
            return None

    def differs(value: Number) -> bool:
        return outcome(value) not in (None, drawn.token_id)

    if outcome(old) != drawn.token_id:
        return  # forced, or drawn by another chain: there is no change to look for
    nearest = None
    for end in _ends(dial, len(before)):
        last = old
        for value in _outward(dial, old, end):
            if differs(value):
                new = _bisect(last, value, differs)
                if nearest is None or abs(new - old) < abs(nearest[0] - old):
                    nearest = new, value
                break
            last = value
    if nearest is not None:
        new, beyond = nearest
        change = Change(stage, dial.name, old, new, _shorten(old, new, beyond, differs))
        token = outcome(new)
        if token is not None:
            yield DialFlip(change, token)


# --- searching along a dial --------------------------------------------------------------------


def _ends(dial: Dial, survivors: int) -> tuple[Number, Number]:
    """The outermost values of a dial that can matter."""
    if dial.kind is int:
        low, high = int(dial.low), int(min(dial.high, survivors))
        return (low + 1 if dial.apart == low else low), high
    closed = dial.low_included and dial.apart != dial.low
    start = dial.low if closed else math.nextafter(dial.low, math.inf)
    end = dial.high if dial.high_included else math.nextafter(dial.high, -math.inf)
    return float(start), float(end)


def _outward(dial: Dial, old: Number, end: Number) -> Iterator[Number]:
    """Values from ``old`` to ``end``, first close together and then farther apart."""
    way, span = (1 if end > old else -1), abs(end - old)
    if span == 0:
        return
    whole = dial.kind is int
    distance: float = 1 if whole else min(span, max(abs(old), 0.1)) * 1e-3
    while distance < span:
        yield old + way * (int(distance) if whole else distance)
        distance += 1 if whole and distance <= 256 else distance / 8
    yield end


def _bisect(false_at: Number, true_at: Number, holds: Callable[[Any], bool]) -> Number:
    """The value nearest to ``false_at`` on the way where ``holds``, given that it does at the end.

    To the last bit: the value one step back does not hold.
    """
    if isinstance(false_at, int) and isinstance(true_at, int):
        return _bisect_whole(false_at, true_at, holds)
    low, high = _ordinal(float(false_at)), _ordinal(float(true_at))
    return _from_ordinal(_bisect_whole(low, high, lambda at: holds(_from_ordinal(at))))


def _bisect_whole(low: int, high: int, holds: Callable[[int], bool]) -> int:
    while abs(high - low) > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _shorten(old: Number, exact: Number, end: Number, holds: Callable[[Any], bool]) -> Number:
    """A value with few digits just beyond ``exact``, on the way to ``end``, where ``holds`` still.

    At most a fiftieth farther from ``old``.
    """
    if isinstance(exact, int) or exact == 0.0:
        return exact
    rounding = math.ceil if end > exact else math.floor
    for digits in range(1, 17):
        step = 10.0 ** (math.floor(math.log10(abs(exact))) + 1 - digits)
        rounded = float(f"{rounding(exact / step) * step:.{digits}g}")
        inside = min(exact, end) <= rounded <= max(exact, end)
        if inside and abs(rounded - exact) <= 0.02 * abs(exact - old) and holds(rounded):
            return rounded
    return exact


def _ordinal(value: float) -> int:
    """Doubles as whole numbers in the same order; neighbours differ by 1."""
    bits = int(struct.unpack("<q", struct.pack("<d", value))[0])
    return bits if bits >= 0 else -(bits & 0x7FFF_FFFF_FFFF_FFFF)


def _from_ordinal(ordinal: int) -> float:
    magnitude = float(struct.unpack("<d", struct.pack("<q", abs(ordinal)))[0])
    return magnitude if ordinal >= 0 else -magnitude
