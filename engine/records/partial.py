"""Distributions known in part: figures between two bounds, leading log-probabilities."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from engine.records.arrays import FloatArray, IntArray


class Interval(float):
    """A figure that lies between ``low`` and ``high``, ends included.

    Where a plain number is asked for it is the middle, or the finite end where it has only one.
    Formatted, it is one number where both ends read alike, else both, ``1.31–1.35``; or ``≤1.35``.
    """

    __slots__ = ("high", "low")
    low: float
    high: float

    def __new__(cls, low: float, high: float) -> Interval:
        ends = [end for end in (low, high) if math.isfinite(end)]
        made = super().__new__(cls, sum(ends) / max(1, len(ends)))
        made.low, made.high = low, high
        return made

    @classmethod
    def of(cls, low: float, high: float) -> float:
        """The interval; a plain number where it has no width."""
        return low if low == high else cls(low, high)

    def written(self, write: Callable[[float], str]) -> str:
        """Both ends as ``write`` has them, or the one that there is."""
        low, high = write(self.low), write(self.high)
        if math.inf in (-self.low, self.high):
            return f"≤{high}" if self.low == -math.inf else f"≥{low}"
        return low if low == high else f"{low.removesuffix('%')}–{high}"

    def __format__(self, spec: str) -> str:
        return self.written(lambda end: format(end, spec))

    def __repr__(self) -> str:
        return f"[{self.low!r}, {self.high!r}]"

    def __neg__(self) -> Interval:
        return Interval(-self.high, -self.low)

    def __reduce__(self) -> tuple[type[Interval], tuple[float, float]]:
        return Interval, (self.low, self.high)


def ends(figure: float) -> tuple[float, float]:
    """The bounds of a figure; twice itself where it is a plain number."""
    return (figure.low, figure.high) if isinstance(figure, Interval) else (figure, figure)


@dataclass(frozen=True, eq=False, slots=True)
class TopLogprobs:
    """A distribution of which the leading log-probabilities are known, and no more.

    ``ids`` and ``logprobs`` (log-softmax over the whole vocabulary) have shape (k,), or (n, k) for
    n positions, from the most likely down, k below ``vocab_size``. No token that is not there has
    a higher one than the last. What the model's logits were is not known: they may all be larger
    by the same amount.
    """

    ids: IntArray
    logprobs: FloatArray
    vocab_size: int

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self.ids.nbytes + self.logprobs.nbytes

    def scattered(self) -> FloatArray:
        """One log-probability an id, (vocab_size,): minus infinity for those that are not known."""
        found = np.full(self.vocab_size, -np.inf, np.float32)
        found[self.ids] = self.logprobs
        return found
