"""Draw many times from one distribution: counts beside what was to be expected."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.records.arrays import DoubleArray, IntArray
from engine.sampling.candidates import Candidates
from engine.sampling.draw import Purpose, uniforms

LEAST_EXPECTED = 5.0
"""Cells of the chi-square test are pooled until they expect at least so many draws."""


@dataclass(frozen=True, eq=False)
class Repeats:
    """``draws`` draws: ids that came up, from the most likely down, and how often.

    ``chi_square`` compares the counts with the expected ones (``degrees`` of freedom);
    ``p_value`` is how often a fair draw would be at least as far off. All three are None where
    fewer than two cells can be told apart.
    """

    draws: int
    ids: IntArray  # (n,)
    counts: NDArray[np.int64]  # (n,)
    expected: DoubleArray  # (n,)
    cells: int
    chi_square: float | None
    degrees: int | None
    p_value: float | None


def repeat_draw(final: Candidates, draws: int, seed: int, position: int) -> Repeats:
    """Draw ``draws`` times from ``final``, with random numbers of their own for this position."""
    if draws < 1:
        raise ValueError(f"draws must be 1 or more, not {draws}")
    order = final.order()
    probs = final.probs_at(final.logits[order])
    cumulative = np.cumsum(probs)
    possible = int(np.count_nonzero(probs > 0.0))
    u = uniforms(seed, position, draws, Purpose.REPEAT)
    # As in a single draw, the last possible token takes what rounding leaves below 1.
    ranks = np.minimum(np.searchsorted(cumulative, u, side="right"), possible - 1)
    counts = np.bincount(ranks, minlength=possible)
    seen = np.flatnonzero(counts)
    expected = probs[:possible] * draws
    observed, wanted = _pool(counts, expected)
    statistic = degrees = p_value = None
    if observed.size > 1:
        statistic = float(((observed - wanted) ** 2 / wanted).sum())
        degrees = observed.size - 1
        p_value = chi_square_tail(statistic, degrees)
    return Repeats(
        draws=draws,
        ids=final.ids[order[seen]],
        counts=counts[seen],
        expected=expected[seen],
        cells=int(observed.size),
        chi_square=statistic,
        degrees=degrees,
        p_value=p_value,
    )


def _pool(counts: NDArray[np.int64], expected: DoubleArray) -> tuple[DoubleArray, DoubleArray]:
    """(observed, expected) by cell: one a token, the unlikely ones together in the last."""
    alone = int(np.count_nonzero(expected >= LEAST_EXPECTED))
    observed = np.append(counts[:alone].astype(np.float64), counts[alone:].sum())
    wanted = np.append(expected[:alone], expected[alone:].sum())
    if wanted[-1] < LEAST_EXPECTED and alone:
        observed, wanted = observed.copy(), wanted.copy()
        observed[-2] += observed[-1]
        wanted[-2] += wanted[-1]
        observed, wanted = observed[:-1], wanted[:-1]
    return observed, wanted


def chi_square_tail(statistic: float, degrees: int) -> float:
    """P(X >= statistic) of the chi-square distribution.

    The regularised upper incomplete gamma function Q(degrees / 2, statistic / 2), by its series
    below a + 1 and by its continued fraction (modified Lentz) above.
    """
    a, x = degrees / 2.0, statistic / 2.0
    if x <= 0.0:
        return 1.0
    scale = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1.0:
        term = total = 1.0 / a
        n = a
        while abs(term) > 1e-16 * abs(total):
            n += 1.0
            term *= x / n
            total += term
        return max(0.0, 1.0 - scale * total)
    b = x + 1.0 - a
    c, d = math.inf, 1.0 / b
    fraction = d
    for i in range(1, 10_000):
        step = -i * (i - a)
        b += 2.0
        d = 1.0 / (step * d + b)
        c = b + step / c
        fraction *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    return min(1.0, scale * fraction)
