"""Test two steps for one and the same distribution, though the file holds only its head.

Equal heads do not prove it. One record does: a node that two branches share, or a copy of it in
another file. So does a step that took the logits which its sibling had been drawn from.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.records.step import StepRecord
from sessions.compare.tables import common_rows


@dataclass(frozen=True, slots=True)
class Identical:
    """The identical parts of two steps; what is not so for certain is False."""

    model: bool = False
    """The model's own distribution."""
    final: bool = False
    """The final distribution."""


def identical(one: StepRecord, other: StepRecord, *, one_run: bool) -> Identical:
    """Compare two steps. ``one_run``: both are of one run, so that a number is one node."""
    if (one_run and one.node == other.node) or _copied(one, other):
        return Identical(model=True, final=True)
    siblings = one_run and one.parent == other.parent
    if not (siblings and (one.timing.reused or other.timing.reused) and _same_head(one, other)):
        return Identical()
    return Identical(model=True, final=_same_work(one, other))


def _copied(one: StepRecord, other: StepRecord) -> bool:
    """One record in two places: no two passes take the same time in all their parts."""
    if one is other:
        return True
    places = [(step.node, step.parent, step.position, step.token) for step in (one, other)]
    timed = one.timing.total_ms > 0.0 and one.timing == other.timing
    return timed and places[0] == places[1] and _same_head(one, other) and _same_work(one, other)


def _same_head(one: StepRecord, other: StepRecord) -> bool:
    """True if what is recorded of the models' distributions is the same to the last bit."""
    if (one.log_z_raw, one.entropy_raw) != (other.log_z_raw, other.entropy_raw):
        return False
    rows, others = common_rows(one.top, other.top)
    return bool(rows.size) and np.array_equal(
        one.top.raw_logits[rows], other.top.raw_logits[others]
    )


def _same_work(one: StepRecord, other: StepRecord) -> bool:
    """True if the chains are the same and came to the same, dice in a stage included."""
    told = [
        (step.preset, step.chain_spec, [(a.survivors, a.entropy, a.log_z) for a in step.stages])
        for step in (one, other)
    ]
    return told[0] == told[1]
