"""Passes that end after some of a model's layers, over the K and V that the run keeps of these."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from engine.backends.base import BackendError, whole
from engine.backends.hf.reader import Reader
from engine.backends.hf.results import check_finite, explained, in_main_memory
from engine.kv.cache import PooledCache
from engine.records.arrays import FloatArray


@contextmanager
def shallow(reader: Reader, layers: int) -> Iterator[Callable[[Sequence[int]], FloatArray]]:
    """Inside ``with``, read ids through the first ``layers``; see ``Shallow``. Raises BackendError.

    What these layers write is what a whole pass would write; the others write nothing, so every
    position is taken back.
    """
    parts, pool = reader.parts, reader.pool
    count = len(parts.layers)
    if pool is None or pool.layout.shared or parts.rope is not None or not count:
        raise BackendError(
            "drafting with a model's own first layers needs K and V of every layer in a pool of "
            "blocks, which this model's are not: use --draft ngram"
        )
    if not 1 <= layers < count:
        raise BackendError(f"the model has {count} layers: fewer than these, and at least 1, draft")
    branch, length = pool.current, pool.length

    def read(ids: Sequence[int]) -> FloatArray:
        reader.check(ids)
        try:
            with torch.inference_mode(), pool.reading(ids, layers) as positions:
                row = in_main_memory(_logits(reader, pool, ids, positions, layers))
        except Exception as error:
            raise explained(error, len(ids)) from error
        check_finite(row, parts.dtype)
        return whole(row.values)

    try:
        with _only_first(parts.model, count, layers):
            yield read
    finally:
        pool.forget(branch.number, length)


def _logits(
    reader: Reader, pool: PooledCache, ids: Sequence[int], positions: torch.Tensor, layers: int
) -> torch.Tensor:
    parts = reader.parts
    if len(ids) == 1 and parts.fused is not None:
        return parts.fused(parts.one.fill_(ids[0]), positions, pool, layers)
    given = torch.tensor([list(ids)], device=parts.device)
    more: dict[str, Any] = {str(reader.argument): pool}
    if parts.takes_positions:
        more["position_ids"] = positions
    output = parts.model(given, **reader.keywords, **parts.last_only, **more)
    last: torch.Tensor = output.logits[0, -1].clone()
    return last


@contextmanager
def _only_first(model: Any, count: int, layers: int) -> Iterator[None]:
    """Let ``model`` have only the first of its ``count`` layers."""
    decoder = model.get_decoder() if hasattr(model, "get_decoder") else model
    owner, name = next(
        (module, name)
        for module in decoder.modules()
        for name, child in module.named_children()
        if isinstance(child, torch.nn.ModuleList) and len(child) == count
    )
    whole = getattr(owner, name)
    setattr(owner, name, torch.nn.ModuleList(list(whole)[:layers]))
    try:
        yield
    finally:
        setattr(owner, name, whole)
