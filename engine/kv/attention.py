"""Attention that reads the pool as it lies, registered with transformers under ``NAME``.

transformers' own path repeats every K/V head once per query head, which copies the whole cache at
every step. Here nothing is repeated. For a single new position the query heads that share a K/V
head become rows of one small matrix; on a CPU, 16-bit K and V are widened to float32 into a
buffer that is kept, because there is no fast 16-bit product there.

The choice between ways is a fixed function of device, dtype and length: one run must give the same
tokens as the next. The lengths were measured by ``bench/context.py``.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from engine.kv.scratch import Scratch

NAME = "pooled_kv"
"""The attention implementation's name in a model's configuration."""

_WIDEN_HALF = 8 * 1024
_WIDEN_BFLOAT = 24 * 1024
"""From so many numbers in K on, widening to float32 beats torch's own 16-bit kernel on a CPU."""
_WIDEN_GROUPED_BFLOAT = 1024
"""The same in positions, for bfloat16 with several query heads to a K/V head."""
_FOLDED_COST = 0.7
"""What four rows or more cost in one product, against as many products of one row."""
_WIDE_PREFILL = (torch.float16,)
"""Dtypes whose many-row passes are faster in float32, on a CPU."""
_ROWS = 4
"""Rows of a small matrix product are padded to a multiple of this; BLAS kernels like it so."""
_OTHER_TERMS = ("softcap", "s_aux", "position_bias")
"""Arguments that change what attention computes: such layers take transformers' own path."""


class PooledAttention:
    """The attention function; holds the buffers that K and V are widened into."""

    def __init__(self) -> None:
        self._scratch = Scratch()
        self._zero = torch.zeros(1)

    def __call__(
        self,
        module: torch.nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        dropout: float = 0.0,
        scaling: float | None = None,
        is_causal: bool | None = None,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, None]:
        """Attend: ``query`` is (1, query_heads, n, d), ``key`` and ``value`` (1, kv_heads, len, d).

        Returns (1, n, query_heads, value_dim) in the query's dtype, as transformers expects it.
        """
        groups, rest = divmod(query.shape[1], key.shape[1])
        ordinary = rest or dropout or query.shape[0] != 1 or is_causal is False
        if ordinary or any(kwargs.get(term) is not None for term in _OTHER_TERMS):
            result: tuple[torch.Tensor, None] = sdpa_attention_forward(
                module,
                query,
                key.to(query.dtype),
                value.to(query.dtype),
                attention_mask,
                dropout=dropout,
                scaling=scaling,
                is_causal=is_causal,
                **kwargs,
            )
            return result
        scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        if query.shape[2] == 1 and attention_mask is None:
            return self._one(query, key, value, groups, scale), None
        return self._many(query, key, value, attention_mask, groups, scale), None

    def _one(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, groups: int, scale: float
    ) -> torch.Tensor:
        """One new position that sees everything in ``key``."""
        _, heads, _, width = query.shape
        if query.device.type == "cpu" and _is_wider_better(query, key, groups):
            return self._widened(query, key, value, groups, scale)
        if _is_folding_better(query, groups):
            rows = query.reshape(1, heads // groups, groups, width)
            seen = scaled_dot_product_attention(rows, key, value, scale=scale)
        else:
            seen = scaled_dot_product_attention(
                query, key, value, scale=scale, enable_gqa=groups > 1
            )
        return seen.reshape(1, 1, heads, value.shape[3])

    def _widened(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, groups: int, scale: float
    ) -> torch.Tensor:
        """As ``_one``, in float32 products over widened K and V."""
        kv_heads, width = key.shape[1], key.shape[3]
        padded = -(-groups // _ROWS) * _ROWS if groups > 1 else 1
        rows = self._scratch.zeros("rows", (kv_heads, padded, width))
        rows[:, :groups].copy_(query.view(kv_heads, groups, width))
        # One buffer for both: K's part of it is done with, and still near.
        wide = self._scratch.widened("half", key)[0]
        scores = torch.baddbmm(self._zero, rows, wide.transpose(1, 2), beta=0, alpha=scale)
        wide = self._scratch.widened("half", value)[0]
        seen = torch.bmm(scores.softmax(-1), wide)[:, :groups]
        return seen.to(query.dtype).reshape(1, 1, kv_heads * groups, value.shape[3])

    def _many(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        mask: torch.Tensor | None,
        groups: int,
        scale: float,
    ) -> torch.Tensor:
        """Several new positions, or a mask that matters."""
        dtype = query.dtype
        if dtype in _WIDE_PREFILL and query.device.type == "cpu":
            query = query.float()
            key = self._scratch.widened("key", key)
            value = self._scratch.widened("value", value)
            if mask is not None and mask.is_floating_point():
                mask = mask.float()
        elif key.dtype != dtype:
            key, value = key.to(dtype), value.to(dtype)
        seen = scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=mask,
            scale=scale,
            # Without a mask all the keys are the queries' own, or there is one query.
            is_causal=mask is None and query.shape[2] > 1,
            enable_gqa=groups > 1,
        )
        return seen.transpose(1, 2).to(dtype).contiguous()


def _is_wider_better(query: torch.Tensor, key: torch.Tensor, groups: int) -> bool:
    """Whether one position is faster in float32 products than in the 16-bit kernel, on a CPU."""
    if key.dtype != query.dtype:
        return True
    if query.dtype == torch.float16:
        return key.numel() >= _WIDEN_HALF
    if query.dtype != torch.bfloat16:
        return False
    if groups > 1:
        return key.shape[2] >= _WIDEN_GROUPED_BFLOAT
    return key.numel() >= _WIDEN_BFLOAT


def _is_folding_better(query: torch.Tensor, groups: int) -> bool:
    """Whether query heads that share a K/V head are better one task than several.

    The CPU kernel deals out (batch, head) pairs to threads, each of which reads all of its K and
    V: folding reads them once, but leaves fewer tasks to deal out evenly.
    """
    if query.device.type != "cpu" or query.dtype != torch.float32:
        return True
    threads = torch.get_num_threads()
    heads = query.shape[1]
    cost = groups * (_FOLDED_COST if groups >= _ROWS else 1.0)
    return math.ceil(heads / groups / threads) * cost < math.ceil(heads / threads)


def pooled_mask(*args: Any, **kwargs: Any) -> torch.Tensor | None:
    """transformers' mask for sdpa, or None where one new position sees all that it is given.

    A sliding layer's K and V already end at its window, so that there is nothing left to hide.
    """
    mask: torch.Tensor | None = sdpa_mask(*args, **kwargs)
    if mask is not None and mask.shape[2] == 1 and mask.device.type == "cpu" and bool(mask.all()):
        return None
    return mask


def install(model: Any) -> bool:
    """Make ``model`` attend through this module. False where its own way must stay.

    Models that do not use torch's sdpa (soft-capped scores, attention sinks) keep what they have.
    """
    if model.config._attn_implementation != "sdpa":
        return model.config._attn_implementation == NAME
    if NAME not in AttentionInterface._global_mapping:
        AttentionInterface.register(NAME, PooledAttention())
        AttentionMaskInterface.register(NAME, pooled_mask)
    model.set_attn_implementation(NAME)
    return bool(model.config._attn_implementation == NAME)


def uninstall(model: Any) -> None:
    """Give ``model`` transformers' own sdpa attention back, where ``install`` replaced it."""
    if model.config._attn_implementation == NAME:
        model.set_attn_implementation("sdpa")
