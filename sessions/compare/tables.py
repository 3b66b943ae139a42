"""Two steps' candidate tables compared: divergence, logits, ranks.

A table holds the leading candidates only. A figure about the whole vocabulary that follows from it
is exact; one that does not is a bound, and says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.records.arrays import DoubleArray, FloatArray
from engine.records.partial import Interval
from engine.records.step import TopTable
from engine.records.vocabulary import Token
from engine.sampling.partial import SLACK

_NOTHING = 1e-12
"""Mass that is rounding, not candidates."""
_IMPOSSIBLE = "a candidate of a is impossible in b"


@dataclass(frozen=True, slots=True)
class Bound:
    """A figure in nats that lies between ``low`` and ``high``; without ``high``, at least ``low``.

    ``low == high`` is exact; infinity is a figure too. ``why`` says what is missing, or infinite.
    """

    low: float
    high: float | None
    why: str = ""

    @property
    def exact(self) -> bool:
        return self.low == self.high


@dataclass(frozen=True, slots=True)
class RankChange:
    """A candidate whose raw rank is not the same in two steps."""

    token: Token
    a: int
    b: int


Common = tuple[NDArray[np.intp], NDArray[np.intp]]


def common_rows(a: TopTable, b: TopTable) -> Common:
    """Rows of ``a`` and of ``b`` that hold the same ids, in the order of the ids."""
    _, rows_a, rows_b = np.intersect1d(a.ids, b.ids, assume_unique=True, return_indices=True)
    return rows_a, rows_b


def same_tokens(a: TopTable, b: TopTable) -> bool:
    """True if the ids that both tables hold stand for the same bytes."""
    rows_a, rows_b = common_rows(a, b)
    pairs = zip(rows_a.tolist(), rows_b.tolist(), strict=True)
    return all(a.tokens[one].bytes == b.tokens[other].bytes for one, other in pairs)


def largest_difference(a: TopTable, b: TopTable) -> float | None:
    """Largest difference of a raw logit among ids in both tables; None where there is none.

    None too where one has logits and the other log-probabilities.
    """
    if (a.slack is None) != (b.slack is None):
        return None
    rows_a, rows_b = common_rows(a, b)
    left, right = a.raw_logits[rows_a], b.raw_logits[rows_b]
    finite = np.isfinite(left) & np.isfinite(right)
    if not finite.any():
        return None
    return float(np.abs(left[finite].astype(np.float64) - right[finite]).max())


def rank_changes(a: TopTable, b: TopTable) -> Iterator[RankChange]:
    """Candidates of both tables whose raw ranks differ, the most likely (in either) first."""
    rows_a, rows_b = common_rows(a, b)
    ranks_a, ranks_b = a.ranks[rows_a], b.ranks[rows_b]
    order = np.argsort(np.minimum(ranks_a, ranks_b), kind="stable")
    for row in order[ranks_a[order] != ranks_b[order]].tolist():
        yield RankChange(a.tokens[int(rows_a[row])], int(ranks_a[row]), int(ranks_b[row]))


def kl(
    a: TopTable,
    b: TopTable,
    level: int,
    dense_a: FloatArray | None = None,
    dense_b: FloatArray | None = None,
) -> Bound:
    """KL(a || b) of the distributions at ``level`` (0: the model's, -1: what was drawn from).

    With both whole logit vectors of level 0 it is exact. Otherwise the candidates that both tables
    hold are compared one by one and all others as if they were one token, which can only make the
    figure smaller (the log-sum inequality): it is exact where nothing is missing.
    """
    if a is b:
        return Bound(0.0, 0.0)
    if dense_a is not None and dense_b is not None and dense_a.shape == dense_b.shape:
        return _exact(_softmax(dense_a), _softmax(dense_b))
    rows_a, rows_b = common_rows(a, b)
    sure = (_slack(a, level)[rows_a] + _slack(b, level)[rows_b]) == 0.0
    if not sure.any():
        return Bound(0.0, None, "of all tokens only bounds on their probability are known")
    rows_a, rows_b = rows_a[sure], rows_b[sure]
    p, q = a.probs[level], b.probs[level]
    common_p, common_q = p[rows_a], q[rows_b]
    rest_p, rest_q = 1.0 - float(common_p.sum()), 1.0 - float(common_q.sum())
    if rest_p <= _NOTHING:
        return _exact(common_p, common_q)
    whole_b = not _slack(b, level).any() and 1.0 - float(q.sum()) <= _NOTHING
    if level != 0 and whole_b and p.sum() - common_p.sum() > _NOTHING:
        return Bound(np.inf, np.inf, _IMPOSSIBLE)
    # A model rules nothing out, whatever rounding says; more mass there only lowers the bound.
    rest_q = max(rest_q, _NOTHING if a.slack is None and b.slack is None else rest_q + SLACK)
    low = _exact(np.append(common_p, rest_p), np.append(common_q, rest_q)).low
    return Bound(low, None, f"{rest_p:.2%} of a's mass is on tokens that b did not keep")


def total_variation(a: TopTable, b: TopTable, level: int) -> float:
    """Half the sum of |p - q| at ``level``, 0 to 1: the least share of draws that must differ.

    An ``Interval`` where the mass on candidates that a table lacks, or whose probability is only
    bounded, leaves it open. Candidates that are missing may agree to the last bit or not at all.
    """
    if a is b:
        return 0.0
    rows_a, rows_b = common_rows(a, b)
    p, q = a.probs[level], b.probs[level]
    apart = np.abs(p[rows_a] - q[rows_b])
    slack = _slack(a, level)[rows_a] + _slack(b, level)[rows_b]
    # The mass on tokens that not both tables hold.
    rest_p, rest_q = _missing(p[rows_a]), _missing(q[rows_b])
    if not slack.any() and _missing(p) == _missing(q) == 0.0:
        return float(apart.sum() + rest_p + rest_q) / 2
    unsure = float(slack.sum())
    least = float(np.maximum(0.0, apart - slack).sum()) + max(0.0, abs(rest_p - rest_q) - unsure)
    most = float((apart + slack).sum()) + rest_p + rest_q + unsure
    return Interval.of(least / 2, min(1.0, most / 2))


def _slack(top: TopTable, level: int) -> DoubleArray:
    return np.zeros(top.ids.size) if top.slack is None else top.slack[level]


def _missing(probs: DoubleArray) -> float:
    """The mass that ``probs`` lack; 0 where that is rounding."""
    rest = 1.0 - float(probs.sum())
    return rest if rest > _NOTHING else 0.0


def _exact(p: DoubleArray, q: DoubleArray) -> Bound:
    """KL of two whole distributions over the same tokens."""
    possible = p > 0.0
    p, q = p[possible], q[possible]
    if not q.all():
        return Bound(np.inf, np.inf, _IMPOSSIBLE)
    value = max(0.0, float((p * (np.log(p) - np.log(q))).sum()))
    return Bound(value, value)


def _softmax(logits: FloatArray) -> DoubleArray:
    values = logits.astype(np.float64)
    values = np.exp(values - values.max())
    result: DoubleArray = values / values.sum()
    return result
