"""Another chain over a step of which only the leading candidates are recorded.

The record also has the exact mass of the rest and how many tokens that is, and no token of the
rest has a higher logit than the last of the head. ``settled`` follows the chain with bounds on what
the rest can be: where nothing of it can be left, what is left is exact. To have figures on the way
too, the chain is run over two completions of the record: the rest spread evenly, and the rest as
peaked as it can be.
"""

from __future__ import annotations

import math

import numpy as np

from engine.records.arrays import FloatArray
from engine.records.step import StepRecord
from engine.sampling.candidates import SamplingError
from engine.sampling.chain import Chain, Ladder
from engine.sampling.stages import StageContext
from engine.sampling.tail import last_of_head, peaked_logits, rest_mass, settled
from engine.text import share

_LEAST_MASS = 1e-12
"""Of the rest: less than this cannot be told from the rounding of the head's sum."""


class TailMissing(SamplingError):
    """The chain may keep tokens that the record does not hold: ``mass`` of the model's lies there.

    ``mass`` is None where not even that is known.
    """

    def __init__(self, message: str, mass: float | None = None) -> None:
        super().__init__(message)
        self.mass = mass


def over_head(
    step: StepRecord, chain: Chain, context: StageContext, vocab_size: int
) -> tuple[Ladder, Ladder]:
    """The chain over both completions, whose ends are the same and exact.

    Raises TailMissing where the record does not settle that, and SamplingError where a stage
    leaves nothing. Where the table holds the whole vocabulary both are the same throughout.
    """
    if not settled(step, chain, context, vocab_size):
        mass, size = rest_mass(step), step.top.ids.size
        raise TailMissing(
            f"{share(mass)} of the mass is not in the record's {size} candidates, "
            "and these settings may keep some of it",
            mass,
        )
    flat, peaked = (chain.run(one, context) for one in _completions(step, context, vocab_size))
    return flat, peaked


def _completions(
    step: StepRecord, context: StageContext, vocab_size: int
) -> tuple[FloatArray, FloatArray]:
    """The whole logits as they may be: the rest flat, and peaked."""
    top = step.top
    flat = np.full(vocab_size, -np.inf, dtype=np.float32)
    flat[top.ids] = top.raw_logits
    rest = np.ones(vocab_size, dtype=np.bool_)
    rest[top.ids] = False
    ids = np.flatnonzero(rest)
    if not ids.size:
        return flat, flat
    peaked = flat.copy()
    mass = max(rest_mass(step), _LEAST_MASS)
    last = last_of_head(step)
    # A token of the rest may be level with the last of the head, but comes after it.
    below = np.nextafter(np.float32(last), np.float32(-np.inf))
    flat[ids] = min(math.log(mass / ids.size) + step.log_z_raw, below)
    # Tokens seen before come last: a penalty would lower them.
    seen = np.isin(ids, context.history)
    ids = np.concatenate((ids[~seen], ids[seen]))
    heights = peaked_logits(math.log(mass) + step.log_z_raw, last, ids.size)
    peaked[ids[: heights.size]] = np.minimum(heights, below)
    return flat, peaked
