"""Many positions at once on a CPU without a fast 16-bit matrix product: multiply in float32.

Such a CPU can multiply a 16-bit matrix by one vector faster than a float32 one, because fewer
bytes move, but a product of many rows falls back to a plain loop: reading a prompt in float16 is
then several times slower than in float32. Widening each weight as it is used costs one pass over
it and gets the fast product back. Sums are float32 either way and each result is rounded once.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from engine.backends.hf import dtype as hf_dtype

ROWS = 64
"""Positions in one pass from which on widening is used.

It pays from about a dozen on. Shorter prompts are left to the plain product, whose results are
those of ``generate`` to the bit; they are read fast enough.
"""
_WORTH = 1.5
_SAMPLE = 1_000_000
"""Numbers of the matrix that the trial multiplies with."""


class Upcast(TorchFunctionMode):
    """Inside ``with``, linear layers with 16-bit weights and many rows multiply in float32."""

    def __init__(self, rows: int = ROWS) -> None:
        super().__init__()
        self._rows = rows
        self._scratch = torch.empty(0)

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if not kwargs and func in (torch.nn.functional.linear, torch.addmm):
            # addmm(bias, rows, weight) is what GPT-2's layers are made of.
            linear = func is torch.nn.functional.linear
            given, weight = args[:2] if linear else args[1:3]
            rows = given.numel() // max(given.shape[-1], 1)
            if rows >= self._rows and weight.dtype in (torch.float16, torch.bfloat16):
                wide = [None if arg is None else arg.float() for arg in args if arg is not weight]
                wide.insert(1 if linear else 2, self._widen(weight))
                return func(*wide).to(given.dtype)
        return func(*args, **(kwargs or {}))

    def _widen(self, weight: Any) -> Any:
        # One buffer for all: fresh memory for each weight would cost more than the copying.
        if self._scratch.numel() < weight.numel():
            self._scratch = torch.empty(weight.numel())
        return self._scratch[: weight.numel()].view(weight.shape).copy_(weight)


def upcast_of(model: Any, dtype: str | None = None) -> Upcast | None:
    """A ``Upcast`` where multiplying in float32 is faster here; judged by one matrix.

    ``dtype``: as if the weights were in that one.
    """
    weights = hf_dtype.matrices(model)
    largest = max(weights[:-1] or weights, key=lambda one: one.numel(), default=None)
    if largest is None:
        return None
    if dtype is not None:
        largest = largest[: max(1, _SAMPLE // largest.shape[1])].to(getattr(torch, dtype))
    return Upcast() if is_worth_it(largest) else None


def is_worth_it(weight: Any) -> bool:
    """True if ``Upcast`` is clearly faster here than the plain product with ``weight``.

    ``weight`` is a linear layer's, shape ``(out, in)``. Takes some milliseconds. Measured on one
    thread, which other work on the machine disturbs least: the answer decides on the last bits of
    the logits, and should be the same on every run.
    """
    if weight.device.type != "cpu" or weight.dtype not in (torch.float16, torch.bfloat16):
        return False
    weight = weight[: max(1, _SAMPLE // weight.shape[1])]
    rows = torch.full((ROWS, weight.shape[1]), 0.01, dtype=weight.dtype)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.inference_mode():
            plain = _best(lambda: torch.nn.functional.linear(rows, weight))
            with Upcast():
                widened = _best(lambda: torch.nn.functional.linear(rows, weight))
    finally:
        torch.set_num_threads(threads)
    return plain > _WORTH * widened


def _best(work: Callable[[], Any]) -> float:
    """Seconds of the fastest of some runs; the first of them also warms up."""
    best = math.inf
    for _ in range(5):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best
