"""The shape of a distribution in a few figures, and a mark where it is near-forced or open."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from engine.records.partial import Interval
from engine.sampling.candidates import Candidates
from engine.sampling.ladder import Ladder
from engine.sampling.partial import Partial

NEAR_FORCED_FROM = 0.95
"""A distribution is near-forced when its most likely token has this probability or more."""
OPEN_FROM = 20.0
"""A distribution is open when it is as wide as this many equally likely tokens, exp(entropy)."""
TAIL_AFTER = 10
"""The tail is what lies behind so many most likely tokens."""


class Mark(StrEnum):
    """A word for the shape, or none."""

    NEAR_FORCED = "near-forced"
    OPEN = "open"
    NONE = ""


@dataclass(frozen=True, slots=True)
class Shape:
    """Figures of one distribution; entropies in nats, probabilities of the renormalised whole.

    ``effective`` is exp(entropy): how many equally likely tokens are as uncertain. ``margin`` and
    ``logit_margin`` are the distances of the two most likely tokens; None where only one is left.
    """

    survivors: int
    entropy: float
    effective: float
    varentropy: float
    top: float
    margin: float | None
    logit_margin: float | None
    tail_mass: float
    mark: Mark


@dataclass(frozen=True, slots=True)
class Census:
    """Number of tokens, and share of the model's own mass, left after one stage."""

    label: str
    survivors: int | Interval
    mass: float


def shape_of(candidates: Candidates) -> Shape:
    """The figures of ``candidates``."""
    head = candidates.descending(TAIL_AFTER)[:TAIL_AFTER]
    probs = candidates.probs_at(head)
    two = head.size > 1
    entropy = candidates.entropy
    return Shape(
        survivors=len(candidates),
        entropy=entropy,
        effective=math.exp(entropy),
        varentropy=candidates.varentropy,
        top=float(probs[0]),
        margin=float(probs[0] - probs[1]) if two else None,
        logit_margin=float(head[0]) - float(head[1]) if two else None,
        tail_mass=max(0.0, 1.0 - float(probs.sum())) if len(candidates) > TAIL_AFTER else 0.0,
        mark=mark_of(float(probs[0]), math.exp(entropy)),
    )


def census(ladder: Ladder) -> tuple[Census, ...]:
    """One row for the model and one a stage. ``mass`` is the model's, whatever was reweighted.

    It is NaN where not all that a stage left is known.
    """
    rows = [Census("model", ladder.model.survivors, 1.0)]
    mass, before = 1.0, ladder.model
    for trace, level in zip(ladder.traces, ladder.after, strict=True):
        if isinstance(level, Partial):
            mass = mass if level is before or level.kept_all else math.nan
        elif len(level) < len(before) or isinstance(before, Partial):
            mass = float(ladder.model.probs_of(level.ids).sum())
        rows.append(Census(trace.label, level.survivors, mass))
        before = level
    return tuple(rows)


def mark_of(top: float, effective: float) -> Mark:
    """The word for a shape, from its largest probability and its width."""
    if top >= NEAR_FORCED_FROM:
        return Mark.NEAR_FORCED
    return Mark.OPEN if effective >= OPEN_FROM else Mark.NONE
