"""8-bit K and V: one signed byte a number and one float16 scale per position and head.

The scale is the largest magnitude of a head's K (or V) at a position over 127, so that one
outlier costs precision at its own position and head only. Numbers are brought back when read.
"""

from __future__ import annotations

import math

import torch

from engine.kv.layout import LayerShape
from engine.kv.scratch import Scratch
from engine.kv.store import Pair, Place, copy_positions, gathered, pair, reserve

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
        self._codes = reserve(shape, positions, (shape.key_dim, shape.value_dim), torch.int8)
        (self._scales,) = reserve(shape, positions, (1, 1), torch.float16)
        self._scratch = scratch
        self._dtype = dtype

    def tensors(self) -> tuple[torch.Tensor, ...]:
        return (*self._codes, self._scales)

    def update(self, place: Place, keys: torch.Tensor, values: torch.Tensor) -> Pair:
        if len(self._codes) == 1:
            given = [torch.stack((keys, values))]
        else:
            given = [keys.unsqueeze(0), values.unsqueeze(0)]
        for number, (codes, states) in enumerate(zip(self._codes, given, strict=True)):
            steps, scale = quantize(states)
            codes.index_copy_(3, place.slots, steps)
            self._own(self._scales, number).index_copy_(3, place.slots, scale)
        return self._read(place)

    def _read(self, place: Place) -> Pair:
        scales = gathered("scales", self._scales, place, self._scratch)
        parts = []
        for number, kept in enumerate(self._codes):
            codes = gathered(f"codes {number}", kept, place, self._scratch)
            wide = self._scratch.take(
                f"part {number}", tuple(codes.shape), self._dtype, codes.device
            )
            parts.append(wide.copy_(codes).mul_(self._own(scales, number)))
        return pair(parts)

    def copy(self, source: int, target: int, count: int) -> None:
        copy_positions(self.tensors(), source, target, count)

    def _own(self, scales: torch.Tensor, number: int) -> torch.Tensor:
        """The scales of one of the tensors in which K and V are kept."""
        return scales if len(self._codes) == 1 else scales.narrow(0, number, 1)
