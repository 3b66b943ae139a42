"""One pass over a whole text in other company, or with the weights in another dtype.

No cache and no pool: the model's own attention, whatever that is. The run's figures are held
against what comes out here (``engine.measure.drift``).
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from engine.backends.base import BackendError
from engine.backends.hf import dtype as hf_dtype
from engine.backends.hf.upcast import ROWS, Upcast
from engine.models import resolve as models
from engine.models.weights import available_memory
from engine.records.arrays import FloatArray

_ROOM = 1.1
"""Free memory that a copy of the weights must leave untouched, as a factor on it."""


def read(
    model: Any,
    ids: Sequence[int],
    *,
    rows: int,
    dtype: str | None,
    wide: Upcast | None,
    positions: bool,
    more: dict[str, Any],
) -> FloatArray:
    """float32 logits after ``ids``, in main memory; ``more`` are keywords for the model.

    ``rows``: texts in the pass, the others shorter beginnings of this one. ``dtype``: the weights
    are copied in that one for the pass, None leaves them. ``wide`` multiplies a long pass;
    ``positions`` are given where the model takes them. Raises
    BackendError where the model takes no padding, there is no room for a copy, or the logits are
    not finite.
    """
    long = rows * len(ids) >= ROWS
    with torch.inference_mode(), wide if wide and long else contextlib.nullcontext():
        tokens, given = _batch(model, ids, rows, positions)
        given |= more
        if dtype is None:
            output = model(tokens, **given)
        else:
            output = torch.func.functional_call(model, _copies(model, dtype), (tokens,), given)
        last: FloatArray = output.logits[:, -1].float().cpu().numpy()
    # The shorter rows too: what breaks beside padding breaks there.
    broken = np.flatnonzero(~np.isfinite(last.max(axis=1)))
    if broken.size:
        where = "" if 0 in broken else f" beside {len(ids) - lengths(len(ids), rows)[broken[0]]}"
        where = f"{where} positions of padding" if where else ""
        name = dtype or models.loaded_dtype(model)
        raise BackendError(f"its logits are not finite in {name}{where}")
    return last[0]


def lengths(count: int, rows: int) -> list[int]:
    """Positions of each row of a batch: all ``count``, then evenly fewer, at least one."""
    return [max(1, count * (rows - row) // rows) for row in range(rows)]


def _batch(
    model: Any, ids: Sequence[int], rows: int, positions: bool
) -> tuple[Any, dict[str, Any]]:
    """Token ids (rows, n), padded on the left, and what the model must be told about them."""
    device = model.get_input_embeddings().weight.device
    tokens = torch.zeros((rows, len(ids)), dtype=torch.long)
    mask = torch.zeros_like(tokens)
    for row, count in enumerate(lengths(len(ids), rows)):
        tokens[row, len(ids) - count :] = torch.tensor(ids[:count])
        mask[row, len(ids) - count :] = 1
    # Each text begins at position 0, wherever its padding ends.
    places = (mask.cumsum(-1) - 1).clamp(min=0).to(device)
    given = {"position_ids": places} if positions else {}
    if rows == 1:
        return tokens.to(device), given
    known = inspect.signature(model.forward).parameters
    if "attention_mask" not in known:
        raise BackendError("the model takes no padding: texts cannot be read side by side")
    return tokens.to(device), {"attention_mask": mask.to(device), **given}


def _copies(model: Any, dtype: str) -> dict[str, Any]:
    """The weights in ``dtype``, by name."""
    config = getattr(model, "config", None)
    if getattr(config, "quantization_config", None):
        raise BackendError("a quantised model is not converted")
    wanted = getattr(torch, dtype)
    needed = sum(p.numel() for p in model.parameters() if p.is_floating_point()) * wanted.itemsize
    free = _free(model.get_input_embeddings().weight.device)
    if free is not None and needed * _ROOM > free:
        raise BackendError(
            f"a copy of the weights needs {needed / 2**20:,.0f} MiB, {free / 2**20:,.0f} are free"
        )
    return dict(hf_dtype.converted(model, wanted))


def _free(device: Any) -> int | None:
    """Bytes that a copy of the weights could take; None where nothing tells."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return available_memory()
