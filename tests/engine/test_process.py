"""The engine in its own process: what it answers, and what is left when it dies."""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.commands import (
    Command,
    Configure,
    Open,
    Pause,
    Restore,
    Run,
    SendLogits,
    SendVocabulary,
    Step,
    Submit,
)
from engine.process import EngineClient
from engine.records.events import (
    DenseLogits,
    EngineError,
    Record,
    RunState,
    SettingsChanged,
    StateChanged,
)
from engine.records.model import ModelFacts
from engine.records.prompt import PrefillRecord, PromptRecord
from engine.records.step import StepRecord
from engine.records.vocabulary import Vocabulary

LETTERS = list("abcdefghijklmnopqrstuvwxyz")
Asker = Callable[..., list[Record]]


class Engine:
    """A client for tests: sends commands and waits for a record that satisfies a condition."""

    def __init__(self, log: Path) -> None:
        self.client = EngineClient(log)
        self.client.start()
        self.records: list[Record] = []
        self._waiting: deque[Record] = deque()

    def send(self, *commands: Command) -> None:
        for command in commands:
            self.client.send(command)

    def until(self, wanted: Callable[[Record], bool], timeout: float = 240.0) -> Record:
        """The first record from now on that is wanted; all are kept in ``records``."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            self._waiting.extend(self.client.take(timeout=0.2 if not self._waiting else 0.0))
            while self._waiting:
                record = self._waiting.popleft()
                self.records.append(record)
                if wanted(record):
                    return record
        raise AssertionError(f"not seen in {timeout} s: {self.records[-3:]}")

    def settled(self, *states: RunState) -> StateChanged:
        wanted = states or (RunState.PAUSED, RunState.STOPPED)
        record = self.until(lambda one: isinstance(one, StateChanged) and one.state in wanted)
        assert isinstance(record, StateChanged)
        return record

    @property
    def steps(self) -> list[StepRecord]:
        return [one for one in self.records if isinstance(one, StepRecord)]

    def of(self, kind: type[Any]) -> list[Any]:
        return [one for one in self.records if isinstance(one, kind)]


@pytest.fixture
def new_engine(tmp_path: Path) -> Iterator[Callable[[], Engine]]:
    made: list[Engine] = []

    def make() -> Engine:
        made.append(Engine(tmp_path / f"engine{len(made)}.log"))
        return made[-1]

    yield make
    for one in made:
        one.client.close()


def opened(**options: Any) -> tuple[Open, Configure, Submit]:
    settings = Configure(dials={"temperature": 1.0}, seed=7, max_tokens=20)
    return Open("scripted", {"tokens": LETTERS, **options}), settings, Submit("abc")


def test_a_step_yields_records_in_order(new_engine: Callable[[], Engine]) -> None:
    engine = new_engine()
    engine.send(*opened(), Step(0))
    engine.settled()
    kinds = [type(one) for one in engine.records if not isinstance(one, StateChanged)]
    order = [ModelFacts, SettingsChanged, SettingsChanged, PromptRecord, PrefillRecord, StepRecord]
    assert [kind for kind in kinds if kind in order] == order
    states = [one.state for one in engine.of(StateChanged)]
    assert states == [
        RunState.LOADING,
        RunState.READY,
        RunState.READY,
        RunState.PREFILL,
        RunState.RUNNING,
        RunState.PAUSED,
    ]


def test_run_goes_to_the_stop_and_says_why(new_engine: Callable[[], Engine]) -> None:
    engine = new_engine()
    engine.send(*opened(), Configure(dials={"temperature": 1.0}, seed=7, max_tokens=5), Run(0))
    state = engine.settled(RunState.STOPPED, RunState.PAUSED)
    assert state.state is RunState.STOPPED
    last = engine.steps[-1]
    assert last.stop is not None
    assert state.reason == last.stop.detail
    assert len(engine.steps) <= 5


def test_a_pause_takes_effect_between_two_passes(new_engine: Callable[[], Engine]) -> None:
    engine = new_engine()
    engine.send(*opened(delay_ms=50), Configure(max_tokens=1000), Run(0))
    engine.until(lambda one: isinstance(one, StepRecord))
    engine.send(Pause())
    engine.settled(RunState.PAUSED)
    count = len(engine.steps)
    time.sleep(0.3)
    assert not [one for one in engine.client.take() if isinstance(one, StepRecord)]
    assert 1 <= count < 1000


def test_questions_are_answered_while_it_runs(new_engine: Callable[[], Engine]) -> None:
    engine = new_engine()
    engine.send(*opened(delay_ms=20), Configure(dials={"temperature": 2.0}, max_tokens=500), Run(0))
    engine.until(lambda one: isinstance(one, StepRecord))
    engine.send(SendLogits(1), SendVocabulary())
    dense = engine.until(lambda one: isinstance(one, DenseLogits))
    assert isinstance(dense, DenseLogits)
    assert dense.node == 1
    vocabulary = engine.until(lambda one: isinstance(one, Vocabulary))
    assert isinstance(vocabulary, Vocabulary)
    assert len(vocabulary) == len(dense.logits)
    first = engine.steps[0]
    assert dense.logits[first.top.ids] == pytest.approx(first.top.raw_logits)
    engine.send(Pause())
    engine.settled()


@pytest.mark.parametrize(
    ("fault", "message"),
    [("raise", "scripted fault in pass 3"), ("bug", "ZeroDivisionError: scripted bug in pass 3")],
)
def test_a_pass_that_fails_is_one_line_and_the_engine_lives(
    new_engine: Callable[[], Engine], fault: str, message: str
) -> None:
    engine = new_engine()
    engine.send(*opened(fault=fault, fault_at=3), Run(0))
    error = engine.until(lambda one: isinstance(one, EngineError))
    assert isinstance(error, EngineError)
    assert error.message == message
    assert not error.fatal
    assert engine.settled(RunState.PAUSED)
    kept = len(engine.steps)
    engine.send(Step(engine.steps[-1].node))
    engine.until(lambda one: isinstance(one, StepRecord))
    assert len(engine.steps) == kept + 1


@pytest.mark.parametrize(("kill", "cause"), [(True, "SIGKILL"), (False, "exit code 70")])
def test_a_dead_engine_is_said_and_a_new_one_goes_on_with_the_same_token(
    new_engine: Callable[[], Engine], kill: bool, cause: str
) -> None:
    whole = new_engine()
    whole.send(*opened(), Run(0, 8))
    whole.settled()
    expected = [one.token.id for one in whole.steps]

    engine = new_engine()
    fault = {"delay_ms": 50} if kill else {"fault": "crash", "fault_at": 5}
    engine.send(*opened(**fault), Run(0, 8))
    engine.until(lambda one: isinstance(one, StepRecord) and one.node == 4)
    if kill:
        assert engine.client.pid is not None
        os.kill(engine.client.pid, signal.SIGKILL)
    error = engine.until(lambda one: isinstance(one, EngineError))
    assert isinstance(error, EngineError)
    assert error.fatal
    assert cause in error.message
    assert "everything recorded is kept" in error.message
    if not any(
        isinstance(one, StateChanged) and one.state is RunState.DEAD for one in engine.records
    ):
        engine.settled(RunState.DEAD)

    kept = {one.node: one for one in engine.steps}
    (prompt,) = engine.of(PromptRecord)
    again = new_engine()
    last = max(kept)
    again.send(*opened()[:2], Restore(prompt, None, kept), Run(last, 8 - last))
    again.until(lambda one: isinstance(one, StepRecord) and one.node == 8)
    ids = [kept[node].token.id for node in sorted(kept)] + [one.token.id for one in again.steps]
    assert ids == expected


def test_a_hanging_pass_can_be_killed(new_engine: Callable[[], Engine]) -> None:
    engine = new_engine()
    engine.send(*opened(fault="hang", fault_at=3), Run(0))
    engine.until(lambda one: isinstance(one, StepRecord) and one.node == 2)
    assert engine.client.alive
    engine.client.kill()
    assert engine.settled(RunState.DEAD)
    assert not engine.client.alive


def test_what_cannot_be_loaded_is_said_once(new_engine: Callable[[], Engine]) -> None:
    engine = new_engine()
    engine.send(*opened(fault="raise", fault_at=0), Step(0))
    engine.settled(RunState.DEAD)
    time.sleep(0.3)
    engine.records.extend(engine.client.take())
    errors = engine.of(EngineError)
    assert [one.message for one in errors] == ["scripted fault in pass 0"]
    # and another model can still be opened in the same process
    engine.send(*opened(), Step(0))
    engine.until(lambda one: isinstance(one, StepRecord))


def test_bad_settings_are_one_line_and_change_nothing(new_engine: Callable[[], Engine]) -> None:
    engine = new_engine()
    engine.send(*opened(), Configure(dials={"top_p": 7.0}))
    error = engine.until(lambda one: isinstance(one, EngineError))
    assert isinstance(error, EngineError)
    assert "top_p" in error.message
    assert "0 to 1" in error.message
    engine.send(Configure(dials={"temperature": 1.0}, seed=7), Step(0))
    engine.until(lambda one: isinstance(one, StepRecord))


def test_the_engine_ends_when_its_client_is_gone(tmp_path: Path) -> None:
    engine = Engine(tmp_path / "engine.log")
    engine.send(*opened())
    engine.settled(RunState.READY)
    pid = engine.client.pid
    assert pid is not None
    engine.client.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
