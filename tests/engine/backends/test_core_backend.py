"""A backend of the small core alone: it steps, and says n/a, and why, where an ability is missing."""

from __future__ import annotations

import pytest

import engine.backends
from engine.backends import Engine
from engine.backends.base import BackendError
from engine.commands import Configure, Open, Submit
from engine.measure.cache_curves import measure_curves
from engine.measure.drift import measure_drift
from engine.run.stepper import Stepper
from engine.sampling.chain import effective
from inspector.app import Inspector
from inspector.screens.drift import DriftScreen
from inspector.state.request import Request
from tests.direct import DirectClient
from tests.inspector.test_app import pane_text, press, screen_text
from tests.toy_backend import ToyBackend

BESIDE = "n/a: backend toy cannot read a text beside the run"
CACHE = "n/a: backend toy does not tell what its KV cache holds"
LAYERS = "n/a: backend toy does not time its layers"


def stepper() -> Stepper:
    made = Stepper(ToyBackend(), effective("guide", {"temperature": 0}), chunk=4, max_tokens=9)
    made.submit("hello toy")
    return made


def test_it_steps_and_its_records_say_what_is_not_known_and_why() -> None:
    run = stepper()
    ids = list(run.path_ids(0))
    for record in run.run():
        logits = ToyBackend().forward([([], ids)]).logits
        assert record.token.id == int(logits.argmax())
        ids.append(record.token.id)
        assert (record.kv.seen, record.kv.nbytes) == (len(ids) - 1, None)
    assert len(run.nodes) == 9
    read = run.prefill_record
    assert read is not None
    assert read.prefix is not None
    assert read.prefix.reason == CACHE
    assert {chunk.layers_note for chunk in read.chunks} == {LAYERS}
    assert run.pool_state() is None


def test_it_goes_back_and_forks() -> None:
    run = stepper()
    for _ in range(3):
        run.step()
    forked = run.extend(1, force=7)
    after = run.extend(forked.node)
    logits = ToyBackend().forward([([], run.path_ids(forked.node))]).logits
    assert after.token.id == int(logits.argmax())
    run.delete(forked.node)
    assert set(run.nodes) == {1, 2, 3}
    assert run.step().node == 2


def test_what_is_measured_beside_the_run_is_refused_in_one_line() -> None:
    run = stepper()
    run.step()
    with pytest.raises(BackendError, match=f"^{BESIDE}$"):
        measure_drift(run, 1)
    with pytest.raises(BackendError, match=f"^{BESIDE}$"):
        measure_curves(run, 1)


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(engine.backends.BACKENDS, "toy", Engine("tests.toy_backend", "a toy"))


@pytest.mark.usefixtures("registered")
async def test_the_app_runs_on_it_and_gives_the_reasons() -> None:
    opening = Open("toy")
    request = Request(opening, Configure(seed=3, max_tokens=20), Submit("hello toy"))
    client = DirectClient()
    client.send(opening)
    one = Inspector(request, client, DirectClient)  # type: ignore[arg-type]
    async with one.run_test(size=(160, 48)) as pilot:
        await press(pilot, "n", "n", "b", "n")
        assert one.controller.cursor.node == 2
        assert len(one.controller.log.nodes) == 2
        assert "n/a: backend toy has no cache" in pane_text(one, "gauges")
        assert "n/a: backend toy" in pane_text(one, "kv")
        await press(pilot, "5", "z")
        assert LAYERS[:30] in pane_text(one, "prefill")
        await press(pilot, "z")
        await press(pilot, "d")
        assert isinstance(one.screen, DriftScreen)
        assert BESIDE in screen_text(one)
