"""Several positions of a text in few operations, and products of a weight with a few rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from engine.backends.hf import dtype as hf_dtype
from engine.backends.hf import few_rows
from engine.backends.hf.backend import HFBackend
from engine.backends.hf.few_rows import Blocks
from engine.backends.hf.pool import KVOptions
from tests import tiny_models
from tests.engine.backends.hf.test_fused_decode import IDS, SHAPES

pytestmark = pytest.mark.usefixtures("one_thread")


def read(backend: HFBackend, before: int, *, fused: bool) -> np.ndarray:
    """Logits of each of IDS behind the first ``before``, from one pass."""
    backend.clear()
    if before:
        backend.prefill(IDS[:before])
    return backend._reader.read(IDS[before:], fused=fused, all_positions=True).logits


@pytest.mark.parametrize("before", [0, 1, 5])
@pytest.mark.parametrize("build", SHAPES)
def test_they_are_the_models_own(build: Callable[[], Any], before: int) -> None:
    """Mistral's layers see four positions: a window ends within the pass."""
    backend = HFBackend(build(), tiny_models.tokenizer(), kv=KVOptions(block_size=2))
    plain, fused = (read(backend, before, fused=fused) for fused in (False, True))
    assert plain.shape == fused.shape == (len(IDS) - before, backend.facts.vocab_size)
    np.testing.assert_allclose(fused, plain, rtol=0, atol=2e-5 * float(plain.std()))


def test_what_they_wrote_is_read_by_the_next_pass() -> None:
    """After a pass over several, one of a single position sees what the model's own would."""
    backend = HFBackend(tiny_models.llama(), tiny_models.tokenizer())
    read(backend, 2, fused=True)
    after = backend._reader.read((11,)).logits
    backend.clear()
    backend.prefill(IDS)
    expected = backend._reader.read((11,), fused=False).logits
    np.testing.assert_allclose(after, expected, rtol=0, atol=2e-5 * float(expected.std()))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_in_16_bits_blocks_are_no_further_from_float32(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = read(HFBackend(tiny_models.llama(), tiny_models.tokenizer()), 2, fused=False)
    monkeypatch.setattr(few_rows, "_NUMBERS", 64)
    distance = {}
    for widen in (False, True):
        model = tiny_models.llama()
        hf_dtype.convert(model, dtype)
        backend = HFBackend(model, tiny_models.tokenizer())
        fused = backend._parts.fused
        assert fused is not None
        for layer in fused._layers:
            layer.gate_up.blocks._widen = widen
        distance[widen] = np.abs(read(backend, 2, fused=True) - exact).mean()
    assert distance[False] > 0
    assert distance[True] <= 1.25 * distance[False]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_product_by_blocks_is_the_product(
    dtype: torch.dtype, bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """37 rows of a weight, in blocks of 4 and a last one of 1."""
    monkeypatch.setattr(few_rows, "_NUMBERS", 4 * 24 // torch.get_num_threads())
    made = torch.Generator().manual_seed(1)
    weight = torch.randn(37, 24, generator=made).to(dtype)
    x = torch.randn(5, 24, generator=made).to(dtype)
    add = torch.randn(37, generator=made).to(dtype) if bias else None
    found = Blocks(widen=True).product(x, weight, add)
    expected = x.double() @ weight.double().t() + (0 if add is None else add.double())
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=0, atol=1e-4)


def test_which_products_go_by_blocks() -> None:
    """16 bits where they are slow here, from 3 or 5 rows on; float32 from 4, where the weight is large."""
    small, large = torch.zeros(8, 8), torch.zeros(3000, 512)

    def suits(rows: int, weight: torch.Tensor, *, widen: bool = True) -> bool:
        return Blocks(widen=widen).suit(torch.zeros(rows, weight.shape[1]), weight)

    assert [suits(rows, small.half()) for rows in (1, 2, 3, 9)] == [False, False, True, True]
    assert [suits(rows, small.bfloat16()) for rows in (1, 4, 5)] == [False, False, True]
    assert not suits(9, small.half(), widen=False)
    assert [suits(rows, large) for rows in (1, 3, 4, 12, 13)] == [False, False, True, True, False]
    assert not suits(9, small)
