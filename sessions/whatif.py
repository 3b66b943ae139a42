"""Other settings for a step whose tail was not kept.

A saved step holds its leading candidates and the exact mass of all others. What a chain makes of
them depends on the tail only through sums over it, and these are largest or smallest when the tail
is spread evenly or stands in as few tokens as can be (the sum of a power is convex or concave). So
the chain is run on both: where they agree, it is what the whole vector would have given.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.records import FloatArray, StepRecord
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
    kept = step.top.raw_logits > -np.inf
    ids, logits = step.top.ids[kept], step.top.raw_logits[kept]
    even, dense = (_whole(ids, logits, step.log_z_raw, vocab_size, one) for one in (True, False))
    ladder = chain.run(even, context)
    other = chain.run(dense, context)
    survivors = ladder.final.ids
    exact = bool(np.isin(survivors, ids).all() and np.array_equal(survivors, other.final.ids))
    head = np.exp(logits.astype(np.float64) - step.log_z_raw).sum()
    return WhatIf(ladder, exact, max(0.0, 1.0 - float(head)))


def _whole(
    ids: FloatArray, logits: FloatArray, log_z: float, vocab_size: int, even: bool
) -> FloatArray:
    """A logit vector of the whole vocabulary with the step's candidates and its tail's mass."""
    vector = np.full(vocab_size, -np.inf, np.float32)
    outside = np.ones(vocab_size, np.bool_)
    outside[ids] = False
    tail = np.flatnonzero(outside)
    values = logits.astype(np.float64)
    mass = 1.0 - np.exp(values - log_z).sum()
    if tail.size and mass > 0.0:
        level = np.log(mass) + log_z - np.log(tail.size)
        if not even:
            # No token of the tail is likelier than the last one kept.
            level = max(level, float(values.min()))
            count = int(np.clip(round(mass / np.exp(level - log_z)), 1, tail.size))
            tail = tail[:count]
            level = np.log(mass) + log_z - np.log(count)
        vector[tail] = level
    vector[ids] = logits
    return vector
