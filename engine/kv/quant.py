"""8-bit K and V: one signed byte a number and one float16 scale per position and head.

The scale is the largest magnitude of a head's K (or V) at a position over 127, so that one
outlier costs precision at its own position and head only. Numbers are brought back when read.
"""

from __future__ import annotations

import math

import torch

from engine.kv.layout import LayerShape
from engine.kv.scratch import Scratch
from engine.kv.store import Pair, Place, copy_positions, gathered

_LEVELS = 127
_SMALLEST, _LARGEST = 2.0**-24, 65504.0
"""The smallest positive float16 and the largest one."""


def quantize(states: torch.Tensor) -> Pair:
    """``states`` (..., size) as int8 and the float16 scale (..., 1) that brings them back."""
    largest = torch.linalg.vector_norm(
        states, ord=math.inf, dim=-1, keepdim=True, dtype=torch.float32
    )
    # No larger than the largest float16, and not zero, which could not be divided by.
    scale = largest.div_(_LEVELS).clamp_(_SMALLEST, _LARGEST).half()
    # By the scale as it is kept, not as it was computed.
    return torch.div(states.float(), scale).round_().to(torch.int8), scale


class Int8Store:
    """K and V in 8 bits; reads give ``dtype``, which the attention in use must accept."""

    def __init__(
        self, shape: LayerShape, positions: int, scratch: Scratch, dtype: torch.dtype
    ) -> None:
        with torch.inference_mode(False):
            self._codes: Pair
            self._scales: Pair
            self._codes, self._scales = (
                tuple(
                    torch.empty(
                        (1, shape.kv_heads, positions, size), dtype=kept, device=shape.device
                    )
                    for size in sizes
                )
                for kept, sizes in (
                    (torch.int8, (shape.key_dim, shape.value_dim)),
                    (torch.float16, (1, 1)),
                )
            )
        self._scratch = scratch
        self._dtype = dtype

    def tensors(self) -> tuple[torch.Tensor, ...]:
        return (*self._codes, *self._scales)

    def write(self, slots: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
        for states, codes, scales in zip((keys, values), self._codes, self._scales, strict=True):
            steps, scale = quantize(states)
            codes.index_copy_(2, slots, steps)
            scales.index_copy_(2, slots, scale)

    def read(self, place: Place) -> Pair:
        return self._read("keys", 0, place), self._read("values", 1, place)

    def _read(self, name: str, which: int, place: Place) -> torch.Tensor:
        codes = gathered(f"{name} codes", self._codes[which], place, self._scratch)
        scale = gathered(f"{name} scales", self._scales[which], place, self._scratch)
        shape = tuple(codes.shape)
        wide = self._scratch.take(name, shape, self._dtype, codes.device)
        return wide.copy_(codes).mul_(scale)

    def copy(self, source: int, target: int, count: int) -> None:
        for tensor in self.tensors():
            copy_positions(tensor, source, target, count)
