"""Reading a text freshly beside a run: alone, in a padded batch, with the weights in another dtype."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import torch

from engine.backends.base import BackendError
from engine.backends.hf import reference as hf_fresh
from engine.backends.hf.backend import HFBackend
from engine.backends.hf.pool import KVOptions
from engine.kv import attention
from engine.measure.compare_logits import compare_logits
from tests import tiny_models

IDS = [5, 9, 30, 12, 7, 44, 3, 21, 8, 17, 4, 25]
ALL = sorted(tiny_models.MODELS)


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def plain(name: str, rows: list[list[int]], dtype: torch.dtype = torch.float32) -> Any:
    """Logits after each of ``rows`` by transformers alone, each read by itself."""
    model = tiny_models.MODELS[name]().to(dtype)
    # One row of a product has other last bits than that row of a larger one.
    last = "logits_to_keep" in inspect.signature(model.forward).parameters
    more = {"use_cache": False, **({"logits_to_keep": 1} if last else {})}
    with torch.inference_mode():
        return [model(torch.tensor([row]), **more).logits[0, -1].float().numpy() for row in rows]


@pytest.mark.parametrize("name", ALL)
def test_a_fresh_read_is_transformers_own_to_the_bit(name: str) -> None:
    (expected,) = plain(name, [IDS])
    for kv in (None, KVOptions(cached=False), KVOptions(eight_bits=True)):
        backend = tiny_models.backend(name, kv=kv)
        backend.prefill(IDS[:6])
        assert (backend.reference_logits(IDS) == expected).all()


@pytest.mark.parametrize("name", ALL)
def test_without_a_cache_the_run_is_a_fresh_read_to_the_bit(name: str) -> None:
    backend = tiny_models.backend(name, kv=KVOptions(cached=False))
    backend.prefill(IDS[:5])
    for at in range(5, len(IDS)):
        assert (backend.decode(IDS[at]).logits == backend.reference_logits(IDS[: at + 1])).all()


@pytest.mark.parametrize("name", ALL)
def test_prefill_of_all_and_of_all_but_one_and_a_step_agree_but_not_to_the_bit(name: str) -> None:
    """Case 28: float32 within 1e-4 of the largest logit; never compared bit by bit."""
    backend = tiny_models.backend(name)
    backend.prefill(IDS[:-1])
    apart = compare_logits(backend.reference_logits(IDS), backend.decode(IDS[-1]).logits)
    assert apart.max_relative < 1e-4
    assert apart.kl < 1e-6
    assert not apart.flips or apart.close


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("rows", [2, 3, 5])
def test_company_in_a_padded_batch_changes_no_more_than_rounding(name: str, rows: int) -> None:
    """Case 52: each row's positions begin behind its own padding."""
    backend = tiny_models.backend(name)
    apart = compare_logits(backend.reference_logits(IDS), backend.reference_logits(IDS, rows=rows))
    assert apart.max_relative < 1e-4


def test_the_shorter_rows_are_padded_on_the_left_and_begin_at_position_0() -> None:
    """12 positions in 3 rows: 12, 8 and 4; what is padding is masked and has no position."""
    assert hf_fresh.lengths(12, 3) == [12, 8, 4]
    assert hf_fresh.lengths(1, 3) == [1, 1, 1]
    model = tiny_models.llama()
    tokens, given = hf_fresh._batch(model, IDS, 3, True)
    assert tokens[2].tolist() == [0] * 8 + IDS[:4]
    assert given["attention_mask"][1].tolist() == [0] * 4 + [1] * 8
    assert given["position_ids"][2].tolist() == [0] * 8 + [0, 1, 2, 3]
    with torch.inference_mode():
        logits = model(tokens, **given).logits[:, -1].numpy()
    for row, expected in zip(logits, plain("llama", [IDS, IDS[:8], IDS[:4]]), strict=True):
        np.testing.assert_allclose(row, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma3", "mamba", "deepseek"])
def test_another_dtype_is_the_model_converted_to_it(name: str) -> None:
    """Against ``model.half()``: more than rounding apart from float32, and near to that."""
    backend = tiny_models.backend(name)
    reference = backend.reference_logits(IDS)
    (half,) = plain(name, [IDS], torch.float16)
    found = backend.reference_logits(IDS, dtype="float16")
    assert compare_logits(reference, found).max_relative > 1e-5
    assert compare_logits(half, found).max_relative < 0.02
    parameters = {parameter.dtype for parameter in backend._parts.model.parameters()}
    assert parameters == {torch.float32}
    assert (backend.reference_logits(IDS) == reference).all()


def test_a_fresh_read_leaves_the_pool_its_attention_and_its_warm_ups(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backend = tiny_models.backend("llama")
    backend.prefill(IDS[:6])
    before = backend.pool_state()
    backend.reference_logits(IDS, rows=2)
    with backend.side_sequence(cached=True, positions=20):
        backend.prefill(IDS)
        assert backend.decode(3).warmup
    assert backend._parts.model.config._attn_implementation == attention.NAME
    after = backend.pool_state()
    assert before is not None
    assert after is not None
    assert after.used_bytes == before.used_bytes
    assert after.branches[0].length == 6
    # The run has run no step of one position yet: its first is its first.
    assert backend.decode(IDS[6]).warmup
    assert not backend.decode(IDS[7]).warmup


def test_aside_a_pool_is_as_large_as_the_text_and_no_larger() -> None:
    """20 positions in blocks of 16, one more to begin and one to copy: at most 4 blocks."""
    backend = tiny_models.backend("llama")
    with backend.side_sequence(cached=True, positions=20):
        aside = backend.pool_state()
        assert aside is not None
        assert 2 <= aside.groups[0].blocks <= 4
        backend.prefill(list(range(3, 23)))


def test_aside_int8_stays_int8_and_what_has_no_pool_has_none() -> None:
    eight = tiny_models.backend("llama", kv=KVOptions(eight_bits=True, block_size=4))
    with eight.side_sequence(cached=True, positions=9):
        state = eight.pool_state()
        assert state is not None
        assert (state.quantized, state.block_size) == (True, 4)
    recurrent = tiny_models.backend("mamba")
    with recurrent.side_sequence(cached=True, positions=9):
        assert recurrent.pool_state() is None
        recurrent.prefill(IDS[:4])
        recurrent.decode(7)
    uncached = tiny_models.backend("llama", kv=KVOptions(cached=False))
    with uncached.side_sequence(cached=True, positions=9):
        assert uncached.pool_state() is not None
    assert uncached.pool_state() is None


# --- what cannot be ---------------------------------------------------------------------------


def refusal(backend: HFBackend, **more: Any) -> str:
    with pytest.raises(BackendError) as caught:
        backend.reference_logits(IDS, **more)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_copy_that_does_not_fit_says_how_large_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = tiny_models.backend("llama")
    monkeypatch.setattr(hf_fresh, "available_memory", lambda: 10)
    assert refusal(backend, dtype="float16").startswith("a copy of the weights needs ")
    monkeypatch.setattr(hf_fresh, "available_memory", lambda: None)
    assert backend.reference_logits(IDS, dtype="float16").shape == (tiny_models.VOCAB,)


def test_a_quantised_model_is_not_converted() -> None:
    backend = tiny_models.backend("llama")
    backend._parts.model.config.quantization_config = {"bits": 4}
    assert refusal(backend, dtype="float16") == "a quantised model is not converted"


def test_a_model_that_takes_no_padding_says_so() -> None:
    class NoMask(torch.nn.Module):
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, input_ids: Any) -> Any:
            return self.inner(input_ids)

        def get_input_embeddings(self) -> Any:
            return self.inner.get_input_embeddings()

    with pytest.raises(BackendError, match="takes no padding"):
        hf_fresh.read(
            NoMask(tiny_models.llama()), IDS, rows=2, dtype=None, wide=None, positions=True, more={}
        )


def test_logits_that_overflow_name_the_dtype() -> None:
    backend = tiny_models.backend("llama")
    with torch.no_grad():
        backend._parts.model.lm_head.weight.mul_(1e6)
    assert refusal(backend, dtype="float16") == "its logits are not finite in float16"


def test_nan_in_a_padded_row_is_seen_e8() -> None:
    """E8: a model that breaks beside padding breaks in the shorter rows of a batch alone."""
    model = tiny_models.llama()

    def spoil(module: Any, given: Any, output: Any) -> Any:
        output.logits[1] = float("nan")  # the second of two texts, begun by padding
        return output

    handle = model.register_forward_hook(spoil)
    given: dict[str, Any] = {"rows": 2, "dtype": None, "wide": None, "positions": True}
    given["more"] = {"logits_to_keep": 1}
    with pytest.raises(BackendError, match="not finite in float32 beside 6 positions of padding"):
        hf_fresh.read(model, IDS, **given)
    handle.remove()
    hf_fresh.read(model, IDS, **given)
