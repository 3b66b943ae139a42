"""What tokens cost with a cache and without: at which lengths, how often, and beside the run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from engine.backends.base import BackendError, ForwardPass
from engine.backends.hf.pool import KVOptions
from engine.backends.scripted import ScriptedBackend
from engine.commands import MeasureCurves, Run, SendLogits, Step
from engine.measure.cache_curves import lengths_along, measure_curves, turns_for
from engine.records.events import DenseLogits, EngineError, LoadProgress
from engine.records.measured import CacheCurves
from engine.records.step import StepRecord
from engine.run.checks import StepperError
from engine.run.stepper import Stepper
from engine.run.tree import ROOT
from engine.sampling.chain import effective
from sessions.rows import codec
from tests import tiny_models
from tests.direct import DirectClient, script


class Counted(ScriptedBackend):
    """A script whose passes cost 1 ms a position, and 1 ms more; it notes what was read, and how."""

    def __init__(self, **more: Any) -> None:
        super().__init__(lambda ids: np.zeros(8), "abcdefgh", **more)
        self.cached: list[bool] = []
        self.passes: list[tuple[bool, int, int]] = []

    def side_sequence(self, *, cached: bool, positions: int = 0) -> Any:
        self.cached.append(cached)
        return super().side_sequence(cached=cached, positions=positions)

    def _read(self, ids: Sequence[int], **more: Any) -> ForwardPass:
        found = super()._read(ids, **more)
        self.passes.append((self.cached[-1] if self.cached else True, len(ids), self.length))
        return replace(found, ms=1.0 + len(ids))


def run(backend: Any, prompt: int, steps: int = 1) -> Stepper:
    stepper = Stepper(backend, effective("guide", {"temperature": 0}), max_tokens=1000)
    stepper.submit_ids([at % 8 for at in range(prompt)])
    for _ in range(steps):
        stepper.step()
    return stepper


@pytest.mark.parametrize(
    ("count", "lengths"),
    [
        (2, [2]),
        (16, [16]),
        (19, [19]),
        (20, [16, 20]),
        (35, [16, 24, 35]),
        (128, [16, 24, 32, 48, 64, 96, 128]),
        (300, [16, 32, 64, 128, 300]),
        (600, [16, 32, 64, 128, 256, 600]),
    ],
)
def test_lengths_double_up_to_the_whole_text(count: int, lengths: list[int]) -> None:
    assert lengths_along(count) == lengths


@pytest.mark.parametrize(
    ("ms", "turns"), [(None, 5), (10.0, 5), (500.0, 4), (900.0, 3), (1999.0, 3), (2000.0, 1), (9e9, 1)]
)  # fmt: skip
def test_long_passes_take_fewer_turns(ms: float | None, turns: int) -> None:
    assert turns_for(ms) == turns


def test_medians_at_each_length() -> None:
    """With the cache 2 ms always; without, 1 ms and one for each of the positions up to L - 2."""
    stepper = run(Counted(), 31)
    found = measure_curves(stepper, 1)
    assert found.lengths == (16, 24, 32)
    assert found.with_ms == (2.0, 2.0, 2.0)
    # Five turns at the lengths up to L: the median is that of L - 2 positions.
    assert found.without_ms == (15.0, 23.0, 31.0)
    assert found.reps == (5, 5, 5)
    assert (found.node, found.note) == (1, "")


def test_turns_alternate_and_the_first_of_a_length_is_not_counted() -> None:
    backend = Counted()
    stepper = run(backend, 15)
    del backend.passes[:]
    measure_curves(stepper, 1)
    reads = [(backend_cached, count) for backend_cached, count, _ in backend.passes]
    # 10 positions first, then 6 turns, in which now the one and now the other comes first.
    assert reads[0][1] == 10
    assert [count for _, count in reads[1:]] == [1, 11, 12, 1, 1, 13, 14, 1, 1, 15, 16, 1]


def test_the_run_knows_nothing_of_it() -> None:
    backend = Counted()
    stepper, other = run(backend, 20, 3), run(Counted(), 20, 3)
    measure_curves(stepper, 3)
    assert (backend.length, stepper.cursor, len(stepper.nodes)) == (22, 3, 3)
    assert stepper.step().kv == other.step().kv


def test_it_makes_way_between_two_lengths() -> None:
    stepper = run(Counted(), 40)
    asked: list[bool] = []

    def stop() -> bool:
        asked.append(True)
        return len(asked) == 2

    found = measure_curves(stepper, 1, stop=stop)
    assert found.lengths == (16, 24)
    assert found.note == "stopped before 32 tokens"


def test_a_length_that_fails_ends_it_and_what_there_is_stays() -> None:
    class Small(Counted):
        def _read(self, ids: Sequence[int], **more: Any) -> ForwardPass:
            if len(ids) > 20 and self.cached:
                raise BackendError("out of memory")
            return super()._read(ids, **more)

    stepper = run(Small(), 40)
    found = measure_curves(stepper, 1)
    assert found.lengths == (16,)
    assert found.note == "not at 24 tokens: out of memory"
    assert stepper.backend.length == 40

    class Tiny(Counted):
        def _read(self, ids: Sequence[int], **more: Any) -> ForwardPass:
            if self.cached:
                raise BackendError("out of memory")
            return super()._read(ids, **more)

    with pytest.raises(BackendError, match="out of memory"):
        measure_curves(run(Tiny(), 40), 1)


def test_a_text_of_one_token_and_an_unknown_node_are_refused() -> None:
    stepper = run(Counted(), 1)
    with pytest.raises(StepperError, match="one token"):
        measure_curves(stepper, ROOT)
    with pytest.raises(StepperError, match="99"):
        measure_curves(stepper, 99)


def test_two_tokens_are_enough() -> None:
    found = measure_curves(run(Counted(), 1), 1)
    assert (found.lengths, found.reps) == ((2,), (2,))


@pytest.fixture
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("_one_thread")
@pytest.mark.parametrize("name", sorted(tiny_models.MODELS))
@pytest.mark.parametrize("cached", [True, False])
def test_every_model_has_both_curves_in_both_modes(name: str, cached: bool) -> None:
    backend = tiny_models.backend(name, kv=KVOptions(cached=cached))
    stepper = run(backend, 30)
    before = stepper.dense(1).copy(), backend.length, backend.kv()
    found = measure_curves(stepper, 1)
    assert found.lengths == (16, 24, 31)
    assert all(value > 0 for value in (*found.with_ms, *found.without_ms))
    own = name == "mamba"
    assert found.cache == ("the model's own cache" if own else "blocks of 16")
    assert (backend.length, backend.kv()) == before[1:]
    assert stepper.step().timing.reread is False


@pytest.mark.parametrize(
    ("lengths", "with_ms", "without_ms", "reps"),
    [
        ((16,), (1.0, 2.0), (1.0,), (1,)),
        ((0,), (1.0,), (1.0,), (1,)),
        ((16,), (-1.0,), (1.0,), (1,)),
        ((16,), (1.0,), (float("nan"),), (1,)),
        ((16,), (float("inf"),), (1.0,), (1,)),
        ((16,), (1.0,), (1.0,), (0,)),
    ],
)
def test_a_file_cannot_bring_curves_that_cannot_be(
    lengths: Any, with_ms: Any, without_ms: Any, reps: Any
) -> None:
    good = CacheCurves(1, (16,), (1.0,), (2.0,), (3,), "blocks of 16")
    assert codec.loads(CacheCurves, codec.dumps(good)) == good
    with pytest.raises(ValueError, match="measured curves"):
        CacheCurves(1, lengths, with_ms, without_ms, reps, "blocks of 16")
    plain = codec.to_plain(good) | {
        "lengths": codec.to_plain(lengths),
        "with_ms": codec.to_plain(with_ms),
        "without_ms": codec.to_plain(without_ms),
        "reps": codec.to_plain(reps),
    }
    with pytest.raises(ValueError, match=r"measured curves|with(out)?_ms: .* is no time"):
        codec.loads(CacheCurves, json.dumps(plain))


# --- from the engine process -----------------------------------------------------------------------


def test_the_engine_answers_and_does_the_rest_afterwards() -> None:
    client = DirectClient()
    for command in script("abcdefghijklmnopqrstuvwxyz"):
        client.send(command)
    client.send(Run(ROOT, 3))
    client.take()
    # A question waits; what means to go on ends the measurement.
    client._inbox.waiting.append(SendLogits(2))
    client.send(MeasureCurves(3))
    *progress, found = client.take()
    assert isinstance(found, CacheCurves)
    assert found.lengths == (16, 29)
    assert {type(one) for one in progress} == {LoadProgress}
    assert [type(one) for one in client._engine._inbox._waiting] == [SendLogits]
    client._engine._inbox._waiting.clear()
    client._inbox.waiting.append(Step(3))
    client.send(MeasureCurves(3))
    (found,) = [one for one in client.take() if isinstance(one, CacheCurves)]
    assert (found.lengths, found.note) == ((16,), "stopped before 29 tokens")
    assert not any(isinstance(one, StepRecord | DenseLogits | EngineError) for one in progress)
