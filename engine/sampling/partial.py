"""Candidates of which only the leading ones are known, with bounds on the rest.

A record keeps a step's leading candidates, and a remote engine sends no more of them: how many the
others are is known, what logit none of them exceeds, and what their weights add up to. Figures that
the others can change are intervals; ``engine.sampling.bounds`` follows the bounds through a stage.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.records.arrays import DoubleArray, FloatArray, IntArray
from engine.records.partial import Interval, TopLogprobs
from engine.records.step import StepRecord
from engine.sampling.candidates import Candidates, PositionArray, SamplingError
from engine.text import share

SLACK = 4e-6
"""More than float32 rounding of logits and probabilities can move a share of the mass."""

_ADDED_SINGLY = 2.0**-24
"""Share of a sum that adding one float32 to it can lose, as of all but the largest tokens."""

_MISFIT = 1e-3
"""More than any engine's log-probabilities add up to beyond 1."""


class TailMissing(SamplingError):
    """The chain may keep tokens that are not known: ``mass`` of the model's lies there.

    ``mass`` is None where not even that is known.
    """

    def __init__(self, message: str, mass: float | None = None) -> None:
        super().__init__(message)
        self.mass = mass


class SignMissing(SamplingError):
    """A stage needs logits where an engine tells log-probabilities, however many."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Bounds on the tokens that are not known one by one.

    There are ``least`` to ``count`` of them, none has a logit above ``ceiling``, and the logarithm
    of the sum of their weights, ``exp(logit)``, lies between ``low`` and ``high``. What is not
    known counts as possible until a stage may have cut it.
    """

    least: int
    count: int
    ceiling: float
    low: float
    high: float

    def with_known(self, logits: FloatArray) -> Rest:
        """These and some more, of known logits."""
        if not logits.size:
            return self
        more = log_sum(logits)
        return Rest(
            self.least + logits.size,
            self.count + logits.size,
            max(self.ceiling, float(logits.max())),
            float(np.logaddexp(self.low, more)),
            float(np.logaddexp(self.high, more)),
        )


@dataclass(frozen=True, eq=False)
class Partial(Candidates):
    """Tokens that are there for certain, ids ascending, with their exact logits; and the rest.

    Single figures are intervals where the rest can change them, probabilities in arrays the middle
    of theirs. ``gone``: ids that are cut for certain. ``ordered``: so many rows come first in the
    model's order, ties included. ``scale_known`` is False where all logits may be larger by the
    same unknown amount, as log-probabilities are. ``kept_all``: the stage before cut nothing.
    """

    rest: Rest
    gone: IntArray = field(default_factory=lambda: np.zeros(0, np.int32))
    ordered: int = 0
    scale_known: bool = True
    log_z_known: float | None = None
    entropy_known: float | None = None
    kept_all: bool = False
    loose: float = 0.0
    """So much more or less than 1 the engine's own probabilities may add up to over all tokens."""
    sign_missing: bool = False
    """The stage before needed the sign of a logit, and log-probabilities tell none."""

    @cached_property
    def log_z_bounds(self) -> tuple[float, float]:
        """The least and the largest log-sum-exp that all logits can have."""
        if self.log_z_known is not None:
            return self.log_z_known, self.log_z_known
        known = log_sum(self.logits)
        return float(np.logaddexp(known, self.rest.low)), float(np.logaddexp(known, self.rest.high))

    @property
    def _draw_bounds(self) -> tuple[float, float]:
        """The same for a draw, which is on what the probabilities really add up to."""
        if not self.loose:
            return self.log_z_bounds
        known = log_sum(self.logits)
        return float(np.logaddexp(known, self.rest.low)), float(np.logaddexp(known, self.rest.high))

    @property
    def log_z(self) -> float:
        return Interval.of(*self.log_z_bounds)

    @cached_property
    def _sums(self) -> tuple[float, float, float, float]:
        largest = float(self.logits.max()) if len(self) else 0.0
        return largest, math.exp(min(float(self.log_z) - largest, 700.0)), math.nan, math.nan

    @property
    def survivors(self) -> int | Interval:
        least, most = len(self) + self.rest.least, len(self) + self.rest.count
        return least if least == most else Interval(least, most)

    @property
    def entropy(self) -> float:
        """Its least is that of the fewest tokens that the rest can be, its most the even rest's."""
        if self.entropy_known is not None:
            return self.entropy_known
        rest, most = self.rest, math.log(self.rest.count)
        if not math.isfinite(rest.high):
            return Interval(0.0, math.log(len(self) + rest.count))
        fewest = max(0.0, rest.low - rest.ceiling)
        if not len(self):
            return Interval(fewest, most)
        own = Candidates(self.ids, self.logits, self.vocab_size)
        low, high = (_share(mass - own.log_z) for mass in (rest.low, rest.high))
        even = min(max(_share(most - own.entropy), low), high)
        least = min(_mixed(low, own.entropy, 0.0), _mixed(high, own.entropy, 0.0))
        return Interval.of(least + low * fewest, _mixed(even, own.entropy, most))

    @property
    def varentropy(self) -> float:
        """At most what any distribution that wide can have: Reeb and Wolf, arXiv:1304.0036."""
        return Interval(0.0, math.log(len(self) + self.rest.count) ** 2 / 4 + 1)

    # --- tokens -------------------------------------------------------------------------------

    def find(self, ids: NDArray[np.integer[Any]]) -> tuple[PositionArray, NDArray[np.bool_]]:
        if not len(self):
            return np.zeros(ids.shape, np.intp), np.zeros(ids.shape, np.bool_)
        return super().find(ids)

    def possible(self, ids: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        return ~np.isin(ids, self.gone)

    def logits_of(self, ids: NDArray[np.integer[Any]]) -> FloatArray:
        """The logit of each id; of one that is not known the largest that it can have."""
        at, there = self.find(ids)
        known = self.logits[at] if len(self) else np.zeros(ids.shape, np.float32)
        return np.where(there, known, np.float32(self.rest.ceiling))

    def prob(self, token_id: int) -> float:
        low, high = self.prob_bounds(np.array([token_id]))
        return Interval.of(float(low[0]), float(high[0]))

    def probs_of(self, ids: NDArray[np.integer[Any]]) -> DoubleArray:
        low, high = self.prob_bounds(ids)
        return (low + high) / 2

    def prob_bounds(self, ids: NDArray[np.integer[Any]]) -> tuple[DoubleArray, DoubleArray]:
        """The least and the largest probability of each id."""
        least, most = self.log_z_bounds
        ceiling, there = self.rest.ceiling, self.find(ids)[1]
        if not math.isfinite(ceiling):
            return np.zeros(ids.shape), np.where(self.possible(ids), 1.0, 0.0)
        alone = float(np.logaddexp(log_sum(self.logits), max(self.rest.low, ceiling)))
        peak = min(1.0, math.exp(ceiling - (alone if self.log_z_known is None else least)))
        logits = self.logits_of(ids).astype(np.float64)
        low = np.where(there, np.exp(logits - most), 0.0)
        high = np.where(there, np.minimum(1.0, np.exp(logits - least)), peak)
        return low, np.where(there | self.possible(ids), high, 0.0)

    def removed(self, after: Candidates) -> float:
        """The share of these tokens' mass that a stage cut, which left ``after``."""
        peak = max([self.rest.ceiling, *self.logits.tolist()])
        weights = np.exp(self.logits.astype(np.float64) - peak)
        kept, possible = after.find(self.ids)[1], after.possible(self.ids)
        known = float(weights[kept].sum())
        cut, unclear = float(weights[~possible].sum()), float(weights[possible & ~kept].sum())
        if not math.isfinite(peak):
            return Interval(0.0, 1.0)
        low, high = (math.exp(mass - peak) for mass in (self.rest.low, self.rest.high))
        if isinstance(after, Partial):
            if after.kept_all:
                return 0.0
            whole = cut + known + unclear + high
            return Interval.of(cut / whole, (cut + unclear + high) / whole)
        if self.log_z_known is not None and not self.loose:
            return max(0.0, 1.0 - known * math.exp(peak - self.log_z_known))
        return Interval.of((cut + low) / (cut + low + known), (cut + high) / (cut + high + known))

    @property
    def unknown_share(self) -> float:
        """The share of the mass that lies with tokens that are not known to be there."""
        if not math.isfinite(self.rest.high):
            return Interval(0.0, 1.0)
        pairs = zip((self.rest.low, self.rest.high), self.log_z_bounds, strict=True)
        return Interval.of(*(math.exp(min(0.0, mass - log_z)) for mass, log_z in pairs))

    def drawn(self, u: float) -> tuple[int, float, float]:
        """The id that ``u`` draws whatever the rest is, and the ends of its stretch.

        Raises TailMissing where that depends on the rest.
        """
        # Ahead of the rest in the order of the draw.
        sure = [at for at in self.order() if self.logits[at] > self.rest.ceiling]
        weights = self.logits[sure].astype(np.float64)
        least, most = (
            np.concatenate(([0.0], np.cumsum(np.exp(weights - log_z))))
            for log_z in reversed(self._draw_bounds)
        )
        at = int(np.searchsorted(least[1:], u, side="right"))
        if at < len(sure) and most[at] <= u:
            low, high = (Interval.of(float(least[end]), float(most[end])) for end in (at, at + 1))
            return int(self.ids[sure[at]]), low, high
        raise self.missing(f"u = {u:.6f} may draw one of them")

    def missing(self, why: str) -> TailMissing:
        """The error for a choice that depends on tokens that are not known."""
        mass = self.unknown_share
        return TailMissing(
            f"{share(mass)} of the mass lies with tokens that are not known, and {why}: force a "
            "token, or let top_k, top_p or min_p leave none but known ones",
            mass,
        )


def from_top(top: TopLogprobs) -> Candidates:
    """Candidates of a position's leading log-probabilities, shape (k,).

    Raises SamplingError for what cannot be a part of a distribution.
    """
    ids, logits = top.ids, top.logprobs.astype(np.float32)
    if ids.shape != logits.shape or ids.ndim != 1 or not ids.size:
        raise SamplingError(f"ids of shape {ids.shape} and log-probabilities of {logits.shape}")
    if len(set(ids.tolist())) != ids.size or not -1 < ids.min() <= ids.max() < top.vocab_size:
        raise SamplingError("the log-probabilities name a token twice, or one that there is not")
    if not (logits <= _MISFIT).all() or np.exp(logits.astype(np.float64)).sum() > 1 + _MISFIT:
        raise SamplingError("the log-probabilities are NaN, or add up to more than 1")
    ordered = int(np.count_nonzero(logits > logits.min()))
    return _head(ids, logits, 0.0, float(logits.min()), ordered, top.vocab_size, scale_known=False)


def from_record(step: StepRecord, vocab_size: int) -> Candidates:
    """Candidates as far as a step's record holds them; whole where its table does."""
    top = step.top
    seen = np.ones(top.ids.size, np.bool_) if top.slack is None else top.slack[0] == 0.0
    ids, logits, ranks = top.ids[seen], top.raw_logits[seen], top.ranks[seen]
    # Single tokens from further down may follow the model's first.
    first = int(np.logical_and.accumulate(ranks == np.arange(1, ranks.size + 1)).sum())
    last = float(logits[first - 1])
    ordered = first if top.slack is None else int(np.count_nonzero(logits > last))
    entropy = None if isinstance(step.entropy_raw, Interval) else step.entropy_raw
    scale_known = top.slack is None
    return _head(ids, logits, step.log_z_raw, last, ordered, vocab_size, scale_known, entropy)


def _head(
    ids: IntArray,
    logits: FloatArray,
    log_z: float,
    last: float,
    ordered: int,
    vocab_size: int,
    scale_known: bool,
    entropy: float | None = None,
) -> Candidates:
    """Candidates of ``ids``, and a rest of all others, none of which has more than ``last``."""
    others = vocab_size - ids.size
    possible = logits > -np.inf
    order = np.argsort(ids[possible])
    ids, logits = ids[possible][order].astype(np.int32), logits[possible][order]
    if others <= 0:
        return Candidates(ids, logits, vocab_size)
    mass = max(0.0, 1.0 - float(np.exp(logits.astype(np.float64) - log_z).sum()))
    # llama.cpp adds the weights up in float32, one by one: 1.0002 over 49,152 tokens was seen.
    loose = 0.0 if scale_known else others * _ADDED_SINGLY
    slack = SLACK + loose
    low = math.log(mass - slack) if mass > slack else -math.inf
    high = math.log(mass + slack) + log_z
    rest = Rest(others, others, min(last, high), low + log_z, high)
    return Partial(
        ids,
        logits,
        vocab_size,
        rest,
        ordered=ordered,
        scale_known=scale_known,
        log_z_known=log_z,
        entropy_known=entropy,
        loose=loose,
    )


def _share(log_ratio: float) -> float:
    """Share of the first of two weights, given the logarithm of their ratio."""
    return 1.0 / (1.0 + math.exp(-log_ratio)) if log_ratio > -700.0 else 0.0


def _mixed(second: float, entropy: float, other: float) -> float:
    """Entropy of two distributions, of these entropies, mixed with the share ``second``."""
    shares = [one for one in (second, 1.0 - second) if one > 0.0]
    mixing = -sum(one * math.log(one) for one in shares)
    return mixing + (1.0 - second) * entropy + second * other


def log_sum(logits: NDArray[np.floating[Any]]) -> float:
    """The logarithm of the sum of ``exp(logits)``."""
    return float(np.logaddexp.reduce(logits.astype(np.float64)))
