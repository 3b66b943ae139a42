"""Steps of Llama-shaped models in few operations: the same logits as the model's own layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from engine.backends.hf import dtype as hf_dtype
from engine.backends.hf.backend import HFBackend
from engine.backends.hf.fused_decode import fused_of
from engine.backends.hf.pool import KVOptions
from tests import tiny_models

IDS = [5, 9, 13, 4, 22, 31, 8]
pytestmark = pytest.mark.usefixtures("one_thread")


def qwen2() -> Any:
    """Biases on query, key and value, and none elsewhere."""
    config = transformers.Qwen2Config(**tiny_models.DECODER)
    model = tiny_models.built(transformers.Qwen2ForCausalLM, config)
    with torch.no_grad():
        for layer in model.model.layers:
            for name in ("q_proj", "k_proj", "v_proj"):
                getattr(layer.self_attn, name).bias.normal_()
    return model


def biased() -> Any:
    """A bias on every linear layer of a Llama but its head."""
    model = tiny_models.llama(attention_bias=True, mlp_bias=True)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_()
    return model


def scaled() -> Any:
    """Rotary frequencies that Llama 3 stretches."""
    rope = {
        "rope_type": "llama3",
        "rope_theta": 10000.0,
        "factor": 4.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }
    return tiny_models.llama(rope_parameters=rope)


SHAPES = [tiny_models.llama, tiny_models.mistral, tiny_models.qwen3, qwen2, biased, scaled]


def stepped(backend: HFBackend, *, fused: bool) -> list[np.ndarray]:
    """Logits after each of IDS, one position a pass after the first two."""
    backend.clear()
    backend.prefill(IDS[:2])
    reader = backend._reader
    return [reader.read((token_id,), fused=fused).logits for token_id in IDS[2:]]


@pytest.mark.parametrize("build", SHAPES)
def test_fused_steps_give_the_models_own_logits(build: Callable[[], Any]) -> None:
    backend = HFBackend(build(), tiny_models.tokenizer())
    assert backend._parts.fused is not None
    plain, fused = stepped(backend, fused=False), stepped(backend, fused=True)
    for ours, theirs in zip(fused, plain, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-5 * float(theirs.std()))


@pytest.mark.parametrize("build", SHAPES)
def test_fused_rows_give_what_each_gives_alone(build: Callable[[], Any]) -> None:
    """Rows of one beginning, of several lengths, and one of another text."""
    backend = HFBackend(build(), tiny_models.tokenizer(), kv=KVOptions(block_size=2))
    texts = [IDS, [*IDS[:5], 40], [*IDS, 3, 4, 5], [17, 18]]
    expected = []
    for ids in texts:
        backend.seek(())
        expected.append(backend.prefill(ids).logits)
    backend.clear()
    rows = []
    for ids in texts:
        if backend.seek(ids) < len(ids) - 1:
            backend.prefill(ids[backend.length : -1], profile=False)
        rows.append((backend.fork(backend.sequence), ids[-1:]))
    found = backend.forward(rows)
    assert found.passes == 1
    for row, alone in zip(found.rows, expected, strict=True):
        np.testing.assert_allclose(row.values, alone, rtol=0, atol=2e-5 * float(alone.std()))


@pytest.mark.parametrize("build", SHAPES)
def test_joined_weights_are_the_models_own(build: Callable[[], Any]) -> None:
    model, untouched = build(), build()
    assert fused_of(model) is not None
    for name, weight in untouched.state_dict().items():
        assert torch.equal(model.state_dict()[name], weight), name
    prompt = torch.tensor([IDS])
    assert torch.equal(model(prompt).logits, untouched(prompt).logits)
    # Views of one tensor each: nothing is held twice.
    attention = model.model.layers[0].self_attn
    storages = {
        one.weight.untyped_storage().data_ptr()
        for one in (attention.q_proj, attention.k_proj, attention.v_proj)
    }
    assert len(storages) == 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_in_16_bits_fused_steps_are_no_further_from_float32(dtype: str) -> None:
    exact = stepped(HFBackend(tiny_models.llama(), tiny_models.tokenizer()), fused=False)
    model = tiny_models.llama()
    hf_dtype.convert(model, dtype)
    backend = HFBackend(model, tiny_models.tokenizer())
    distance = {
        fused: np.mean(
            [
                np.abs(a - b).mean()
                for a, b in zip(stepped(backend, fused=fused), exact, strict=True)
            ]
        )
        for fused in (False, True)
    }
    assert distance[True] <= 1.25 * distance[False]


def test_eight_bit_blocks_are_read_by_fused_steps_too() -> None:
    options = KVOptions(eight_bits=True)
    backend = HFBackend(tiny_models.llama(), tiny_models.tokenizer(), kv=options)
    plain, fused = stepped(backend, fused=False), stepped(backend, fused=True)
    for ours, theirs in zip(fused, plain, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=0.05 * float(theirs.std()))


def test_greedy_fused_steps_give_the_ids_of_generate() -> None:
    model = tiny_models.llama()
    expected = model.generate(
        torch.tensor([IDS]), max_new_tokens=40, do_sample=False, eos_token_id=None
    )[0, len(IDS) :].tolist()
    backend = HFBackend(model, tiny_models.tokenizer())
    assert backend._parts.fused is not None
    found = [int(backend.prefill(IDS).logits.argmax())]
    while len(found) < 40:
        found.append(int(backend.decode(found[-1]).logits.argmax()))
    assert found == expected


@pytest.mark.parametrize("name", ["gpt2", "gemma3", "mamba", "deepseek"])
def test_other_architectures_keep_their_own_layers(name: str) -> None:
    assert fused_of(tiny_models.MODELS[name]()) is None


def test_what_is_not_as_transformers_builds_it_keeps_its_own_layers() -> None:
    hooked = tiny_models.llama()
    hooked.model.layers[1].mlp.register_forward_hook(lambda *_: None)
    assert fused_of(hooked) is None
    other = tiny_models.llama(hidden_act="gelu")
    assert fused_of(other) is None

    class Mine(transformers.LlamaForCausalLM):
        pass

    assert fused_of(Mine(tiny_models.llama().config)) is None


def test_a_fused_way_that_gives_other_logits_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    from engine.backends.hf import fused_decode as hf_fused

    monkeypatch.setattr(hf_fused, "silu", torch.nn.functional.gelu)
    backend = HFBackend(tiny_models.llama(), tiny_models.tokenizer())
    assert backend._parts.fused is None
