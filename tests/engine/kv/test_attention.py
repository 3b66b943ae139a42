"""The pool's attention against the definition, for every shape, dtype and way that it takes."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.kv.attention import NAME, PooledAttention, install, pooled_mask, uninstall
from tests.tiny_models import MODELS

TOLERANCE = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
MODULE: Any = SimpleNamespace(num_key_value_groups=1, is_causal=True)


def reference(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, visible: torch.Tensor, scale: float
) -> torch.Tensor:
    """softmax(q k^T * scale) v in float64, every head on its own; (1, n, heads, value_dim)."""
    groups = query.shape[1] // key.shape[1]
    heads = []
    for head in range(query.shape[1]):
        q, k, v = query[0, head].double(), key[0, head // groups].double(), value[0, head // groups]
        scores = (q @ k.T * scale).masked_fill(~visible, -math.inf)
        heads.append(scores.softmax(-1) @ v.double())
    return torch.stack(heads, 1)[None]


@settings(deadline=None, max_examples=80)
@given(
    dtype=st.sampled_from(list(TOLERANCE)),
    kv_heads=st.sampled_from([1, 2, 3]),
    groups=st.sampled_from([1, 2, 3, 4, 5]),
    width=st.sampled_from([8, 64]),
    value_width=st.sampled_from([8, 64]),
    new=st.sampled_from([1, 1, 2, 5]),
    past=st.sampled_from([0, 1, 15, 100, 300, 1300]),
    window=st.booleans(),
    seed=st.integers(0, 9),
)
def test_equals_the_definition(
    dtype: torch.dtype,
    kv_heads: int,
    groups: int,
    width: int,
    value_width: int,
    new: int,
    past: int,
    window: bool,
    seed: int,
) -> None:
    generator = torch.Generator().manual_seed(seed)

    def normal(heads: int, length: int, size: int) -> torch.Tensor:
        # As the pool has them: a view into something longer, all positions of a head in a row.
        made = torch.randn(1, heads, length + 7, size, generator=generator).to(dtype)
        return made.narrow(2, 3, length)

    length = past + new
    query = normal(kv_heads * groups, new, width)
    key, value = normal(kv_heads, length, width), normal(kv_heads, length, value_width)
    places = torch.arange(length)
    visible = places <= torch.arange(past, length)[:, None]
    if window:
        visible &= places > torch.arange(past, length)[:, None] - 12
    mask = None if visible.all() or (past == 0 and not window) else visible[None, None]
    result, weights = PooledAttention()(MODULE, query, key, value, mask, scaling=0.3)
    assert weights is None
    assert result.dtype == dtype
    assert result.shape == (1, new, kv_heads * groups, value_width)
    expected = reference(query, key, value, visible, 0.3)
    assert (result.double() - expected).abs().max() <= TOLERANCE[dtype] * value.abs().max()


def test_a_buffer_from_a_longer_context_leaves_no_trace() -> None:
    attention = PooledAttention()
    for length in (900, 200, 500):
        query, key = torch.ones(1, 6, 1, 64).half(), torch.randn(1, 2, length, 64).half()
        value = torch.randn(1, 2, length, 64).half()
        result, _ = attention(MODULE, query, key, value, None)
        expected = reference(query, key, value, torch.ones(1, length, dtype=torch.bool), 0.125)
        assert (result.double() - expected).abs().max() < 4e-3


def test_wide_keys_for_a_half_precision_query() -> None:
    """What an 8-bit pool hands over on a CPU."""
    query = torch.randn(1, 4, 1, 16).half()
    key, value = torch.randn(1, 2, 40, 16), torch.randn(1, 2, 40, 16)
    visible = torch.ones(1, 40, dtype=torch.bool)
    result, _ = PooledAttention()(MODULE, query, key, value, None)
    assert result.dtype == torch.float16
    assert (result.double() - reference(query, key, value, visible, 0.25)).abs().max() < 4e-3
    several, _ = PooledAttention()(
        MODULE, query.expand(1, 4, 3, 16), key, value, visible.expand(1, 1, 3, 40)
    )
    assert (several - result).abs().max() < 4e-3


@pytest.mark.parametrize(("new", "mask"), [(1, False), (3, False), (3, True)])
def test_soft_capped_scores_are_capped_before_the_mask(new: int, mask: bool) -> None:
    query, key = torch.randn(1, 4, new, 16) * 9, torch.randn(1, 2, new + 4 * mask, 16)
    length = key.shape[2]
    value = torch.randn(1, 2, length, 8)
    visible = torch.arange(length) <= torch.arange(length - new, length)[:, None]
    given = visible[None, None] if mask else None
    result, _ = PooledAttention()(MODULE, query, key, value, given, scaling=0.25, softcap=2.0)
    heads = []
    for head in range(4):
        q, k, v = query[0, head].double(), key[0, head // 2].double(), value[0, head // 2].double()
        scores = (2.0 * torch.tanh(q @ k.T * 0.25 / 2.0)).masked_fill(~visible, -math.inf)
        heads.append(scores.softmax(-1) @ v)
    assert (result.double() - torch.stack(heads, 1)[None]).abs().max() < 1e-5


@pytest.mark.parametrize("term", ["s_aux", "position_bias"])
def test_terms_that_it_does_not_know_go_to_transformers(
    term: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}

    def theirs(*args: Any, **kwargs: Any) -> tuple[str, None]:
        seen.update(kwargs)
        return "theirs", None

    monkeypatch.setattr("engine.kv.attention.sdpa_attention_forward", theirs)
    states = torch.zeros(1, 2, 1, 8)
    result = PooledAttention()(MODULE, states, states, states, None, **{term: torch.ones(1)})
    assert result == ("theirs", None)
    assert term in seen


def test_the_mask_of_one_position_that_sees_all_is_none() -> None:
    def within(batch: Any, head: Any, query: Any, key: Any) -> Any:
        return (key <= query) & (key > query - 4)

    sizes = {"batch_size": 1, "q_length": 1, "mask_function": within, "local_size": 4}
    assert pooled_mask(**sizes, kv_length=4, q_offset=9, kv_offset=6) is None
    mask = pooled_mask(**sizes, kv_length=5, q_offset=9, kv_offset=5)
    assert mask is not None
    assert mask.tolist() == [[[[False, True, True, True, True]]]]


def test_installing_and_taking_it_out_again() -> None:
    model = MODELS["llama"]()
    assert model.config._attn_implementation == "sdpa"
    assert install(model)
    assert install(model)
    assert model.config._attn_implementation == NAME
    uninstall(model)
    assert model.config._attn_implementation == "sdpa"


def test_a_model_with_another_attention_keeps_it() -> None:
    model = MODELS["llama"]()
    model.set_attn_implementation("eager")
    assert not install(model)
    assert model.config._attn_implementation == "eager"
