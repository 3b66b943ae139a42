"""A step and a reading timed module by module: complete, beside the run, and gone afterwards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from engine.backends.scripted import ScriptedBackend
from engine.commands import MeasureModules
from engine.measure.modules import READS, TURNS, measure_modules
from engine.records.measured import ModulesTimed, TimedPass
from engine.records.prompt import LayerTime
from engine.run.checks import StepperError
from engine.run.stepper import Stepper
from engine.sampling.chain import effective
from inspector.panes.roofline.modules import parts_of
from tests import tiny_models
from tests.direct import DirectClient, script
from tests.engine.measure.test_cache_curves import run


def hooks(model: Any) -> int:
    return sum(len(one._forward_hooks) + len(one._forward_pre_hooks) for one in model.modules())


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma3"])
def test_every_module_is_found_and_the_run_stays_as_it_is(name: str) -> None:
    backend = tiny_models.backend(name)
    stepper = run(backend, 12, 3)
    before, logits = stepper.path_ids(stepper.cursor), stepper.dense(stepper.cursor)
    found = measure_modules(stepper, stepper.cursor)
    assert hooks(backend.model) == 0
    assert stepper.path_ids(stepper.cursor) == before
    np.testing.assert_array_equal(stepper.dense(stepper.cursor), logits)
    for timed, tokens, reps in ((found.step, 1, TURNS), (found.prefill, 15, READS)):
        assert timed is not None
        assert (timed.tokens, timed.context, timed.reps) == (tokens, 15, reps)
        assert len(timed.layers) == backend.facts.layers
        assert set(timed.outside) == {"embedding", "final norm", "output head"}
        parts = parts_of(timed)
        assert set(parts) == {"attention", "MLP", "norms", "output head", "embedding", "rest"}
        assert all(value > 0 for name, value in parts.items() if name != "rest")
        # Medians of single parts: they sum to about the median of the whole.
        assert sum(parts.values()) == pytest.approx(timed.timed_ms, rel=0.25)
        assert timed.cost_ms == timed.timed_ms - timed.plain_ms
    backend.close()


def test_the_engine_answers_and_a_step_after_it_is_an_ordinary_one() -> None:
    client = DirectClient()
    for command in script():
        client.send(command)
    client.take()
    client.send(MeasureModules(0))
    (found,) = [one for one in client.take() if isinstance(one, ModulesTimed)]
    assert (found.step, found.prefill) == (None, None)
    assert found.note == "a script has no layers"


def test_an_unknown_node_is_refused() -> None:
    stepper = Stepper(ScriptedBackend.uniform(), effective("guide", {}))
    stepper.submit("abc")
    with pytest.raises(StepperError):
        measure_modules(stepper, 7)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1.0])
def test_a_time_that_cannot_be_is_no_record(bad: float) -> None:
    with pytest.raises(ValueError, match="cannot be"):
        TimedPass(1, 1, bad, 1.0, 1, (), {})
    with pytest.raises(ValueError, match="cannot be"):
        TimedPass(1, 1, 1.0, 1.0, 1, (LayerTime(1.0, bad, 1.0),), {})
    with pytest.raises(ValueError, match="cannot be"):
        TimedPass(1, 1, 1.0, 1.0, 1, (), {"output head": bad})


def test_a_decode_step_of_a_run_has_no_hooks() -> None:
    """Nothing of this is in a run's own passes: they cost what they cost without it."""
    backend = tiny_models.backend("llama")
    stepper, seen = run(backend, 8, 1), []
    handle = backend.model.get_output_embeddings().register_forward_hook(
        lambda *_: seen.append(hooks(backend.model))
    )
    stepper.step()
    handle.remove()
    # A fused step calls no module; else this one hook is all there is.
    assert seen in ([], [1])
    assert torch.is_grad_enabled()
    backend.close()
