"""Results of a pass: logits in main memory, or an error in one line."""

from __future__ import annotations

import numpy as np
import torch

from engine.backends.base import BackendError, RowLogits, whole
from engine.kv.branch import OutOfBlocks
from engine.models.checks import first_line


def in_main_memory(logits: torch.Tensor) -> RowLogits:
    """``logits`` in float32, and in float16 too where they are that."""
    logits = logits.cpu()
    half = logits.numpy() if logits.dtype == torch.float16 else None
    return RowLogits(logits.float().numpy(), half)


def check_finite(row: RowLogits, dtype: str) -> None:
    """Raises BackendError where a position's logits, computed in ``dtype``, are not finite."""
    # The largest is NaN if any is, and infinite if one is; minus infinity is a fair logit.
    if not np.isfinite(whole(row.values).max(axis=-1)).all():
        hint = "" if dtype == "float32" else ": try --dtype float32"
        raise BackendError(f"the model's logits are not finite in {dtype}{hint}")


def explained(error: Exception, count: int) -> BackendError:
    """The error of a pass of ``count`` positions, in one line."""
    if isinstance(error, BackendError):
        return error
    if isinstance(error, OutOfBlocks):
        return BackendError(str(error))
    text = str(error)
    memory = isinstance(error, MemoryError | torch.OutOfMemoryError)
    if memory or "out of memory" in text or "can't allocate memory" in text:
        return BackendError(
            f"out of memory in a pass of {count:,} positions: shorten the prompt, or use a "
            "smaller model or --dtype"
        )
    return BackendError(f"the forward pass failed: {first_line(error)} ({type(error).__name__})")
