"""Attention that reads the pool as it lies, registered with transformers under ``NAME``.

transformers' own path for torch's sdpa costs more with every position than it must: on a CPU it
lets each query head read its K/V head again, in arithmetic that is slow for 16 bits. Here K and V
in 16 bits are widened to float32 once per layer, into a buffer that is kept where they are large,
and the query heads that share a K/V head are folded into the rows of one product where that leaves
enough tasks for the threads. Nothing is repeated in memory.

The choice between ways is a fixed function of device, dtype, shape and threads: one run must give
the same tokens as the next. The figures behind it are those of ``bench/context.py``; few large
operations were preferred to many small ones, which suffer when something else wants a core.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from engine.kv.scratch import SMALL, Scratch

NAME = "pooled_kv"
"""The attention implementation's name in a model's configuration."""
_SHORT = 64
"""Positions up to which converting K and V costs more than 16-bit arithmetic does."""


class _Way(NamedTuple):
    """Way of attending in layers of one shape: the same at every step, so decided once."""

    groups: int
    widen: bool
    fold: bool


class PooledAttention:
    """The attention function; holds the buffer that K and V are widened into."""

    def __init__(self) -> None:
        self._scratch = Scratch()
        self._ways: dict[tuple[Any, ...], _Way] = {}

    def __call__(
        self,
        module: torch.nn.Module | None,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        dropout: float = 0.0,
        scaling: float | None = None,
        is_causal: bool | None = None,
        softcap: float | None = None,
        s_aux: torch.Tensor | None = None,
        position_bias: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, None]:
        """Attend: ``query`` is (1, query_heads, n, d), ``key`` and ``value`` (1, kv_heads, len, d).

        ``key`` and ``value`` may be float32 where the query is not. Returns
        (1, n, query_heads, value_dim) in the query's dtype, as transformers expects it. Several
        sequences, sinks and position biases are left to transformers.
        """
        if softcap is not None:
            # Some releases of transformers leave it out here, and say nothing.
            scale = query.shape[3] ** -0.5 if scaling is None else scaling
            return _capped(query, key, value, attention_mask, scale, softcap), None
        batch, heads, new, width = query.shape
        other = s_aux is not None or position_bias is not None
        if batch != 1 or dropout or other or is_causal is False:
            kwargs |= {"s_aux": s_aux, "position_bias": position_bias} if other else {}
            key, value = key.to(query.dtype), value.to(query.dtype)
            result: tuple[torch.Tensor, None] = sdpa_attention_forward(
                module,
                query,
                key,
                value,
                attention_mask,
                dropout=dropout,
                scaling=scaling,
                is_causal=is_causal,
                **kwargs,
            )
            return result
        dtype, one = query.dtype, new == 1 and attention_mask is None
        groups, widen, fold = self._way(query, key, one)
        if widen:
            query = query.float()
            key, value = self._widened(key, value)
            if attention_mask is not None and attention_mask.is_floating_point():
                attention_mask = attention_mask.float()
        if fold:
            query = query.reshape(1, heads // groups, groups, width)
        seen = scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=attention_mask,
            scale=scaling,
            # Without a mask all the keys are the queries' own, or there is one query.
            is_causal=attention_mask is None and new > 1,
            enable_gqa=groups > 1 and not fold,
        )
        if widen:
            seen = seen.to(dtype)
        if new == 1:
            return seen.reshape(1, 1, heads, value.shape[3]), None
        return seen.transpose(1, 2).contiguous(), None

    def _way(self, query: torch.Tensor, key: torch.Tensor, one: bool) -> _Way:
        short = one and key.shape[2] <= _SHORT
        threads = torch.get_num_threads()
        known = (query.shape[1], key.shape[1], query.dtype, key.dtype, one, short, threads)
        way = self._ways.get(known)
        if way is None:
            way = self._ways[known] = _way_of(query, key, one, short)
        return way

    def _widened(self, key: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V in float32; large ones in one operation if they are two halves of one tensor."""
        both = _joined(key, value) if key.numel() > SMALL else None
        if both is None:
            return self._scratch.widened("key", key), self._scratch.widened("value", value)
        wide_key, wide_value = self._scratch.widened("both", both).unbind(0)
        return wide_key, wide_value


ATTENTION = PooledAttention()
"""Attention function of every model of this process, once ``install`` was called for it."""


def _capped(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    scale: float,
    cap: float,
) -> torch.Tensor:
    """Attention with scores bent to ``cap * tanh(scores / cap)`` before the mask, as Gemma 2 does.

    In float32, with the query heads of one K/V head as rows.
    """
    batch, heads, new, width = query.shape
    rows = query.float().reshape(batch, key.shape[1], -1, width)
    scores = torch.matmul(rows, key.float().transpose(2, 3)).mul_(scale / cap).tanh_().mul_(cap)
    scores = scores.view(batch, heads, new, -1)
    if mask is None and new > 1:
        mask = torch.ones(new, new, dtype=torch.bool, device=query.device).tril()
    if mask is not None:
        hidden = mask.logical_not() if mask.dtype == torch.bool else mask < 0
        scores = scores.masked_fill(hidden, -math.inf)
    shares = scores.softmax(-1).view(batch, key.shape[1], -1, key.shape[2])
    seen = torch.matmul(shares, value.float())
    return seen.view(batch, heads, new, -1).transpose(1, 2).to(query.dtype).contiguous()


def _joined(key: torch.Tensor, value: torch.Tensor) -> torch.Tensor | None:
    """K and V, (2, 1, kv_heads, len, d), as they lie in memory; None where they lie apart."""
    if (
        key.shape != value.shape
        or key.stride() != value.stride()
        or key.untyped_storage().data_ptr() != value.untyped_storage().data_ptr()
    ):
        return None
    start = key.storage_offset()
    step = value.storage_offset() - start
    if step <= 0:
        return None
    return key.as_strided((2, *key.shape), (step, *key.stride()), start)


def _way_of(query: torch.Tensor, key: torch.Tensor, one: bool, short: bool) -> _Way:
    """The best way for layers of this shape; ``one``: a single position that sees all of K.

    The CPU has no 16-bit product but that of bfloat16, which needs several rows to be worth it.
    Its kernel deals out heads to threads, and each task reads all of its K and V: folding reads
    them once, but leaves fewer tasks to deal out evenly.
    """
    heads, kv_heads = query.shape[1], key.shape[1]
    groups = heads // kv_heads
    if query.device.type != "cpu":
        return _Way(groups, key.dtype != query.dtype, one)
    threads = torch.get_num_threads()
    if short and threads > 1 and key.dtype == query.dtype:
        return _Way(groups, False, groups > 1)
    widen = key.dtype != query.dtype or query.dtype == torch.float16
    if query.dtype == torch.bfloat16 and one and groups == 1:
        widen = True
    if not one or groups == 1:
        return _Way(groups, widen, False)
    if query.dtype == torch.bfloat16 and not widen:
        return _Way(groups, widen, True)
    # What a folded task costs, measured against as many tasks of one row.
    cost = groups * (0.6 if groups >= 4 else 0.9)
    fold = math.ceil(kv_heads / threads) * cost < math.ceil(heads / threads)
    return _Way(groups, widen, fold)


@dataclass(frozen=True, slots=True, eq=False)
class RowsSeen:
    """Visible keys of a pass's rows: ``positions`` (rows, n) are those of their queries.

    ``firsts`` (rows,) are the first positions that each row's layers return, by the mask sizes
    (length, offset) of those layers.
    """

    positions: torch.Tensor
    firsts: Mapping[tuple[int, int], torch.Tensor]


_ROWS: ContextVar[RowsSeen | None] = ContextVar("rows of the pass under way", default=None)


@contextmanager
def masks_of(rows: RowsSeen) -> Iterator[None]:
    """Inside ``with``, masks are those of ``rows``."""
    token = _ROWS.set(rows)
    try:
        yield
    finally:
        _ROWS.reset(token)


def _rows_mask(
    seen: RowsSeen,
    *,
    kv_length: int,
    kv_offset: int,
    mask_function: Callable[..., torch.Tensor],
    use_vmap: bool = False,
    **kwargs: Any,
) -> torch.Tensor:
    """Mask of each query, (rows, 1, n, kv_length): the model's own rule at the row's positions.

    A rule that takes single indices only is refused with RuntimeError.
    """
    if use_vmap:
        raise RuntimeError("the model's mask is for rows that all begin at one position")
    rows, count = seen.positions.shape
    device = seen.positions.device
    row = torch.arange(rows, device=device).view(rows, 1, 1, 1)
    head = torch.zeros((1, 1, 1, 1), dtype=torch.long, device=device)
    query = seen.positions.view(rows, 1, count, 1)
    key = torch.arange(kv_offset, kv_offset + kv_length, device=device).view(1, 1, 1, kv_length)
    # Before a row's first position and behind its last there is padding, whatever the rule says.
    first = seen.firsts[kv_length, kv_offset].view(rows, 1, 1, 1)
    real = (key >= first) & (key <= query[:, :, -1:])
    return real & mask_function(row, head, query, key)


def pooled_mask(*args: Any, **kwargs: Any) -> torch.Tensor | None:
    """transformers' mask for sdpa, or None where one new position sees all that it is given.

    A sliding layer's K and V already end at its window, so that there is nothing left to hide.
    """
    rows = _ROWS.get()
    if rows is not None:
        return _rows_mask(rows, **kwargs)
    mask: torch.Tensor | None = sdpa_mask(*args, **kwargs)
    if mask is not None and mask.shape[2] == 1 and mask.device.type == "cpu" and bool(mask.all()):
        return None
    return mask


def install(model: Any) -> bool:
    """Make ``model`` attend through this module. False where its own way must stay.

    Models that do not use torch's sdpa (attention sinks, and others) keep what they have.
    """
    if model.config._attn_implementation != "sdpa":
        return bool(model.config._attn_implementation == NAME)
    if NAME not in AttentionInterface().valid_keys():
        AttentionInterface.register(NAME, ATTENTION)
        AttentionMaskInterface.register(NAME, pooled_mask)
    model.set_attn_implementation(NAME)
    return bool(model.config._attn_implementation == NAME)


def uninstall(model: Any) -> None:
    """Give ``model`` transformers' own sdpa attention back, where ``install`` replaced it."""
    if model.config._attn_implementation == NAME:
        model.set_attn_implementation("sdpa")
