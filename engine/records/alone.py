"""Columns of a comparison held against their text read alone: the question and its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.records.arrays import FloatArray, IntArray
from engine.records.step import Draw
from engine.records.vocabulary import Token

MEASURING_ALONE = "reading columns alone"
"""Phase of LoadProgress meanwhile."""
MOST_ROUNDINGS = 6
"""A drift of so many times what another read of the text alone shows there is rounding still.

With the default model the one was up to 3 times the other where columns parted (bfloat16, whose
logits lie an eighth apart). Keys or positions that are wrong make it tens of times.
"""


@dataclass(frozen=True, eq=False, slots=True)
class DrawnToken:
    """A recorded token, with what it takes to draw it again.

    ``ids`` (n,) and ``logits`` (n,) are the leading candidates and their raw logits, ``state`` that
    of the stages before it. ``margin``: see ``sessions.compare.divergence.margin_of``.
    """

    draw: Draw
    margin: float | None
    ids: IntArray
    logits: FloatArray
    preset: str
    spec: str
    seed: int
    state: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, slots=True)
class DrawnColumn:
    """A column's tokens behind the prompt, up to ``node``."""

    column: int
    node: int
    tokens: tuple[DrawnToken, ...]


@dataclass(frozen=True, slots=True)
class AloneParting:
    """The first token of a column, ``token``, for which its text read alone gives ``other``.

    ``margin`` is by how much the draw was won: the way of u to the edge of the token's stretch,
    or, where it was greedy, logits. ``drift`` is the largest difference of a logit there between
    the pass of the columns and the read alone, ``rounding`` the largest between two reads alone in
    the same dtype; None where it could not be measured.
    """

    position: int
    token: Token
    other: Token
    margin: float
    greedy: bool
    drift: float
    rounding: float | None = None

    @property
    def near_tie(self) -> bool:
        """True if the drift that made them part is no more than rounding."""
        return self.rounding is not None and self.drift <= MOST_ROUNDINGS * self.rounding


@dataclass(frozen=True, slots=True)
class ColumnAlone:
    """Result of reading a column's ``tokens`` tokens up to ``node`` alone.

    ``drift``: the largest difference of a leading candidate's logit. ``near_ties`` counts draws
    whose margin is within what the drift moved there, the first at ``near_position``; another
    rounding may decide them otherwise. ``parting`` is the first that it did decide otherwise.
    ``obstacle`` says why nothing could be told.
    """

    column: int
    node: int
    tokens: int
    drift: float = 0.0
    near_ties: int = 0
    near_position: int | None = None
    parting: AloneParting | None = None
    obstacle: str = ""

    @property
    def fault(self) -> bool:
        """True if the text read alone has another token, and not because of rounding."""
        return self.parting is not None and not self.parting.near_tie


@dataclass(frozen=True, slots=True)
class AloneMeasured:
    """Answer to ``MeasureAlone``: a column each, as many as there was time for.

    Raises ValueError where a figure cannot be.
    """

    dtype: str
    columns: tuple[ColumnAlone, ...]

    def __post_init__(self) -> None:
        for one in self.columns:
            if not (0 <= one.near_ties <= one.tokens < 1 << 31 and 0.0 <= one.drift < 1e30):
                raise ValueError("a column read alone holds a figure that cannot be")
