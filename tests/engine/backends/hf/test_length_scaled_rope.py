"""Models whose K depends on the length of the text: LongRoPE, dynamic NTK (A1, A10)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from engine.backends.base import BackendError
from engine.backends.hf.backend import HFBackend
from engine.backends.hf.pool import KVOptions
from engine.backends.hf.rope import length_scaled_rope
from engine.records.arrays import FloatArray
from engine.records.step import StepRecord
from engine.run.stepper import Stepper
from engine.run.tree import ROOT
from engine.sampling.chain import effective
from tests import tiny_models

BORDER = 16
LONG: dict[str, Any] = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1.0] * 4,
    "long_factor": [2.0, 4.0, 8.0, 16.0],
    "original_max_position_embeddings": BORDER,
}
DYNAMIC = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0}
SIZES: dict[str, Any] = {"max_position_embeddings": 64}


def phi3() -> Any:
    config = transformers.Phi3Config(
        **{**tiny_models.DECODER, **SIZES},
        original_max_position_embeddings=BORDER,
        rope_parameters=LONG,
        pad_token_id=0,
    )
    return tiny_models.built(transformers.Phi3ForCausalLM, config)


def phimoe() -> Any:
    config = transformers.PhimoeConfig(
        **{**tiny_models.DECODER, **SIZES},
        original_max_position_embeddings=BORDER,
        rope_parameters={**LONG, "short_mscale": 1.1, "long_mscale": 1.3},
        num_local_experts=2,
    )
    return tiny_models.built(transformers.PhimoeForCausalLM, config)


def llama_long() -> Any:
    return tiny_models.llama(**SIZES, rope_parameters={**LONG, "factor": 4.0})


def llama_dynamic() -> Any:
    return tiny_models.llama(max_position_embeddings=BORDER, rope_parameters=DYNAMIC)


MODELS: dict[str, Callable[[], Any]] = {
    build.__name__: build for build in (phi3, phimoe, llama_long, llama_dynamic)
}
WAYS = {
    "pool": KVOptions(block_size=4),
    "its own cache": KVOptions(pooled=False),
    "no cache": KVOptions(cached=False),
}


@pytest.fixture(scope="module", params=sorted(MODELS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=sorted(WAYS))
def backend(name: str, request: pytest.FixtureRequest) -> HFBackend:
    return HFBackend(MODELS[name](), tiny_models.tokenizer(), name=name, kv=WAYS[request.param])


def alone(name: str, ids: list[int]) -> np.ndarray:
    """Log-probabilities after ``ids``: transformers alone, a model that has read nothing else."""
    return _alone(name, tuple(ids))


@cache
def _alone(name: str, ids: tuple[int, ...]) -> np.ndarray:
    with torch.inference_mode():
        logits = MODELS[name]()(torch.tensor([ids]), use_cache=False).logits[0, -1]
    return logits.log_softmax(-1).numpy()  # type: ignore[no-any-return]


def ours(logits: FloatArray) -> np.ndarray:
    return torch.from_numpy(logits).log_softmax(-1).numpy()  # type: ignore[no-any-return]


def begun(backend: HFBackend, prompt: str, **more: Any) -> Stepper:
    stepper = Stepper(backend, effective("guide", {"temperature": 0}), max_tokens=60, **more)
    stepper.submit(prompt)
    return stepper


def check(stepper: Stepper, name: str, steps: list[StepRecord]) -> None:
    for step in steps:
        ids = list(stepper.path_ids(step.parent))
        assert np.abs(ours(stepper.dense(step.node)) - alone(name, ids)).max() < 1e-3, len(ids)


def test_each_step_over_the_border_is_a_fresh_read_a1(backend: HFBackend, name: str) -> None:
    """A1: 24 tokens after ``abcdefgh``; the ids are those of ``generate()`` without a cache."""
    stepper = begun(backend, "abcdefgh")
    steps = [stepper.step() for _ in range(24)]
    check(stepper, name, steps)
    prompt = torch.tensor([stepper.path_ids(ROOT)])
    told = MODELS[name]().generate(
        prompt, do_sample=False, max_new_tokens=24, min_new_tokens=24, use_cache=False
    )
    if 2 not in told[0, 8:-1]:  # min_new_tokens forbids the stop token, which ours draws
        assert [step.token.id for step in steps] == told[0, 8:].tolist()
    if backend.facts.keeps_cache:
        again = [step.position for step in steps if step.timing.reread]
        # A step at position n comes from a pass over n tokens; dynamic NTK changes with each.
        assert again == ([17] if "dynamic" not in name else list(range(17, 32)))
        computed = [step.kv.computed for step in steps if step.timing.reread]
        assert computed == again


def test_a_shorter_prompt_takes_no_keys_of_a_longer_text_a1(backend: HFBackend, name: str) -> None:
    """A1: a prompt of 20 tokens, then its first 12: 11 positions lie there, scaled for 20."""
    text = "the quick brown fox jumps over the lazy"
    stepper = begun(backend, "a")
    read = []
    for count in (20, 12, 9, 24, 12):
        stepper.submit(text[:count])
        check(stepper, name, [stepper.step()])
        assert stepper.prefill_record is not None
        read.append(stepper.prefill_record)
    if backend.facts.keeps_cache:
        assert read[1].cached == 0
        assert read[1].prefix is not None
        assert "another length" in read[1].prefix.reason
        assert read[2].cached == 8  # of the 12 that were read as a short text
    if backend.pool is not None:
        assert read[4].cached == 11  # and those are still there


def test_chunks_take_the_angles_of_the_whole_prompt_a10(backend: HFBackend, name: str) -> None:
    """A10: each chunk picked its factors by its own end; the first token was wrong."""
    stepper = begun(backend, "the quick brown fox jumps over the lazy", chunk=8)
    check(stepper, name, [stepper.step() for _ in range(4)])


def test_going_back_over_the_border_and_forward_again_a1(backend: HFBackend, name: str) -> None:
    """A1: each branch has the keys of its own length; what is still right is used again."""
    stepper = begun(backend, "abcdefghijkl")
    steps = [stepper.step() for _ in range(8)]
    early = stepper.extend(steps[1].node, force=7)
    fork = [stepper.extend(early.node, force=9)]
    for _ in range(5):
        fork.append(stepper.extend(fork[-1].node))
    late = stepper.extend(steps[-1].node)
    check(stepper, name, [*steps, early, *fork, late])
    if backend.pool is not None:
        assert not fork[0].timing.reread  # the short text's keys are still there


def test_passes_that_announce_no_whole_text_read_again_themselves_a10(
    backend: HFBackend, name: str
) -> None:
    """A10: the border is crossed inside ``decode`` or ``prefill``, and taken back again."""
    ids = [5, 9, 30, 12, 7, 44, 3, 21, 8, 17, 4, 25, 6, 11, 29, 31, 14, 22, 19, 10]
    backend.prefill(ids[:10])
    backend.prefill(ids[10:15])
    for at in range(15, 20):
        result = backend.decode(ids[at])
        assert np.abs(ours(result.logits) - alone(name, ids[: at + 1])).max() < 1e-3
    if backend.facts.can_rewind:
        backend.rollback(8)
        result = backend.decode(ids[12])
        assert backend.length == 13
        assert np.abs(ours(result.logits) - alone(name, ids[:13])).max() < 1e-3


def test_a_fresh_read_beside_it_is_not_told_by_what_was_read_before_a10(
    backend: HFBackend, name: str
) -> None:
    """A10: a dynamic module keeps the base of the longest text that it has ever read."""
    ids = [5, 9, 30, 12, 7, 44, 3, 21, 8, 17, 4, 25, 6, 11, 29, 31, 14, 22, 19, 10]
    backend.prefill(ids)
    for count in (16, 17, 12):
        expected = alone(name, ids[:count])
        assert np.abs(ours(backend.reference_logits(ids[:count])) - expected).max() < 1e-3
        padded = backend.reference_logits(ids[:count], rows=2)
        assert np.abs(ours(padded) - expected).max() < 1e-3


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_fresh_read_in_another_dtype_takes_the_angles_of_its_length_a10(
    name: str, dtype: str
) -> None:
    """A10: at 20 tokens, behind a longer text and a shorter one."""
    ids = [5, 9, 30, 12, 7, 44, 3, 21, 8, 17, 4, 25, 6, 11, 29, 31, 14, 22, 19, 10]
    model = MODELS[name]()
    backend = HFBackend(model, tiny_models.tokenizer(), name=name)
    backend.prefill([*ids, *ids])
    after_longer = backend.reference_logits(ids, dtype=dtype)
    backend.clear()
    backend.prefill(ids[:5])
    assert (backend.reference_logits(ids, dtype=dtype) == after_longer).all()
    assert np.abs(after_longer - backend.reference_logits(ids)).max() < 0.3 * after_longer.std()


def test_a_pass_that_fails_while_it_reads_again_leaves_the_length(
    backend: HFBackend, name: str
) -> None:
    backend.prefill([5] * 16)
    with torch.no_grad():
        backend.model.lm_head.weight[7, 3] = float("nan")
    with pytest.raises(BackendError, match="not finite"):
        backend.decode(9)
    assert backend.length == 16


def test_the_facts_say_where_the_angles_change_a10(backend: HFBackend, name: str) -> None:
    """A10: said once, with the border, where K and V are kept."""
    said = [note for note in backend.facts.notes if "rotary angles" in note]
    assert len(said) == 1
    assert "from 17 tokens on" in said[0]
    assert ("each step" in said[0]) == ("dynamic" in name)


@pytest.mark.parametrize("kind", ["default", "linear", "yarn", "llama3"])
def test_other_kinds_of_scaling_know_the_position_alone_a10(kind: str) -> None:
    """A10: no pass of theirs is bracketed, and nothing is read again."""
    given: dict[str, Any] = {"rope_type": kind, "rope_theta": 10000.0, "factor": 4.0}
    if kind in ("yarn", "llama3"):
        given["original_max_position_embeddings"] = BORDER
    if kind == "llama3":
        given |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    if kind == "default":
        del given["factor"]
    assert length_scaled_rope(tiny_models.llama(**SIZES, rope_parameters=given)) is None


def test_every_kind_of_scaling_that_transformers_knows_was_looked_at_a10() -> None:
    """A10: a new kind has to be tried above before it counts as knowing the position alone."""
    known = {"linear", "dynamic", "yarn", "longrope", "llama3", "proportional"}
    assert set(ROPE_INIT_FUNCTIONS) == known


def test_layers_with_angles_of_their_own_are_told_apart_a10() -> None:
    """A10: in Gemma 3 one kind of layer may be scaled and the other not."""
    sliding = {"rope_type": "default", "rope_theta": 10000.0}
    config = transformers.Gemma3TextConfig(
        **{**tiny_models.DECODER, "max_position_embeddings": BORDER},
        head_dim=8,
        sliding_window=4,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"],
        rope_parameters={"sliding_attention": sliding, "full_attention": DYNAMIC},
    )
    rope = length_scaled_rope(tiny_models.built(transformers.Gemma3ForCausalLM, config))
    assert rope is not None
    assert rope.border == BORDER + 1
    assert not rope.lasts(BORDER + 1)


def test_rows_on_both_sides_of_the_border_give_what_each_gives_alone_a1(
    backend: HFBackend, name: str
) -> None:
    """A1: each row's K is that of its own length, so rows do not share a pass."""
    texts, more = ([*range(3, 10)], [*range(3, 23)], [*range(3, 18)]), ([11], [12], [13, 14, 15])
    held = []
    for ids in texts:
        backend.seek(())
        backend.prefill(ids, profile=False)
        held.append(backend.fork(backend.sequence))
    found = backend.forward(list(zip(held, more, strict=True)))
    assert found.passes == len(texts)
    for row, ids, new in zip(found.rows, texts, more, strict=True):
        np.testing.assert_allclose(ours(row.values), alone(name, [*ids, *new]), atol=1e-4)
