"""The order in which an engine carries out commands that come while it is busy."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, cast

import pytest

from engine.commands import (
    Close,
    Command,
    Configure,
    MeasureCurves,
    MeasureDrift,
    NameBranch,
    Open,
    Pause,
    Run,
    Step,
    Submit,
)
from engine.records.events import BranchNamed, LoadProgress, Record, SettingsChanged
from engine.records.measured import MEASURING_CURVES, MEASURING_DRIFT, CacheCurves, DriftMeasured
from engine.records.prompt import PromptRecord
from engine.records.step import StepRecord
from engine.server import Engine

When = Callable[[list[Record]], bool]


class Pipe:
    """Commands that arrive together once ``when`` holds of the records sent so far."""

    def __init__(self, first: list[Command], when: When, then: list[Command]) -> None:
        self.records: list[Record] = []
        self._first, self._when, self._then = deque(first), when, deque(then)

    def poll(self) -> bool:
        return bool(self._first) or (bool(self._then) and self._when(self.records))

    def recv(self) -> Command:
        if self._first:
            return self._first.popleft()
        # An engine that has nothing to do waits for the next one, and ends where there is none.
        return self._then.popleft() if self._then else Close()


def carried_out(first: list[Command], when: When, then: list[Command]) -> list[Record]:
    """All records of an engine that is asked so."""
    pipe = Pipe(first, when, then)
    Engine(pipe.records.append, cast(Any, pipe)).serve()
    return pipe.records


def opened(*commands: Command) -> list[Command]:
    tokens = list("abcdefgh")
    settings = Configure(dials={"temperature": 1.0}, seed=7, max_tokens=120)
    return [Open("scripted", {"tokens": tokens}), settings, Submit("abc"), *commands]


def steps(records: list[Record]) -> list[StepRecord]:
    return [one for one in records if isinstance(one, StepRecord)]


def is_measuring(records: list[Record]) -> bool:
    phases = [one.phase for one in records if isinstance(one, LoadProgress)]
    return MEASURING_CURVES in phases or MEASURING_DRIFT in phases


def sixty_steps(records: list[Record]) -> bool:
    return len(steps(records)) >= 60


@pytest.mark.parametrize("measure", [MeasureCurves(1), MeasureDrift(1)])
def test_e1_a_pause_after_a_run_holds_while_something_is_measured(measure: Command) -> None:
    records = carried_out(opened(Step(0), measure), is_measuring, [Run(1), Pause()])
    assert any(isinstance(one, CacheCurves | DriftMeasured) for one in records)
    assert len(steps(records)) == 1


def test_e1_a_pause_after_submit_and_run_holds_during_a_run() -> None:
    records = carried_out(opened(Run(0)), sixty_steps, [Submit("abcd"), Run(0), Pause()])
    assert len([one for one in records if isinstance(one, PromptRecord)]) == 2
    assert len(steps(records)) == 60


def test_e1_a_pause_is_meant_for_what_came_before_it_only() -> None:
    """The run is paused, then another one goes to its end: 60, and on to the budget of 120."""
    records = carried_out(opened(Run(0)), sixty_steps, [Pause(), Run(60)])
    assert len(steps(records)) == 120


def test_e1_a_question_does_not_overtake_a_command_that_waits() -> None:
    """The name is given to a node that only the step before it makes, the settings come last."""
    warmer = Configure(dials={"temperature": 2.0}, seed=7, max_tokens=120)
    asked = [Step(60), NameBranch(61, "here"), warmer, Pause()]
    records = carried_out(opened(Run(0)), sixty_steps, asked)
    last = [one for one in records if isinstance(one, StepRecord | BranchNamed | SettingsChanged)]
    assert [type(one) for one in last[-3:]] == [StepRecord, BranchNamed, SettingsChanged]
    assert len(steps(records)) == 61


def test_questions_are_answered_while_a_run_goes_on() -> None:
    records = carried_out(opened(Run(0)), sixty_steps, [NameBranch(3, "here")])
    at = next(at for at, one in enumerate(records) if isinstance(one, BranchNamed))
    assert len(steps(records[:at])) == 60
    assert len(steps(records)) == 120
