"""Cases 35 and 36 through the whole engine, on a clock that moves only when the script says so."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from engine.backends.base import Encoded, ForwardPass
from engine.backends.scripted import ScriptedBackend
from engine.records.arrays import FloatArray
from engine.records.cache import PrefixReport
from engine.records.step import StepRecord
from engine.run.stepper import Stepper
from engine.sampling.chain import effective
from engine.timing import Phase, PhaseKind, phases, speed


class Clock:
    """The engine's one clock, in ms."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Ticking(ScriptedBackend):
    """Each kind of work takes the time that the script gives it, and nothing else takes any."""

    def __init__(self, clock: Clock, **cost: float) -> None:
        super().__init__(lambda ids: np.zeros(8), "abcdefgh", template=("ab", "cd"))
        self.clock, self.cost, self.reading = clock, cost, 0

    def _spend(self, what: str) -> None:
        self.clock.now += self.cost.get(what, 0.0)

    def tokenize(self, text: str, *, chat: bool, system: str | None) -> Encoded:
        self._spend("tokenize")
        return super().tokenize(text, chat=chat, system=system)

    def begin_prompt(self, ids: Sequence[int]) -> PrefixReport:
        self._spend("lookup")
        return super().begin_prompt(ids)

    def _read(self, ids: Sequence[int], **more: Any) -> ForwardPass:
        self.reading = len(ids)
        return super()._read(ids, **more)

    def _logits(self, ids: Sequence[int]) -> FloatArray:
        self._spend("step" if self.reading == 1 else "prefill")
        return super()._logits(ids)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    one = Clock()
    for name, module in list(sys.modules.items()):
        if name.startswith("engine.") and hasattr(module, "now_ms"):
            monkeypatch.setattr(module, "now_ms", one)
    return one


def run(clock: Clock, prompt: str, steps: int, **cost: float) -> tuple[Stepper, list[StepRecord]]:
    stepper = Stepper(Ticking(clock, **cost), effective("guide", {"temperature": 0}))
    return stepper, again(stepper, clock, prompt, steps)


def again(stepper: Stepper, clock: Clock, prompt: str, steps: int) -> list[StepRecord]:
    """A prompt and its steps, between which somebody thinks for a minute."""
    stepper.submit(prompt)
    path = []
    for _ in range(steps):
        clock.now += 60_000.0
        path.append(stepper.step())
    return path


def test_case_36_five_tokens_of_a_tenth_of_a_second(clock: Clock) -> None:
    stepper, path = run(clock, "a" * 10, 5, prefill=500.0, step=100.0)
    figures = speed(stepper.prompt, stepper.prefill_record, path)
    assert figures.ttft_ms == 500.0
    assert figures.tps == 10.0
    assert figures.itl_ms == 100.0
    assert figures.end_to_end_tps == 5 / 0.9
    assert figures.prefill_tps == 20.0
    one = speed(stepper.prompt, stepper.prefill_record, path[:1])
    assert (one.ttft_ms, one.tps, one.itl_ms) == (500.0, None, None)


def test_case_35_phases_sum_to_the_wait_and_loading_is_apart(clock: Clock) -> None:
    """44.5 s from a cold start, of which 36.9 s were loading: TTFT is 7.6 s, not 44.5 and not 0."""
    clock.now = 36_900.0
    cost = {"tokenize": 100.0, "lookup": 50.0, "prefill": 7_450.0, "step": 80.0}
    stepper, path = run(clock, "a" * 10, 1, **cost)
    found = phases(stepper.prompt, stepper.prefill_record, path[0])
    assert [one for one in found if one.ms] == [
        Phase(PhaseKind.TOKENIZE, 100.0),
        Phase(PhaseKind.LOOKUP, 50.0),
        Phase(PhaseKind.PREFILL, 7_450.0, 0),
    ]
    thinking = 60_000.0
    assert sum(one.ms for one in found) == clock.now - 36_900.0 - thinking == 7_600.0
    assert speed(stepper.prompt, stepper.prefill_record, path).ttft_ms == 7_600.0
    # A second prompt waits for its own phases alone; what is read already is not read again.
    path = again(stepper, clock, "a" * 9 + "b", 2)
    figures = speed(stepper.prompt, stepper.prefill_record, path)
    assert figures.ttft_ms == 100.0 + 50.0 + 80.0
    assert figures.tps == 1 / 0.08
