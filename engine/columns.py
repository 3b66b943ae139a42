"""Columns of a running engine: their settings, and step after step of all that still go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from engine.backends.base import BackendError
from engine.commands import Column, StepMany
from engine.conditions.breakpoints import Verdict
from engine.drafts.active import Drafts
from engine.models.checks import ModelError
from engine.records.columns import MOST_COLUMNS, ColumnsSet, ColumnState, PassRecord
from engine.records.round import DraftSettings
from engine.records.step import StepRecord
from engine.run.checks import StepperError
from engine.run.speculation import Speculation
from engine.run.step_many import ColumnStep, going_on, step_many
from engine.run.stepper import Stepper
from engine.run.tree import ROOT
from engine.sampling.chain import Effective, SpecError

_EXPECTED = (BackendError, ModelError, SpecError)


@dataclass(eq=False)
class Columns:
    """The columns of one StepMany as they go on; ``state`` tells what each is drawn with."""

    stepper: Stepper
    steps: list[ColumnStep]
    state: ColumnsSet
    held: tuple[str, ...] = ()
    """Columns that were to have no token now, and could have had one."""
    reached: str = ""
    """The breakpoint that has paused them, by the column that it struck in."""

    @property
    def reason(self) -> str:
        """The reason for which they stand; "" where they were told to."""
        if self.reached or self.steps:
            return self.reached
        held = f"paused: {', '.join(self.held)}; " if self.held else ""
        return f"{held}every {'other ' if held else ''}column has ended"

    def run(
        self, count: int | None, pause: Callable[[], bool]
    ) -> Iterator[tuple[tuple[StepRecord, ...], PassRecord]]:
        """Take ``count`` steps (None: all that there are) in every column; what each one gave.

        Until all have ended, a breakpoint strikes in one, or ``pause()`` is true between passes.
        """
        done = 0
        while self.steps and not self.reached and done != count and not pause():
            found = step_many(self.stepper, self.steps)
            self._go_on(found.record)
            yield found.steps, found.record
            done += 1

    def _go_on(self, record: PassRecord) -> None:
        """Look at the new tokens; columns that have ended or failed are left behind."""
        for told in record.columns:
            for node in told.nodes:
                self._look(told.column, self.stepper.check(node))
        self.steps = going_on(self.stepper, self.steps, record)

    def _look(self, column: int, verdict: Verdict) -> None:
        if verdict.stops and not self.reached:
            self.reached = f"column {column}: {verdict.reason}"


def columns_of(
    command: StepMany,
    stepper: Stepper,
    drafts: Drafts,
    own_settings: Callable[[Column], Effective | None],
    told: ColumnsSet,
) -> Columns:
    """The columns that a command names, each with its settings, or why it has none.

    In the state a column that was ``told`` of before begins where it began then.

    Raises StepperError for columns that cannot be told apart, and too many of them.
    """
    numbers = [one.number for one in command.columns]
    if not numbers or len(numbers) > MOST_COLUMNS or len(set(numbers)) < len(numbers):
        raise StepperError(f"give 1 to {MOST_COLUMNS} columns, each with a number of its own")
    began = {one.column: one.parent for one in told.columns}
    steps, states, held = [], [], []
    for one in command.columns:
        settings, speculation, error = None, drafts.speculation, ""
        try:
            settings = own_settings(one)
            if one.settings is not None and one.settings.draft is not None:
                speculation = drafts.opened(one.settings.draft)
        except _EXPECTED as failed:
            error = " ".join(str(failed).split())
        state = _state(one, stepper, settings, speculation, error)
        states.append(replace(state, parent=began.get(one.number, state.parent)))
        if one.held:
            if not error and one.parent not in stepper.tree.stops:
                held.append(one.title or f"column {one.number}")
        else:
            steps.append(
                ColumnStep(
                    one.number, one.parent, settings, one.seed, one.force, speculation, error
                )
            )
    drafts.held = frozenset(one.draft.source for one in states)
    return Columns(stepper, steps, ColumnsSet(tuple(states)), tuple(held))


def _state(
    column: Column,
    stepper: Stepper,
    settings: Effective | None,
    speculation: Speculation | None,
    error: str,
) -> ColumnState:
    drawn = stepper.settings if settings is None else settings
    asked = column.settings
    failed = error and asked is not None
    return ColumnState(
        column=column.number,
        parent=column.parent if column.parent in stepper.tree else ROOT,
        title=column.title,
        preset=asked.preset if failed and asked else drawn.chain.preset,
        chain_spec=asked.spec if failed and asked else drawn.spec,
        seed=stepper.seed if column.seed is None else column.seed,
        draft=DraftSettings() if speculation is None else speculation.settings,
        error=error,
    )
