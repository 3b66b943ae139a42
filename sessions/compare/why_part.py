"""Reasons for which two steps at one position drew, or did not draw, the same token.

What two records hold of one moment: the settings that differ, the first stage after which other
candidates are left, how far the final distributions lie apart, and what each would have drawn with
the other's dice. All of it follows from the records; what they cannot tell is None or an interval.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np

from engine.records.partial import Interval
from engine.records.step import CUT_BY_MODEL, SURVIVES, DrawnOn, How, StepRecord
from engine.records.vocabulary import Token
from sessions.compare.diff import Change, settings_between
from sessions.compare.tables import Bound, common_rows, kl, largest_difference, total_variation

MODEL = "model"
"""The place of a difference that is there before any stage."""
_TOKENS_NAMED = 4
_SUM_OF_ALL = 1.0 - 1e-9


@dataclass(frozen=True, slots=True)
class StageParting:
    """The first stage after which two chains leave other candidates.

    ``stage`` is its name, or ``MODEL``; ``a`` and ``b`` are the survivors of each side there.
    ``only_a`` and ``only_b`` are leading tokens that only one side keeps, as far as recorded.
    """

    stage: str
    a: int | Interval
    b: int | Interval
    only_a: tuple[Token, ...]
    only_b: tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class OtherDice:
    """The token that one side would have drawn with the dice of the other.

    ``token`` is None where that cannot be told, and ``why`` says for what reason; where no dice are
    thrown ``token`` is what is always taken, and ``why`` says that.
    """

    token: Token | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class WhyPart:
    """Two steps after the same text. ``a_with_b`` is what ``a`` draws with the dice of ``b``."""

    position: int
    a: Token
    b: Token
    settings: tuple[Change, ...]
    stage: StageParting | None
    """None where the candidate sets are the same after every stage, as far as recorded."""
    kl: Bound
    """KL(a || b) of the final distributions, in nats."""
    total_variation: float
    u_a: float | None
    """The number that each was drawn with; None where none was."""
    u_b: float | None
    a_with_b: OtherDice
    b_with_a: OtherDice
    how_a: How
    """The way in which each came."""
    how_b: How
    drift: float | None = None
    """Largest difference of a raw logit, of one text in two passes; None where it is not known."""

    @property
    def parts(self) -> bool:
        """True if they took different tokens."""
        return self.a.id != self.b.id

    @property
    def same_dice(self) -> bool:
        """True if both were drawn with the same number."""
        return self.u_a is not None and self.u_a == self.u_b

    @property
    def by_logits(self) -> bool:
        """True if they part with the same settings and dice: by the logits of two passes."""
        greedy = self.how_a is self.how_b is How.GREEDY
        return self.parts and not self.settings and (self.same_dice or greedy)

    @property
    def same_with_dice_of_a(self) -> bool | None:
        """True if with the dice of ``a`` both take one token; None where that cannot be told."""
        return None if self.b_with_a.token is None else self.b_with_a.token.id == self.a.id

    @property
    def same_with_dice_of_b(self) -> bool | None:
        """The same with the dice of ``b``."""
        return None if self.a_with_b.token is None else self.a_with_b.token.id == self.b.id


def why_part(a: StepRecord, b: StepRecord) -> WhyPart:
    """Compare two steps before which the same tokens were read."""
    return WhyPart(
        position=a.position,
        a=a.token,
        b=b.token,
        settings=settings_between(a, b),
        stage=parting_stage(a, b),
        kl=kl(a.top, b.top, -1),
        total_variation=total_variation(a.top, b.top, -1),
        u_a=_dice(a),
        u_b=_dice(b),
        a_with_b=with_dice_of(a, b),
        b_with_a=with_dice_of(b, a),
        how_a=a.draw.how,
        how_b=b.draw.how,
        drift=largest_difference(a.top, b.top),
    )


# --- stages -----------------------------------------------------------------------------------


def parting_stage(a: StepRecord, b: StepRecord) -> StageParting | None:
    """The first stage after which not the same candidates are left.

    Stages of the same name are compared with each other, in the order of the chains; where only
    one chain has a stage, what it leaves is compared with what the other has left until then.
    """
    for at_a, at_b, name in [(0, 0, MODEL), *_aligned(a, b)]:
        only_a, only_b = _only(a, at_a, b, at_b), _only(b, at_b, a, at_a)
        left_a, left_b = _left(a, at_a), _left(b, at_b)
        counted = at_a > 0 and at_b > 0
        if only_a or only_b or (counted and _differ(left_a, left_b)):
            return StageParting(name, left_a, left_b, only_a, only_b)
    return None


def _aligned(a: StepRecord, b: StepRecord) -> Iterator[tuple[int, int, str]]:
    """(stages of ``a`` so far, of ``b`` so far, name of the last one), place by place."""
    names_a, names_b = ([stage.name for stage in one.stages] for one in (a, b))
    matcher = SequenceMatcher(None, names_a, names_b, autojunk=False)
    for tag, from_a, to_a, from_b, to_b in matcher.get_opcodes():
        if tag == "equal":
            for at in range(to_a - from_a):
                yield from_a + at + 1, from_b + at + 1, names_a[from_a + at]
            continue
        for at in range(from_a, to_a):
            yield at + 1, from_b, names_a[at]
        for at in range(from_b, to_b):
            yield to_a, at + 1, names_b[at]


def _left(step: StepRecord, stages: int) -> int | Interval:
    """Survivors after so many stages; of none, those the record holds."""
    return step.stages[stages - 1].survivors if stages else int(_alive(step, 0).sum())


def _differ(one: int | Interval, other: int | Interval) -> bool:
    """True if two counts differ for certain."""
    if isinstance(one, Interval) or isinstance(other, Interval):
        low, high = ((x.low, x.high) if isinstance(x, Interval) else (x, x) for x in (one, other))
        return low[1] < high[0] or high[1] < low[0]
    return one != other


def _alive(step: StepRecord, stages: int) -> np.ndarray:
    """Rows of the record that so many stages left, shape (n,)."""
    cut = step.top.cut_by
    alive: np.ndarray = (cut == SURVIVES) | ((cut != CUT_BY_MODEL) & (cut >= stages))
    return alive


def _only(a: StepRecord, at_a: int, b: StepRecord, at_b: int) -> tuple[Token, ...]:
    """Leading tokens that ``a`` has left and ``b``, for all that is recorded, has not."""
    rows_a, rows_b = common_rows(a.top, b.top)
    apart = np.zeros(a.top.ids.size, np.bool_)
    if float(b.top.probs[at_b].sum()) >= _SUM_OF_ALL:
        # All that ``b`` has left there is in its record.
        apart |= _alive(a, at_a)
    apart[rows_a] = _alive(a, at_a)[rows_a] & ~_alive(b, at_b)[rows_b]
    rows = np.flatnonzero(apart)
    first = rows[np.argsort(a.top.ranks[rows], kind="stable")][:_TOKENS_NAMED]
    return tuple(a.top.tokens[int(row)] for row in first)


# --- dice -------------------------------------------------------------------------------------


def _dice(step: StepRecord) -> float | None:
    """The number that the survivors were drawn with; None where that is not how it came."""
    return step.draw.u if step.draw.on is DrawnOn.SURVIVORS else None


def with_dice_of(step: StepRecord, other: StepRecord) -> OtherDice:
    """The token that ``step`` would have drawn with the number that ``other`` was drawn with."""
    if step.draw.on is not DrawnOn.SURVIVORS or other.draw.on is not DrawnOn.SURVIVORS:
        return OtherDice(None, "drawn in a speculative round, whose dice mean something else")
    if step.draw.how is How.FORCED:
        return OtherDice(step.token, "forced, whatever the dice")
    if step.draw.how is How.GREEDY:
        return OtherDice(step.token, "greedy, whatever the dice")
    u = other.draw.u
    if u is None:
        return OtherDice(None, f"the other is {other.draw.how.value}: it threw no dice")
    if u == step.draw.u:
        return OtherDice(step.token)
    return _drawn(step, u)


def _drawn(step: StepRecord, u: float) -> OtherDice:
    """The candidate whose stretch of the survivors' cumulative distribution holds ``u``."""
    top, final = step.top, step.top.probs[-1]
    if top.slack is not None and top.slack[-1].any():
        return OtherDice(None, "of some candidates only bounds on their probability are known")
    order = np.lexsort((top.ids, -final))[: int(np.count_nonzero(final))]
    ends = np.cumsum(final[order])
    place = np.flatnonzero(top.ids[order] == step.token.id)
    # A stage that reorders may have put survivors first that the record does not hold.
    whole = bool(ends.size) and ends[-1] >= _SUM_OF_ALL
    placed = place.size and abs(ends[place[0]] - final[order][place[0]] - step.draw.low) < 1e-6
    if not whole and not placed:
        return OtherDice(None, "the record does not hold the survivors in the order of the draw")
    at = int(np.searchsorted(ends, u, side="right"))
    if at >= ends.size and not whole:
        return OtherDice(None, "its place is among candidates that the record does not hold")
    return OtherDice(top.tokens[int(order[min(at, ends.size - 1)])])
