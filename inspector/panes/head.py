"""Another chain over a step of which only the leading candidates are recorded.

The record also has the exact mass of the rest and how many tokens that is, and no token of the
rest has a higher logit than the last of the head. So the real distribution lies between two
completions: the rest spread evenly, and the rest as peaked as it can be. What the stages below do
to a head only ever grows or shrinks with the mass of the rest; where both completions are left
with the same tokens, all of them recorded, so is the real one, and what follows is exact.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.records import FloatArray, StepRecord
from engine.sampling.candidates import SamplingError
from engine.sampling.chain import Chain, Ladder
from engine.sampling.stages import (
    BadWords,
    Dry,
    Epsilon,
    MinNewTokens,
    MinP,
    NoRepeatNGram,
    Penalties,
    Stage,
    StageContext,
    Suppress,
    Temperature,
    TopK,
    TopP,
)
from inspector.panes.bars import share

_LEAST_MASS = 1e-12
"""Of the rest: less than this cannot be told from the rounding of the head's sum."""
_LOWERING = (BadWords, Dry, MinNewTokens, NoRepeatNGram, Penalties, Suppress)
_CUTTING = (TopK, TopP, MinP, Epsilon)


class TailMissing(SamplingError):
    """The chain may keep tokens that the record does not hold."""


def rest_mass(step: StepRecord) -> float:
    """The share of the model's distribution that is not in the record's table."""
    return max(0.0, 1.0 - float(np.exp(step.top.raw_logprobs).sum()))


def over_head(
    step: StepRecord, chain: Chain, context: StageContext, vocab_size: int
) -> tuple[Ladder, Ladder]:
    """The chain over both completions. Raises TailMissing where they differ in what is left.

    Where the table holds the whole vocabulary both are the same, and exact.
    """
    known = step.top.ids
    ladders = [chain.run(logits, context) for logits in _completions(step, context, vocab_size)]
    if not _settles(chain.stages, ladders, np.sort(known), vocab_size):
        raise TailMissing(
            f"{share(rest_mass(step))} of the mass is not in the record's {known.size} candidates, "
            "and these settings may keep some of it"
        )
    return ladders[0], ladders[1]


def _settles(
    stages: tuple[Stage, ...], ladders: list[Ladder], known: NDArray[np.int32], vocab_size: int
) -> bool:
    flat, peaked, bare = ladders
    lowered = False
    for at, stage in enumerate(stages):
        if not (stage.off or _bounded(stage)):
            return known.size >= vocab_size
        # A lowering stage may take any part of the rest away: then nothing left is a bound too.
        lowered = lowered or (isinstance(stage, _LOWERING) and not stage.off)
        ids = flat.after[at].ids
        others = [peaked.after[at].ids, *([bare.after[at].ids] if lowered else [])]
        if all(np.array_equal(ids, other) for other in others) and np.isin(ids, known).all():
            return True
    return known.size >= vocab_size


def _bounded(stage: Stage) -> bool:
    """Whether the stage leaves the rest where it is or lower, and judges the head by its mass."""
    if isinstance(stage, Temperature):
        return stage.dynatemp_range == 0.0
    if isinstance(stage, Penalties):
        raising = stage.repetition_penalty < 1.0
        return not (raising or stage.frequency_penalty < 0.0 or stage.presence_penalty < 0.0)
    return isinstance(stage, _CUTTING + _LOWERING)


def _completions(step: StepRecord, context: StageContext, vocab_size: int) -> list[FloatArray]:
    """The whole logits as they may be: the rest flat, peaked, and gone."""
    top = step.top
    bare = np.full(vocab_size, -np.inf, dtype=np.float32)
    bare[top.ids] = top.raw_logits
    rest = np.ones(vocab_size, dtype=np.bool_)
    rest[top.ids] = False
    ids = np.flatnonzero(rest)
    if not ids.size:
        return [bare, bare, bare]
    mass = max(rest_mass(step), _LEAST_MASS)
    flat = bare.copy()
    flat[ids] = np.log(mass / ids.size) + step.log_z_raw
    head = top.raw_logits[top.ranks == np.arange(1, top.ranks.size + 1)]
    ceiling = float(head[-1]) - step.log_z_raw
    count = int(min(ids.size, mass // np.exp(ceiling)))
    over = mass - count * float(np.exp(ceiling))
    # Tokens seen before come last: a penalty would lower them.
    seen = np.isin(ids, context.history)
    ids = np.concatenate((ids[~seen], ids[seen]))
    peaked = bare.copy()
    peaked[ids[:count]] = head[-1]
    if over > 0.0 and count < ids.size:
        peaked[ids[count]] = np.log(over) + step.log_z_raw
    return [flat, peaked, bare]
