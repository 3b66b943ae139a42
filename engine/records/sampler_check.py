"""Our chain held against an engine's own sampler, on one and the same distribution."""

from __future__ import annotations

from dataclasses import dataclass

from engine.records.vocabulary import Token


@dataclass(frozen=True, slots=True)
class CheckedToken:
    """A token's probability after our chain and after the engine's; 0 where it was cut."""

    token: Token
    ours: float
    theirs: float

    @property
    def parts(self) -> bool:
        """True if one keeps it and the other does not."""
        return (self.ours > 0.0) != (self.theirs > 0.0)


@dataclass(frozen=True, eq=False)
class SamplerCheck:
    """Tokens and probabilities that both leave of the distribution behind a text.

    ``rows`` are the likeliest, and the first of those on which they part; ``parted`` counts all of
    these. ``theirs`` is how many tokens the engine kept, at least where it lists no more.
    ``largest`` is the largest difference of a probability; ``near`` is what printing and float32
    may make of it.
    """

    node: int
    stack: str
    spec: str
    ours: int
    theirs: int
    listed_all: bool
    parted: int
    largest: float
    near: float
    rows: tuple[CheckedToken, ...]

    @property
    def same(self) -> bool:
        """True if they keep the same tokens with the same probabilities."""
        return not self.parted and self.largest <= self.near
