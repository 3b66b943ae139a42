"""The drift meter: which ways are held against a fresh read, and that the run knows nothing of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from engine.backends.hf import reference as hf_fresh
from engine.backends.hf.pool import KVOptions
from engine.backends.scripted import ScriptedBackend
from engine.commands import MeasureDrift, Run
from engine.measure.compare_logits import compare_logits
from engine.measure.drift import measure_drift
from engine.records.events import EngineError, LoadProgress
from engine.records.measured import DriftMeasured, DriftRow
from engine.records.model import KVStorage
from engine.records.step import StepRecord
from engine.run.checks import StepperError
from engine.run.stepper import Stepper
from engine.run.tree import ROOT
from engine.sampling.chain import effective
from sessions.rows import codec
from tests import tiny_models
from tests.direct import DirectClient, script

PROMPT = [5, 9, 30, 12, 7, 44, 3, 21, 8]
WAYS = ["beside a shorter text, padded", "weights in float16", "weights in bfloat16"]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def stepped(name: str = "llama", steps: int = 6, kv: KVOptions | None = None) -> Stepper:
    """A tiny model some greedy steps after ``PROMPT``."""
    backend = tiny_models.backend(name, kv=kv)
    stepper = Stepper(backend, effective("guide", {"temperature": 0}), max_tokens=50)
    stepper.submit_ids(PROMPT)
    for _ in range(steps):
        stepper.step()
    return stepper


def row(measured: DriftMeasured, label: str) -> DriftRow:
    return next(one for one in measured.rows if one.label == label)


@pytest.mark.parametrize("name", sorted(tiny_models.MODELS))
def test_every_way_is_near_the_fresh_read_and_says_what_it_would_pick(name: str) -> None:
    stepper = stepped(name)
    found = measure_drift(stepper)
    assert [one.label for one in found.rows][1:] == WAYS
    assert (found.node, found.positions) == (6, len(PROMPT) + 5)
    reference = stepper.backend.reference_logits(stepper.path_ids(5))
    assert found.top.id == int(reference.argmax())
    for one in found.rows:
        assert one.obstacle == ""
        assert one.drift is not None
        assert one.top is not None
        assert one.top.id == one.drift.other_top
        assert one.drift.max_relative < (0.1 if one.label == "weights in bfloat16" else 0.01)
        assert not one.drift.flips or one.drift.close
    half, run = row(found, "weights in float16").drift, found.rows[0].drift
    assert half is not None
    assert run is not None
    assert run.max_abs < half.max_abs


def test_the_run_s_row_is_its_own_logits_against_the_fresh_read() -> None:
    stepper = stepped()
    found = measure_drift(stepper)
    expected = compare_logits(
        stepper.backend.reference_logits(stepper.path_ids(5)), stepper.dense(6)
    )
    assert found.rows[0].drift == expected
    assert found.rows[0].label == "this run, K and V in float32"


def test_at_the_prompt_it_is_the_logits_after_it() -> None:
    stepper = stepped(steps=0)
    with pytest.raises(StepperError, match="has not been read yet"):
        measure_drift(stepper)
    stepper.step()
    found = measure_drift(stepper, ROOT)
    first = measure_drift(stepper, 1)
    assert (found.node, found.positions) == (ROOT, len(PROMPT))
    assert [one.drift for one in found.rows] == [one.drift for one in first.rows]


def test_eight_bits_drift_more_and_say_so() -> None:
    plain, eight = stepped(), stepped(kv=KVOptions(eight_bits=True))
    ours, theirs = measure_drift(plain, 2).rows[0], measure_drift(eight, 2).rows[0]
    assert theirs.label == "this run, K and V in int8"
    assert ours.drift is not None
    assert theirs.drift is not None
    assert theirs.drift.max_abs > 100 * ours.drift.max_abs
    assert theirs.drift.max_relative < 0.05


def test_without_a_cache_there_is_no_drift_at_all() -> None:
    found = measure_drift(stepped(kv=KVOptions(cached=False)))
    assert found.rows[0].label == "this run, no cache"
    assert found.rows[0].drift is not None
    assert found.rows[0].drift.max_abs == 0.0


def test_a_model_with_its_own_cache_says_so() -> None:
    assert measure_drift(stepped("mamba")).rows[0].label == "this run, its own cache"


def test_what_cannot_be_read_says_why_and_the_rest_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stepper = stepped()
    monkeypatch.setattr(hf_fresh, "available_memory", lambda: 10)
    found = measure_drift(stepper)
    for name in WAYS[1:]:
        assert row(found, name).drift is None
        assert row(found, name).obstacle.startswith("a copy of the weights needs")
    assert row(found, WAYS[0]).drift is not None


def test_the_run_goes_on_as_if_nothing_had_been_measured() -> None:
    measured, other = stepped(), stepped()
    measure_drift(measured)
    measure_drift(measured, ROOT)
    for _ in range(5):
        ours, theirs = measured.step(), other.step()
        assert ours.token == theirs.token
        assert ours.kv == theirs.kv
        assert (ours.timing.warmup, ours.timing.reread) == (theirs.timing.warmup, False)
        assert (measured.dense(ours.node) == other.dense(theirs.node)).all()
    assert measured.cursor == other.cursor


def test_a_node_that_is_not_there_is_refused() -> None:
    with pytest.raises(StepperError, match="99"):
        measure_drift(stepped(), 99)


def test_progress_tells_which_way_is_being_read() -> None:
    told: list[tuple[float | None, str]] = []
    measure_drift(stepped(), 3, lambda phase, share, detail: told.append((share, detail)))
    assert [detail for _, detail in told] == ["a fresh read", "this run, K and V in float32", *WAYS]
    assert [share for share, _ in told] == [0.0, 0.2, 0.4, 0.6, 0.8]


def test_a_session_file_holds_it() -> None:
    found = measure_drift(stepped())
    again = codec.loads(DriftMeasured, codec.dumps(found))
    assert again == found
    infinite = DriftMeasured(1, 3, "r", found.top, (DriftRow("x", obstacle="no room"),))
    assert codec.loads(DriftMeasured, codec.dumps(infinite)) == infinite


# --- from the engine process -----------------------------------------------------------------------


def opened(**options: Any) -> DirectClient:
    client = DirectClient()
    for command in script(**options):
        client.send(command)
    return client


def test_the_engine_answers_and_its_state_stays() -> None:
    client = opened()
    client.send(Run(ROOT, 3))
    client.take()
    client.send(MeasureDrift(2))
    *progress, answer = client.take()
    assert isinstance(answer, DriftMeasured)
    assert all(isinstance(one, LoadProgress) for one in progress)
    assert answer.rows[0].drift is not None
    assert answer.rows[0].drift.max_abs == 0.0
    assert answer.rows[2].obstacle == "a script has no weights to convert"


def test_asked_between_two_passes_it_is_answered_and_the_run_goes_on() -> None:
    client = opened()
    client.send(Run(ROOT, 1))
    client.take()
    client._inbox.waiting.append(MeasureDrift(1))
    client.send(Run(1, 5))
    records = client.take()
    kinds = [type(one) for one in records if isinstance(one, StepRecord | DriftMeasured)]
    assert kinds.count(StepRecord) == 5
    assert kinds.index(DriftMeasured) < 5


def test_before_the_prompt_is_read_it_is_one_line() -> None:
    client = opened()
    client.take()
    client.send(MeasureDrift(ROOT))
    errors = [one for one in client.take() if isinstance(one, EngineError)]
    assert [one.message for one in errors] == ["the prompt has not been read yet: n reads it"]


def test_a_script_is_its_own_fresh_read() -> None:
    backend = ScriptedBackend.uniform("abc")
    assert np.array_equal(backend.reference_logits([0, 1], rows=2), np.zeros(3, np.float32))
    assert backend.length == 0


def test_how_k_and_v_are_kept_in_two_words() -> None:
    assert KVStorage().unusual == ""
    assert KVStorage(cached=False).unusual == "no cache"
    assert KVStorage(dtype="int8", block_size=16).unusual == "int8 KV"
