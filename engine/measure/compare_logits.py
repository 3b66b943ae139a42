"""Two logit vectors of the same text compared: differences, divergence, the most likely token.

They never agree to the bit (sums are taken in another order), so what is shown is how much, and
whether it would have mattered.
"""

from __future__ import annotations

import numpy as np

from engine.records.arrays import DoubleArray, FloatArray
from engine.records.measured import Drift


def compare_logits(reference: FloatArray, other: FloatArray) -> Drift:
    """Compare two logit vectors, shape ``(vocab_size,)``.

    A logit that is minus infinity in both is left out. Raises ValueError where the shapes differ
    or fewer than two logits are finite in both.
    """
    if reference.shape != other.shape or reference.ndim != 1:
        raise ValueError(f"cannot compare logits of shapes {reference.shape} and {other.shape}")
    ours, theirs = reference.astype(np.float64), other.astype(np.float64)
    both = np.isfinite(ours) & np.isfinite(theirs)
    if both.sum() < 2:
        raise ValueError("fewer than two logits are finite in both")
    delta = np.where(both, np.abs(np.where(both, ours, 0.0) - np.where(both, theirs, 0.0)), 0.0)
    worst = int(delta.argmax())
    return Drift(
        max_abs=float(delta[worst]),
        max_relative=float(delta[worst] / max(np.abs(ours[both]).max(), np.finfo(float).tiny)),
        worst_id=worst,
        kl=_kl(ours[both], theirs[both]),
        top=int(ours.argmax()),
        other_top=int(theirs.argmax()),
        margin=_margin(ours),
        other_margin=_margin(theirs),
    )


def _log_softmax(logits: DoubleArray) -> DoubleArray:
    shifted = logits - logits.max()
    result: DoubleArray = shifted - np.log(np.exp(shifted).sum())
    return result


def _kl(reference: DoubleArray, other: DoubleArray) -> float:
    ours, theirs = _log_softmax(reference), _log_softmax(other)
    # Rounding can make it a hair less than the zero it is.
    return max(0.0, float((np.exp(ours) * (ours - theirs)).sum()))


def _margin(logits: DoubleArray) -> float:
    second, first = np.partition(logits, -2)[-2:]
    return float(first - second)
