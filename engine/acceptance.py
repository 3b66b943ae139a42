"""Statistics of speculative rounds, as pure functions of their records.

Definitions. Acceptance rate: accepted / drafted, as vLLM has it; the correction, the bonus and what
comes after a rejection never count. At position i of a round (from 1): unconditionally accepted_i /
rounds; conditionally accepted_i / rounds in which position i was decided over. Tokens a pass: 1 +
accepted / rounds, for each round is one pass of the target.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from engine.records.round import DraftVerdict, RoundRecord


@dataclass(frozen=True, slots=True)
class PositionCount:
    """Of the i-th drafts of all rounds: how many were decided over, and how many accepted."""

    reached: int
    accepted: int


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Figures of some rounds. Times are sums in milliseconds, over all rounds.

    ``expected`` is the sum of each decided draft's probability to be accepted, for the very
    distributions it met, and ``expected_error`` the standard deviation of what is to be accepted
    around it; None where nothing was decided over.
    """

    rounds: int
    drafted: int
    accepted: int
    positions: tuple[PositionCount, ...]
    expected: float | None
    expected_error: float | None
    draft_ms: float
    verify_ms: float
    rest_ms: float
    lossy: bool

    @property
    def rate(self) -> float | None:
        """accepted / drafted."""
        return self.accepted / self.drafted if self.drafted else None

    @property
    def tokens_per_pass(self) -> float | None:
        """1 + accepted / rounds."""
        return 1.0 + self.accepted / self.rounds if self.rounds else None


def acceptance(rounds: Iterable[RoundRecord]) -> Acceptance:
    """The figures of these rounds."""
    listed = list(rounds)
    looked = [one for record in listed for one in record.drafted if one.verified]
    chances = [one.expected for one in looked if one.expected is not None]
    longest = max((len(one.drafted) for one in listed), default=0)
    return Acceptance(
        rounds=len(listed),
        drafted=sum(len(one.drafted) for one in listed),
        accepted=sum(one.accepted for one in listed),
        positions=tuple(_position(listed, index) for index in range(longest)),
        expected=sum(chances) if chances else None,
        expected_error=math.sqrt(sum(one * (1.0 - min(1.0, one)) for one in chances))
        if chances
        else None,
        draft_ms=sum(one.draft_ms for one in listed),
        verify_ms=sum(one.verify_ms for one in listed),
        rest_ms=sum(one.rest_ms for one in listed),
        lossy=any(one.accept.lossy for one in listed),
    )


def _position(rounds: Iterable[RoundRecord], index: int) -> PositionCount:
    there = [one.drafted[index] for one in rounds if index < len(one.drafted)]
    accepted = sum(one.verdict is DraftVerdict.ACCEPTED for one in there)
    return PositionCount(sum(one.verified for one in there), accepted)


def tokens_per_pass(chance: float, drafts: int) -> float:
    """Mean tokens a round where each draft is accepted with probability ``chance``, independently.

    (1 - a^(k + 1)) / (1 - a), as in arXiv:2211.17192.
    """
    if chance >= 1.0:
        return drafts + 1.0
    return float((1.0 - chance ** (drafts + 1)) / (1.0 - chance))


def break_even(round_ms: float, step_ms: float, drafts: int) -> float | None:
    """The acceptance, alike at each position, from which rounds are faster than plain steps.

    A round of ``drafts`` drafts takes ``round_ms``, a plain step ``step_ms``. None where no
    acceptance is enough.
    """
    wanted = round_ms / step_ms if step_ms > 0 else math.inf
    if wanted > drafts + 1:
        return None
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if tokens_per_pass(middle, drafts) < wanted else (low, middle)
    return high if wanted > 1.0 else 0.0


def speed_up(rounds: Iterable[RoundRecord], step_ms: float) -> float | None:
    """Speed of rounds against plain steps of ``step_ms`` for the tokens that they added.

    Tokens added x ``step_ms`` / time of the rounds: above 1 they paid. None without any time.
    """
    listed = list(rounds)
    spent = sum(one.total_ms for one in listed)
    return sum(one.added for one in listed) * step_ms / spent if spent > 0 else None


def stretches(rounds: Sequence[RoundRecord], most: int) -> list[list[RoundRecord]]:
    """The rounds in their order as at most ``most`` groups of about as many each."""
    count = min(most, len(rounds))
    edges = [index * len(rounds) // count for index in range(count + 1)] if count > 0 else []
    return [list(rounds[start:end]) for start, end in pairwise(edges)]


def brief_words(found: Acceptance) -> str:
    """The figures that fit on a line."""
    rate, tokens = found.rate or 0.0, found.tokens_per_pass or 0.0
    lossy = ", LOSSY" if found.lossy else ""
    return (
        f"{found.rounds:,} rounds, {found.accepted:,} of {found.drafted:,} drafts accepted "
        f"({rate:.0%} ƒ), {tokens:.2f} ƒ tokens a pass{lossy}"
    )
