"""The one random act: a counter-based number in [0, 1) on the survivors' cumulative distribution.

The number depends on (seed, position, purpose) and on nothing else. Stepping back and again,
replaying a session and comparing two settings "with the same dice" are exact for that reason.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from engine.records.step import Draw, How
from engine.sampling.candidates import Candidates, SamplingError
from engine.sampling.partial import Partial

_MASK_64 = (1 << 64) - 1


class Purpose(IntEnum):
    """Use of a random number. Part of its key, so that uses never share a number."""

    TOKEN = 0
    STAGE = 1
    DRAFT = 2
    ACCEPT = 3
    RESIDUAL = 4
    REPEAT = 5
    BONUS = 6


def uniform(seed: int, position: int, purpose: Purpose = Purpose.TOKEN, index: int = 0) -> float:
    """A double in [0, 1), a pure function of its arguments (numpy's Philox-4x64).

    ``index`` tells apart several numbers of one purpose at one position.
    """
    return float(uniforms(seed, position, 1, purpose, index)[0])


def uniforms(
    seed: int, position: int, count: int, purpose: Purpose, index: int = 0
) -> NDArray[np.float64]:
    """``count`` doubles in [0, 1) in a row; the first is ``uniform`` of the same arguments."""
    bits = np.random.Philox(
        key=np.array([seed & _MASK_64, purpose], dtype=np.uint64),
        counter=np.array([0, position, index, 0], dtype=np.uint64),
    )
    return np.random.Generator(bits).random(count)


def draw(final: Candidates, u: float) -> Draw:
    """The candidate whose stretch of the cumulative distribution holds ``u`` (inverse CDF).

    Candidates lie from the most to the least likely, lowest id first among equals. Only as many
    are sorted as ``u`` needs. Raises ValueError for ``u`` outside [0, 1) and SamplingError when
    the chosen probability is not above 0, or the token depends on candidates that are not known.
    """
    if not 0.0 <= u < 1.0:
        raise ValueError(f"u must lie in [0, 1), not {u}")
    if isinstance(final, Partial):
        token_id, *ends = final.drawn(u)
        return Draw(token_id, How.SAMPLED, u, ends[0], ends[1])
    run = final.around(u)
    probs = final.probs_at(run.logits)
    cumulative = run.before + np.cumsum(probs)
    index = int(np.searchsorted(cumulative, u, side="right"))
    # Rounding can leave the whole sum a hair below 1; then the last possible token takes the rest.
    index = min(index, int(np.count_nonzero(probs > 0.0)) - 1)
    token_id = int(final.ids[final.ranked(run.start + index, run.logits[index])])
    if index < 0 or not probs[index] > 0.0:
        raise SamplingError(f"the draw fell on token {token_id} of probability 0")
    low = float(cumulative[index - 1]) if index else run.before
    return Draw(token_id, How.SAMPLED, u, low, float(cumulative[index]))


def stretch(final: Candidates, token_id: int) -> tuple[float, float]:
    """The part ``[low, high)`` of [0, 1) in which u draws ``token_id``; (0, 0) for none."""
    if not final.find(np.array([token_id]))[1][0]:
        return 0.0, 0.0
    rank = final.rank(token_id)
    cumulative = np.cumsum(final.probs_at(final.descending(rank)[:rank]))
    return float(cumulative[rank - 2]) if rank > 1 else 0.0, float(cumulative[-1])


def argmax(final: Candidates) -> Draw:
    """The most likely candidate, lowest id among equals; no randomness used."""
    if isinstance(final, Partial):
        raise final.missing("one of them may be the most likely")
    first = final.order(1)[0]
    return Draw(int(final.ids[first]), How.GREEDY, None, 0.0, float(final.probs[first]))
