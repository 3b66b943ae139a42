"""The next token's distribution through the stages, before anything is drawn from it."""

from __future__ import annotations

from engine.records.upcoming import Upcoming
from engine.run.drawing import TOP_ROWS
from engine.run.stepper import Stepper
from engine.run.tree import ROOT
from engine.sampling.chain import Effective


def upcoming(
    stepper: Stepper, parent: int, settings: Effective | None, tried: tuple[str, str] | None = None
) -> Upcoming | None:
    """The distribution that a step after ``parent`` would draw from; no node, no dice.

    It may run the pass that the step would run; the step that comes then tells its cost. None
    where more than that had to be read. Raises StepperError, SamplingError and BackendError.
    """
    stepper.check_extend(parent, None)
    ids, reading = stepper.path_ids(parent), stepper.reading
    first = parent == ROOT and not stepper.children[ROOT]
    if reading.known(parent, first=first) is None and not reading.is_next(parent, ids):
        return None
    # As for a forced token: an engine that could fetch more ahead is not to do so for this.
    wanted, context = stepper.plan(parent, ids[-1], None, settings)
    following = reading.look(parent, ids, first=first)
    ladder = wanted.settings.chain.run(following.logits, context)
    return Upcoming(
        parent=parent,
        entropy_raw=ladder.model.entropy,
        entropy_final=ladder.final.entropy,
        stages=ladder.traces,
        top=ladder.table(TOP_ROWS, stepper.backend.token, also=wanted.watched),
        tried=tried,
    )
