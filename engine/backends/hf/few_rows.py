"""Products of a weight with a few rows on a CPU, block by block through its second-level cache.

For one row a CPU reads a weight once, and that is what it costs. For a few rows the libraries turn
to another way, which costs two to three times as much: float32 weights are packed as a whole, and
16 bits without an instruction for them are multiplied in a plain loop. Of a block that stays in the
cache, packing and widening cost little: with 5 or 9 rows a product then takes less than twice one
row's time, in each dtype (a Xeon with AVX-512, MKL). Sums are float32, and rounded once.
"""

from __future__ import annotations

import torch
from torch.nn.functional import linear

_NUMBERS = 150_000
"""Numbers of a block, for each thread: 600 kB of float32, a part of what the cache holds."""
_FROM = {torch.float16: 3, torch.bfloat16: 5, torch.float32: 4}
"""Rows from which on blocks are faster than the library's own way."""
_MOST, _LARGE = 12, 1_500_000
"""In float32 packing pays from more rows on, and costs nothing much for smaller weights."""


class Blocks:
    """Multiplies by blocks where that is faster; ``widen``: 16 bits have no fast product here."""

    def __init__(self, *, widen: bool) -> None:
        self._widen = widen
        self._wide = torch.empty(0)

    def suit(self, x: torch.Tensor, weight: torch.Tensor) -> bool:
        """True if the product of ``x`` (rows, size) and ``weight`` (out, size) is to go so."""
        rows, least = len(x), _FROM.get(weight.dtype)
        if rows == 1 or least is None or rows < least or weight.device.type != "cpu":
            return False
        if weight.dtype == torch.float32:
            return rows <= _MOST and weight.numel() >= _LARGE
        return self._widen

    def product(
        self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        """``linear`` in float32, (rows, out)."""
        out, size = weight.shape
        step = max(1, _NUMBERS * torch.get_num_threads() // size)
        x = x.float()
        parts = [linear(x, self._float(weight[at : at + step])) for at in range(0, out, step)]
        found = parts[0] if len(parts) == 1 else torch.cat(parts, 1)
        return found if bias is None else found + bias

    def _float(self, block: torch.Tensor) -> torch.Tensor:
        if block.dtype == torch.float32:
            return block
        if self._wide.numel() < block.numel():
            self._wide = torch.empty(block.numel())
        return self._wide[: block.numel()].view(block.shape).copy_(block)
