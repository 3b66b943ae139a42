"""One round of speculative decoding: what was drafted, what the target made of it, what it cost."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from engine.records.vocabulary import Token

MOST_DRAFTED = 64
"""Tokens that a round drafts at most."""
_SLACK = 1.001


class Accept(StrEnum):
    """Rule by which a round's drafted tokens are accepted."""

    EXACT = "exact"
    """With probability min(1, p/q); the output is distributed as without drafts."""
    MATCH = "match"
    """While the draft equals the target's own draw, as llama.cpp does; lossless too."""
    TYPICAL = "typical"
    """While p exceeds a threshold that falls with the entropy, as Medusa does; not lossless."""

    @property
    def lossy(self) -> bool:
        """True if the output is distributed otherwise than without drafts."""
        return self is Accept.TYPICAL


class DraftVerdict(StrEnum):
    """Outcome of one drafted token."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    DISCARDED = "discarded"
    """It came after a rejected one, and was not looked at."""
    AFTER_STOP = "after stop"
    """It came after an accepted stop token, and was not looked at."""


@dataclass(frozen=True, slots=True)
class DraftSettings:
    """Speculation as it is asked for.

    ``source``: "" for none, ``ngram:N``, ``self:LAYERS`` or a model. ``tokens`` drafted in a round,
    0 for as many as what was accepted before suggests.
    """

    source: str = ""
    tokens: int = 4
    accept: Accept = Accept.EXACT


def parsed_source(text: str) -> tuple[str, int | None]:
    """(kind, number) of a draft source in writing: ``ngram``, ``self``, or ``model`` for others.

    The number is None where none is given. Raises ValueError, which says what would be possible.
    """
    kind, _, number = text.partition(":")
    if text == "ngram":
        return text, None
    if kind not in ("ngram", "self"):
        return "model", None
    if not (number.isascii() and number.isdigit() and len(number) < 6 and int(number)):
        raise ValueError(f"{kind}:N takes a whole number from 1 on, not {number[:40]!r}")
    return kind, int(number)


@dataclass(frozen=True, slots=True)
class Drafted:
    """One drafted token. ``q`` is the probability with which it was drawn, ``p`` the target's.

    Both are after the stages. ``draft_u`` is the number that drew it, ``u`` the one that decided
    over it; None where no randomness was used. ``expected`` is how likely a draft from q is to be
    accepted here by the round's rule, such as the sum of min(p, q) over the vocabulary. ``p`` and
    ``expected`` are None where it was not looked at.
    """

    token: Token
    q: float
    verdict: DraftVerdict
    p: float | None = None
    u: float | None = None
    draft_u: float | None = None
    expected: float | None = None

    @property
    def chance(self) -> float | None:
        """``min(1, p / q)``; None where it was not looked at."""
        return None if self.p is None else min(1.0, self.p / self.q) if self.q else 1.0

    @property
    def verified(self) -> bool:
        """True if the target decided over it."""
        return self.verdict in (DraftVerdict.ACCEPTED, DraftVerdict.REJECTED)


@dataclass(frozen=True, slots=True)
class ResidualRow:
    """One token's probabilities where a draft was rejected; ``left`` is max(0, p - q) / mass."""

    token: Token
    p: float
    q: float
    left: float


@dataclass(frozen=True, slots=True)
class Residual:
    """The distribution that the token after a rejection is drawn from, and its leading rows.

    ``mass`` is the sum of max(0, p - q); where it is 0 the token is drawn from p itself.
    """

    mass: float
    rows: tuple[ResidualRow, ...]


class RoundEnd(StrEnum):
    """Reason for which a round added no more tokens."""

    REJECTED = "rejected"
    BONUS = "bonus"
    STOP = "stop"
    """An accepted stop token, or one behind which the stages leave nothing to draw from."""


@dataclass(frozen=True, slots=True)
class RoundRecord:
    """One round after ``parent``; the tokens that it added are ``node`` and the nodes behind it.

    ``added`` counts them. ``asked`` tokens were to be drafted. Times are milliseconds: ``draft_ms``
    for proposing, ``verify_ms`` for the target's pass, ``rest_ms`` for all else. ``written``
    positions went into the target's cache, ``taken_back`` of these out again; ``draft_written`` and
    ``draft_taken_back`` into and out of the draft's. Raises ValueError for what cannot be.
    """

    node: int
    parent: int
    source: str
    accept: Accept
    asked: int
    drafted: tuple[Drafted, ...]
    added: int
    end: RoundEnd
    draft_ms: float
    verify_ms: float
    rest_ms: float
    written: int = 0
    taken_back: int = 0
    draft_written: int = 0
    draft_taken_back: int = 0
    residual: Residual | None = None
    warmup: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.parent < self.node < 2**31 or not 1 <= self.asked < 2**31:
            raise ValueError("a round's nodes and lengths must be whole numbers that can be")
        if not 1 <= len(self.drafted) <= MOST_DRAFTED or len(self.source) > 4096:
            raise ValueError(f"a round drafts 1 to {MOST_DRAFTED} tokens")
        verdicts = [one.verdict for one in self.drafted]
        accepted = self.accepted
        if DraftVerdict.ACCEPTED in verdicts[accepted:]:
            raise ValueError("a draft is accepted only where all before it are")
        if self.added != accepted + (self.end is not RoundEnd.STOP) or not self.added:
            raise ValueError("a round adds what was accepted and one token more, or a stop token")
        if self.rejected is not (self.end is RoundEnd.REJECTED):
            raise ValueError("a round ends at the draft that was rejected")
        for one in self.drafted:
            figures = (one.q, one.p, one.u, one.draft_u, one.expected)
            if not all(figure is None or 0.0 <= figure <= _SLACK for figure in figures):
                raise ValueError("a probability must lie in 0..1")
            if one.verified is not (one.p is not None):
                raise ValueError("a drafted token has p where it was looked at, and only there")
        left = self.residual
        rows = () if left is None else left.rows
        shares = [share for row in rows for share in (row.p, row.q, row.left)]
        if not all(0.0 <= share <= _SLACK for share in (*shares, left.mass if left else 0.0)):
            raise ValueError("a residual must lie in 0..1")
        counts = (self.written, self.taken_back, self.draft_written, self.draft_taken_back)
        if not all(0 <= count < 2**31 for count in counts):
            raise ValueError("a round's positions must be counts")
        if not all(0.0 <= ms <= 1e12 for ms in (self.draft_ms, self.verify_ms, self.rest_ms)):
            raise ValueError("a round's times must be durations")

    @property
    def accepted(self) -> int:
        """Drafted tokens that were accepted; what comes after a rejection never counts."""
        count = 0
        for one in self.drafted:
            if one.verdict is not DraftVerdict.ACCEPTED:
                break
            count += 1
        return count

    @property
    def rejected(self) -> bool:
        """True if a draft was rejected."""
        return any(one.verdict is DraftVerdict.REJECTED for one in self.drafted)

    @property
    def total_ms(self) -> float:
        return self.draft_ms + self.verify_ms + self.rest_ms

    @property
    def nodes(self) -> range:
        """The nodes of the tokens that it added."""
        return range(self.node, self.node + self.added)
