"""Putting a model's K and V into a pool of blocks, where its layers allow that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.backends.base import BackendError, TokenSequence
from engine.backends.hf import facts as hf_facts
from engine.kv import attention
from engine.kv.branch import Branch
from engine.kv.budget import default_budget
from engine.kv.cache import PooledCache, PoolMemoryError
from engine.kv.layout import Unpooled, layout_of
from engine.models.weights import available_memory
from engine.records.cache import BLOCK_SIZE
from engine.records.model import KVStorage


@dataclass(frozen=True, slots=True)
class KVOptions:
    """Options for keeping K and V: cached or not, block size, budget, dtype.

    Without ``cached`` every pass reads the whole text again; without ``pooled`` transformers' own
    cache is used. ``budget`` is bytes, None for a share of the free memory; with ``positions``
    the pool is as large as those need. ``window_keep``: how far outside a sliding window positions
    are kept, to be gone back to.
    """

    cached: bool = True
    pooled: bool = True
    block_size: int = BLOCK_SIZE
    budget: int | None = None
    eight_bits: bool = False
    window_keep: int | None = 4096
    positions: int | None = None


@dataclass(frozen=True, slots=True)
class Opened:
    """The pool, or None and why there is none."""

    pool: PooledCache | None
    note: str = ""


def open_pool(model: Any, filled: Any, identity: str, options: KVOptions) -> Opened:
    """A pool for ``model``, whose own cache ``filled`` a pass has filled; attention is put in too.

    Raises BackendError when the pool asked for does not fit.
    """
    if not (options.cached and options.pooled):
        return Opened(None)
    config = hf_facts.decoder_config(model)
    try:
        layout = layout_of(filled, hidden_layers=getattr(config, "num_hidden_layers", None))
    except Unpooled as reason:
        wish = "; K and V are not kept in 8 bits" if options.eight_bits else ""
        return Opened(None, f"no pool of KV blocks: {reason}{wish}")
    context = hf_facts.context_length(config)
    position = sum(
        layout.position_bytes(window, quantized=options.eight_bits) for window in layout.windows
    )
    budget = options.budget or default_budget(position, context, available_memory())
    if options.positions is not None:
        # The last block may be begun only, and one be copied.
        budget = position * (options.positions + 2 * options.block_size)
    wide = attention.install(model)
    try:
        pool = PooledCache(
            layout,
            budget=budget,
            identity=identity,
            block_size=options.block_size,
            quantized=options.eight_bits,
            wide=wide,
            window_keep=options.window_keep,
            context=context,
        )
    except (PoolMemoryError, ValueError) as error:
        raise BackendError(str(error)) from error
    return Opened(pool)


def storage_of(pool: PooledCache | None, *, cached: bool) -> KVStorage:
    """The record of how K and V are kept."""
    if pool is None:
        return KVStorage(cached=cached)
    names = sorted({str(one.dtype).removeprefix("torch.") for one in pool.layout.layers if one})
    return KVStorage(
        dtype="int8" if pool.quantized else " + ".join(names),
        block_size=pool.pool.block_size,
        blocks=tuple(group.count for group in pool.pool.groups),
        pool_bytes=pool.nbytes,
    )


def branch_of(pool: PooledCache, sequence: TokenSequence) -> Branch:
    """The pool's branch that ``sequence`` is. Raises BackendError where it is none, or gone."""
    if not isinstance(sequence, Branch) or pool.pool.branches.get(sequence.number) is not sequence:
        raise BackendError("that sequence is no longer held: seek to its text again")
    return sequence
