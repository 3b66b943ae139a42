"""Our preset of a stack against what the engine's own sampler leaves, for the same logits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from engine.backends.abilities import OwnSampler, missing
from engine.backends.base import Backend, BackendError
from engine.backends.tokens import ids_of
from engine.records.sampler_check import CheckedToken, SamplerCheck
from engine.run.checks import StepperError
from engine.run.drawing import Drawing
from engine.run.stepper import Stepper
from engine.run.tree import ROOT
from engine.sampling.candidates import Candidates
from engine.sampling.chain import Effective, effective
from engine.sampling.stages import Value

MOST_LISTED = 4096
"""Tokens that the engine is asked for."""
NEAR = 2e-4
"""Probabilities that close are one: those of the engine are printed, and of another float32."""
_ROWS, _PARTED_ROWS = 20, 20


def check_sampler(stepper: Stepper, node: int, dials: Mapping[str, Any]) -> SamplerCheck:
    """Check the distribution that ``node`` was drawn from, with ``dials`` set in both samplers.

    Raises BackendError where the engine has no sampler of its own, or a dial cannot be checked.
    """
    backend = stepper.backend
    if node == ROOT or node not in stepper.tree or stepper.prompt is None:
        raise StepperError(f"node {node} was not drawn from a distribution")
    if not isinstance(backend, OwnSampler):
        raise BackendError(missing(backend.facts, OwnSampler))
    ids = stepper.path_ids(stepper.tree.parents[node])
    settings = effective(backend.own_stack, dials, resolve=lambda text: ids_of(backend, text))
    theirs = backend.own_sampler(ids, values_of(settings), MOST_LISTED)
    ours = our_candidates(stepper, node, settings, ids)
    return compare(node, settings, ours, theirs, backend)


def values_of(settings: Effective) -> dict[str, Value]:
    """Every dial of a chain that does something."""
    return {
        dial.name: getattr(one, dial.name)
        for one in settings.chain.stages
        if not one.off
        for dial in one.dials
    }


def our_candidates(stepper: Stepper, node: int, settings: Effective, ids: list[int]) -> Candidates:
    """Candidates that our chain leaves."""
    backend, prompt = stepper.backend, stepper.prompt
    assert prompt is not None, "there is a node"
    context = Drawing(backend).context(settings, prompt.ids, ids, stepper.seed, {})
    model = Candidates.from_logits(stepper.dense(node))
    known = backend.facts.top is None
    return settings.chain.run_from(model, context, scale_known=known).final


def compare(
    node: int, settings: Effective, ours: Candidates, theirs: Mapping[int, float], backend: Backend
) -> SamplerCheck:
    """Compare our candidates with the engine's (id -> probability)."""
    listed_all = len(theirs) < MOST_LISTED
    mine = ours.ids.tolist() if listed_all else [one for one in ours.ids.tolist() if one in theirs]
    probs = dict(zip(mine, ours.probs_of(np.array(mine, np.int32)).tolist(), strict=True))
    both = {one: (probs.get(one, 0.0), theirs.get(one, 0.0)) for one in (*probs, *theirs)}
    order = sorted(both, key=lambda one: -max(both[one]))
    parted = [one for one in order if (both[one][0] > 0) != (both[one][1] > 0)]
    shown = dict.fromkeys((*order[:_ROWS], *parted[:_PARTED_ROWS]))
    return SamplerCheck(
        node=node,
        stack=settings.chain.preset,
        spec=settings.spec,
        ours=len(ours),
        theirs=len(theirs),
        listed_all=listed_all,
        parted=len(parted),
        largest=max((abs(one - other) for one, other in both.values()), default=0.0),
        near=NEAR,
        rows=tuple(CheckedToken(backend.token(one), *both[one]) for one in shown),
    )
