"""Acceptance of drafted tokens: the rules of speculative sampling, on plain probabilities.

Leviathan, Kalman, Matias, "Fast inference from transformers via speculative decoding"
(arXiv:2211.17192), and Chen et al. (arXiv:2302.01318): a token x drawn from q is kept with
probability min(1, p(x)/q(x)), else one is drawn from norm(max(0, p - q)). Then the token is
distributed as p, whatever q is, as long as q is the very distribution that x was drawn from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.records.arrays import DoubleArray, IntArray
from engine.records.round import Accept
from engine.sampling.candidates import Candidates
from engine.sampling.draw import argmax
from engine.sampling.ladder import Chain, Ladder

TYPICAL_LIMIT, TYPICAL_SHARE = 0.3, 0.09
"""Medusa's epsilon and delta (arXiv:2401.10774): keep x where p(x) > min(epsilon, delta e^-H)."""


@dataclass(frozen=True, eq=False)
class Probs:
    """Probabilities of the tokens that are possible; ids ascending, both of shape ``(n,)``."""

    ids: IntArray
    values: DoubleArray

    @classmethod
    def one(cls, token_id: int) -> Probs:
        """All on one token: what a lookup proposes, and what greedy decoding leaves."""
        return cls(np.array([token_id], np.int32), np.ones(1))

    @classmethod
    def of(cls, chain: Chain, ladder: Ladder) -> Probs:
        """The distribution that ``chain`` draws from, after its stages."""
        final: Candidates = ladder.final
        if chain.greedy:
            return cls.one(argmax(final).token_id)
        return cls(final.ids, final.probs)

    def at(self, ids: NDArray[np.integer[Any]]) -> DoubleArray:
        """Probability of each of ``ids``; 0 for one that is not possible."""
        found = np.minimum(np.searchsorted(self.ids, ids), self.ids.size - 1)
        return np.where(self.ids[found] == ids, self.values[found], 0.0)

    def of_token(self, token_id: int) -> float:
        """Probability of one token."""
        return float(self.at(np.array([token_id]))[0])


def accepts(p: Any, q: Any, u: Any) -> Any:
    """True where ``u < min(1, p / q)``: numbers, or arrays of one shape. q is above 0."""
    return u * q < p


def expected(rule: Accept, p: Probs, q: Probs, limit: float) -> float:
    """The probability that a draft from ``q`` is accepted; ``limit`` is that of the typical rule.

    The sum of min(p, q), of p q, or of q where p exceeds the limit.
    """
    drafted = q.at(p.ids)
    match rule:
        case Accept.EXACT:
            shares = np.minimum(p.values, drafted)
        case Accept.MATCH:
            shares = p.values * drafted
        case Accept.TYPICAL:
            shares = drafted[p.values > limit]
    return min(1.0, float(shares.sum()))


def residual(p: Probs, q: Probs) -> tuple[float, Probs]:
    """(mass of max(0, p - q), that normalised); ``p`` itself where the mass is 0."""
    left = np.maximum(p.values - q.at(p.ids), 0.0)
    mass = float(left.sum())
    if not mass > 0.0:
        return 0.0, p
    kept = left > 0.0
    return mass, Probs(p.ids[kept], left[kept] / mass)


def pick(probs: Probs, u: Any) -> tuple[Any, Any, Any]:
    """(token ids, and the stretch ``[low, high)`` of each) that numbers ``u`` in [0, 1) draw.

    By the inverse of the cumulative distribution, from the most to the least likely, lowest id
    first among equals. ``u`` is a number or an array.
    """
    order = np.argsort(-probs.values, kind="stable")
    through = np.cumsum(probs.values[order])
    possible = int(np.count_nonzero(probs.values > 0.0))
    # Rounding can leave the whole sum a hair below 1; then the last possible token takes the rest.
    at = np.minimum(np.searchsorted(through, u, side="right"), possible - 1)
    low = np.where(at > 0, through[np.maximum(at - 1, 0)], 0.0)
    return probs.ids[order[at]], low, through[at]


def typical_limit(entropy: float) -> float:
    """Medusa's rule: a draft of a higher p is kept, where p has this entropy; not lossless."""
    return min(TYPICAL_LIMIT, TYPICAL_SHARE * math.exp(-entropy))
