"""Commands about the next token, carried out: draw it, force some, or look at what is to come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

from engine.commands import Settings, ShowNext, Step
from engine.records.step import StepRecord
from engine.records.upcoming import Upcoming
from engine.run.checks import StepperError
from engine.run.stepper import Stepper
from engine.run.upcoming import upcoming
from engine.sampling.candidates import SamplingError
from engine.sampling.chain import Effective, SpecError


def steps_of(
    command: Step, stepper: Stepper, settings: Effective | None, paused: Callable[[], bool]
) -> Iterator[StepRecord]:
    """One new node, or one for each id that is forced, until ``paused()``."""
    node = command.parent
    if not command.force:
        step = stepper.grow(node, seed=command.seed, settings=settings)[0]
        stepper.check(step.node)
        yield step
    for force in command.force:
        record = stepper.extend(node, force=force, seed=command.seed, settings=settings)
        node = record.node
        stepper.check(node)
        yield record
        if paused():
            return


def next_of(
    command: ShowNext, stepper: Stepper, resolve: Callable[[Settings], Effective]
) -> Upcoming | None:
    """The distribution that was asked for; None where it cannot be told: a step then says why."""
    settings, asked = None, command.settings
    tried = None if asked is None else (asked.preset, asked.spec)
    with suppress(SamplingError, SpecError, StepperError):
        if asked is not None:
            settings = resolve(asked)
        return upcoming(stepper, command.parent, settings, tried)
    return None
