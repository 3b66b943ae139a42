"""One step's candidates: the tokens still possible, with float32 logits, and figures about them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.records.arrays import DoubleArray, FloatArray, IntArray
from engine.records.partial import Interval

PositionArray = NDArray[np.intp]
_FIRST_HEAD = 256
_BLOCK = 8192
_SORT_WHOLE = 16_384
_BINS, _BIN_RANGE = 4096, 32.0
# More than float32 rounding can move a sum of probabilities.
_SLACK = 1e-6


class SamplingError(ValueError):
    """A distribution that cannot be sampled; the message names the stage and the reason."""


@dataclass(frozen=True, eq=False)
class Run:
    """Neighbours in the order: logits from the largest down, shape ``(n,)``.

    ``start`` others come before them, with ``before`` of the mass.
    """

    start: int
    before: float
    logits: FloatArray


@dataclass(frozen=True, eq=False)
class Candidates:
    """The tokens that are still possible, ids ascending, and their current logits.

    Immutable: a stage returns a new object; both arrays refuse to be written to. Ids and logits
    have shape ``(n,)`` with n >= 1; ``vocab_size`` is the width of the vector they came from.
    Probabilities are float64, because a debugger's figures should not depend on summing order.
    """

    ids: IntArray
    logits: FloatArray
    vocab_size: int

    def __post_init__(self) -> None:
        self.ids.flags.writeable = False
        self.logits.flags.writeable = False

    @classmethod
    def from_logits(cls, logits: NDArray[Any]) -> Candidates:
        """Candidates of a model's raw logits, shape ``(vocab_size,)``, of any real dtype.

        Upcast to float32 first: float16 overflows under a small temperature. Entries of minus
        infinity are not candidates. Raises SamplingError on NaN, plus infinity, or nothing left.
        """
        if logits.ndim != 1 or logits.size == 0:
            raise SamplingError(f"logits must be one non-empty vector, not shape {logits.shape}")
        # A copy even of float32: what a backend or a caller does to its array later is not ours.
        with np.errstate(over="ignore"):
            values = np.array(logits, dtype=np.float32)
        low, high = values.min(), values.max()  # NaN passes through both
        if low > -np.inf and high < np.inf:
            return cls(np.arange(values.size, dtype=np.int32), values, values.size)
        if np.isnan(values).any():
            raise SamplingError(f"the model's logits hold {np.isnan(values).sum()} NaN")
        if np.isposinf(values).any():
            raise SamplingError("the model's logits hold plus infinity")
        ids = np.flatnonzero(np.isfinite(values)).astype(np.int32)
        if ids.size == 0:
            raise SamplingError("the model's logits are all minus infinity")
        return cls(ids, values[ids], values.size)

    def __len__(self) -> int:
        return int(self.ids.size)

    def select(self, keep: NDArray[np.bool_]) -> Candidates:
        """The candidates where ``keep`` (shape ``(n,)``) holds; self when it holds everywhere.

        Raises SamplingError when it holds nowhere.
        """
        positions = np.flatnonzero(keep)
        if positions.size == len(self):
            return self
        if positions.size == 0:
            raise SamplingError("no token is left")
        return Candidates(self.ids[positions], self.logits[positions], self.vocab_size)

    def only(self, positions: PositionArray) -> Candidates:
        """The candidates at ``positions``, which may come in any order."""
        keep = np.zeros(len(self), dtype=np.bool_)
        keep[positions] = True
        return self.select(keep)

    def with_logits(self, logits: NDArray[Any]) -> Candidates:
        """The same tokens with other logits, shape ``(n,)``; those of minus infinity are cut.

        Raises SamplingError on NaN, plus infinity, or when nothing is left.
        """
        values = logits.astype(np.float32, copy=False)
        low, high = values.min(), values.max()  # NaN passes through both
        if np.isnan(low) or high == np.inf:
            raise SamplingError("a logit became " + ("NaN" if np.isnan(low) else "plus infinity"))
        changed = Candidates(self.ids, values, self.vocab_size)
        return changed if low > -np.inf else changed.select(values > -np.inf)

    @cached_property
    def _sums(self) -> tuple[float, float, float, float]:
        """(max logit, sums of w, w * d and w * d * d); d is ``logit - max`` and w ``exp(d)``.

        In blocks that stay in the processor's cache: whole float64 vectors would spend most of
        the time on fresh memory. And not np.dot: where the model's threads are busy, its own
        thread pool waits for milliseconds.
        """
        largest = float(self.logits.max())
        below, weights = np.empty(_BLOCK), np.empty(_BLOCK)
        total = first = second = 0.0
        for start in range(0, len(self), _BLOCK):
            block = self.logits[start : start + _BLOCK]
            d, w = below[: block.size], weights[: block.size]
            d[:] = block
            d -= largest  # in float64, so that the distance of two huge logits is exact
            np.exp(d, out=w)
            total += float(w.sum())
            w *= d
            first += float(w.sum())
            w *= d
            second += float(w.sum())
        return largest, total, first, second

    @property
    def survivors(self) -> int | Interval:
        """Number of tokens that are still possible."""
        return len(self)

    @property
    def total(self) -> float:
        """Sum of ``exp(logit - max)``: how many of the most likely token the mass would make."""
        return self._sums[1]

    @property
    def log_z(self) -> float:
        """log-sum-exp of the logits."""
        largest, total, *_ = self._sums
        return largest + float(np.log(total))

    @property
    def entropy(self) -> float:
        """Shannon entropy in nats: ``log_z - E[logit]``."""
        _, total, first, _ = self._sums
        return max(0.0, float(np.log(total)) - first / total)

    @property
    def varentropy(self) -> float:
        """Variance of the surprisal in nats squared, ``E[(surprisal - entropy)^2]``.

        Surprisal and logit differ by a constant, so it is ``E[d^2] - E[d]^2``.
        """
        _, total, first, second = self._sums
        return max(0.0, second / total - (first / total) ** 2)

    @cached_property
    def probs(self) -> DoubleArray:
        """Probability of each candidate, shape ``(n,)``, summing to 1."""
        return self.probs_at(self.logits)

    def probs_at(self, logits: FloatArray) -> DoubleArray:
        """Probability that each of these ``logits`` has in this distribution."""
        largest, total, *_ = self._sums
        values = logits.astype(np.float64)
        values -= largest
        np.exp(values, out=values)
        values /= total
        return values

    def order(self, at_least: int | None = None) -> PositionArray:
        """Positions of the leading candidates: by logit descending, lowest id first among equals.

        Returns at least ``min(at_least, n)`` of them (all when None); what was sorted once is
        kept, and a longer order always begins with the shorter one.
        """
        size = len(self)
        wanted = size if at_least is None else min(at_least, size)
        known: PositionArray | None = self.__dict__.get("_order")
        if known is None or known.size < wanted:
            known = _leading(self.logits, max(wanted, _FIRST_HEAD))
            self.__dict__["_order"] = known
        return known

    def descending(self, at_least: int) -> FloatArray:
        """At least ``min(at_least, n)`` of the logits, from the largest down.

        Cheaper than ``order`` when much of the vocabulary is asked for: no ids are sorted.
        """
        known: FloatArray | None = self.__dict__.get("_descending")
        if known is None or known.size < min(at_least, len(self)):
            if at_least <= _FIRST_HEAD:
                return self.logits[self.order(at_least)]
            head = self.logits[self.logits >= _threshold(self.logits, at_least)]
            known = self.__dict__["_descending"] = np.sort(head)[::-1]
        return known

    def around(self, mass: float, *, rounded: bool = False) -> Run:
        """A run of the order that holds the place where the summed probabilities reach ``mass``.

        With some slack on both sides. ``rounded`` adds up probabilities rounded to float32. Sorts
        no more than it needs: an untruncated vocabulary can have 100,000 likely tokens.
        """
        for size in (_FIRST_HEAD, 8 * _FIRST_HEAD):
            logits = self.descending(size)
            if logits.size == len(self) or self._mass(logits, rounded) > mass + _SLACK:
                return Run(0, 0.0, logits)
        if len(self) <= _SORT_WHOLE:
            return Run(0, 0.0, self.descending(len(self)))
        bins, through = self._binned(rounded)
        first, last = np.searchsorted(through, (mass - _SLACK, mass + _SLACK))
        inside = (bins >= first) & (bins <= last)
        start = int(np.count_nonzero(bins < first))
        before = float(through[first - 1]) if first else 0.0
        return Run(start, before, np.sort(self.logits[inside])[::-1])

    def _binned(self, rounded: bool) -> tuple[NDArray[np.int16], DoubleArray]:
        """(bin of each logit, by its distance from the largest; mass through each bin)."""
        largest, scale = self.logits.max(), np.float32(_BINS / _BIN_RANGE)
        bins, masses = np.empty(len(self), dtype=np.int16), np.zeros(_BINS)
        for start in range(0, len(self), _BLOCK):
            block = self.logits[start : start + _BLOCK]
            distance = np.minimum((largest - block) * scale, np.float32(_BINS - 1))
            bins[start : start + _BLOCK] = index = distance.astype(np.intp)
            probs = self.probs_at(block)
            weights = probs.astype(np.float32) if rounded else probs
            masses += np.bincount(index, weights=weights, minlength=_BINS)
        return bins, np.cumsum(masses)

    @cached_property
    def rounded_total(self) -> float:
        """Sum of the probabilities, each rounded to float32 first; near 1."""
        blocks = range(0, len(self), _BLOCK)
        return sum(self._mass(self.logits[start : start + _BLOCK], True) for start in blocks)

    def _mass(self, logits: FloatArray, rounded: bool) -> float:
        probs = self.probs_at(logits)
        return float((probs.astype(np.float32) if rounded else probs).sum(dtype=np.float64))

    def leading(
        self, count: int, *, border: float | None = None, keep_highest_ids: bool = False
    ) -> Candidates:
        """The ``count`` largest; among equals at the border the lowest ids, or the highest.

        ``border`` is the logit of the last of them, for who knows it already.
        """
        if count >= len(self):
            return self
        if border is None:
            border = self.descending(count)[count - 1]
        keep = self.logits >= border
        excess = int(np.count_nonzero(keep)) - count
        if excess:
            tied = np.flatnonzero(self.logits == border)
            keep[tied[:excess] if keep_highest_ids else tied[-excess:]] = False
        return self.select(keep)

    def ranked(self, rank: int, logit: float | None = None) -> int:
        """Position of the candidate in place ``rank`` (from 0) of ``order``.

        ``logit`` is its logit, for who knows it already.
        """
        if rank < _FIRST_HEAD:
            return int(self.order(rank + 1)[rank])
        if logit is None:
            logit = self.descending(rank + 1)[rank]
        equal = np.flatnonzero(self.logits == logit)
        return int(equal[rank - np.count_nonzero(self.logits > logit)])

    def rank(self, token_id: int) -> int:
        """Place of a token in ``order``, 1 for the most likely; behind all for one that is gone."""
        at, present = self.find(np.array([token_id]))
        if not present[0]:
            return len(self) + 1
        logit = self.logits[at[0]]
        above = int(np.count_nonzero(self.logits > logit))
        return above + 1 + int(np.count_nonzero(self.logits[: at[0]] == logit))

    def possible(self, ids: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """True for each id that may be among the candidates; shaped like ``ids``."""
        return self.find(ids)[1]

    def logits_of(self, ids: NDArray[np.integer[Any]]) -> FloatArray:
        """The logit of each id; minus infinity for one that is no candidate."""
        at, present = self.find(ids)
        return np.where(present, self.logits[at], np.float32(-np.inf))

    def find(self, ids: NDArray[np.integer[Any]]) -> tuple[PositionArray, NDArray[np.bool_]]:
        """Position of each id, and whether it is there at all; both shaped like ``ids``."""
        if len(self) == self.vocab_size:
            # All are there, each at its own place.
            at = np.minimum(np.maximum(ids, 0), self.vocab_size - 1).astype(np.intp, copy=False)
            return at, at == ids
        at = np.minimum(np.searchsorted(self.ids, ids), len(self) - 1)
        return at, self.ids[at] == ids

    def prob(self, token_id: int) -> float:
        """Probability of one token; 0 where it is no longer a candidate."""
        return float(self.probs_of(np.array([token_id]))[0])

    def probs_of(self, ids: NDArray[np.integer[Any]]) -> DoubleArray:
        """Probability of each id; 0 for one that is no longer a candidate."""
        at, present = self.find(ids)
        return np.where(present, self.probs_at(self.logits[at]), 0.0)


def _leading(logits: FloatArray, count: int) -> PositionArray:
    """Positions of the ``count`` largest (or all, or every tie of the last), in order."""
    positions = np.flatnonzero(logits >= _threshold(logits, count))
    # A stable sort of the negated values keeps the lower id in front, and -0.0 beside 0.0.
    return positions[np.argsort(-logits[positions], kind="stable")]


def _threshold(logits: FloatArray, count: int) -> np.float32:
    """A value that at least ``count`` logits reach, and (of a long vector) not many more."""
    blocks = 2 * count
    rows = logits.size // blocks
    if rows < 2 or logits.size <= _FIRST_HEAD:
        return np.float32(-np.inf)
    # As many values as there are blocks whose maximum reaches it, at the least. Ten times as fast
    # as partitioning the whole vocabulary.
    maxima = logits[: rows * blocks].reshape(rows, blocks).max(axis=0)
    return np.float32(np.partition(maxima, count)[count])
