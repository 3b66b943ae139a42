"""Other settings for a step whose tail was not kept.

A saved step holds its leading candidates and the exact mass of all others. What a chain makes of
them depends on the tail only through sums over it, and these are largest or smallest when the tail
is spread evenly or stands in as few tokens as can be (the sum of a power is convex or concave). So
the chain is run on both: where they agree, it is what the whole vector would have given.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.records import DoubleArray, FloatArray, IntArray, StepRecord
from engine.sampling.chain import Chain, Ladder
from engine.sampling.stages import StageContext


@dataclass(frozen=True, eq=False)
class WhatIf:
    """A chain's work on a saved step. ``ladder`` is exact where ``exact`` says so.

    What is then exact is who survives and every probability after the last stage; the stages
    before it may have counted tail tokens, whose figures are those of an even tail.
    """

    ladder: Ladder
    exact: bool
    missing_mass: float
    """The model's probability of all tokens that were not kept."""

    @property
    def note(self) -> str:
        """What a screen says when the result is not exact; empty when it is."""
        if self.exact:
            return ""
        return f"{self.missing_mass:.2%} of the model's mass was not kept: this is an estimate"


def what_if(step: StepRecord, chain: Chain, context: StageContext, vocab_size: int) -> WhatIf:
    """Run ``chain`` on a saved step.

    Raises ``engine.sampling.chain.SamplingError`` when a stage leaves nothing to draw from.
    """
    top = step.top
    kept = top.raw_logits > -np.inf
    ids, logits = top.ids[kept], top.raw_logits[kept].astype(np.float64)
    shares = np.exp(logits - step.log_z_raw)
    missing = max(0.0, 1.0 - float(shares.sum()))
    # No token of the tail is likelier than the last of the leading ones; the drawn token may be
    # in the table from further down.
    leading = top.ranks[kept] == np.arange(1, ids.size + 1)
    tail_size = vocab_size - ids.size
    tails = (_even(missing, tail_size), _dense(missing, tail_size, float(shares[leading].min())))
    ladders = [
        chain.run(_whole(ids, top.raw_logits[kept], tail, step.log_z_raw, vocab_size), context)
        for tail in tails
    ]
    survivors = ladders[0].final.ids
    exact = bool(np.isin(survivors, ids).all() and np.array_equal(survivors, ladders[1].final.ids))
    return WhatIf(ladders[0], exact, missing)


def _even(mass: float, size: int) -> DoubleArray:
    """The tail's probabilities when all are alike."""
    return np.full(size, mass / size if size else 0.0)


def _dense(mass: float, size: int, largest: float) -> DoubleArray:
    """The tail's probabilities when as few tokens as can be hold its mass."""
    full = min(size, int(mass / largest))
    shares = np.zeros(size)
    shares[:full] = largest
    if full < size:
        shares[full] = mass - full * largest
    return shares


def _whole(
    ids: IntArray, logits: FloatArray, tail: DoubleArray, log_z: float, vocab_size: int
) -> FloatArray:
    """A logit vector of the whole vocabulary; which token of the tail has what is made up."""
    vector = np.full(vocab_size, -np.inf, np.float32)
    outside = np.ones(vocab_size, np.bool_)
    outside[ids] = False
    with np.errstate(divide="ignore"):
        vector[outside] = np.log(np.maximum(tail, 0.0)) + log_z
    vector[ids] = logits
    return vector
