"""The tensors of one layer's K and V: made once, written by index, read as a view where possible.

A tensor is laid out (1, kv_heads, positions, size), all positions of one head in a row, so that a
branch whose blocks lie in a row is a strided view that attention can read as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from engine.kv.layout import LayerShape
from engine.kv.scratch import Scratch

Pair = tuple[torch.Tensor, torch.Tensor]

_MAX_PIECES = 8
"""Up to so many runs are copied one by one; more are gathered by index."""


@dataclass(slots=True, eq=False)
class Place:
    """Where one pass writes and reads in one group of layers.

    ``slots`` are the physical positions (an index tensor) of the pass's own ``count`` positions;
    ``runs`` cover all that they see, as (physical start, count), and ``offset`` is the logical
    position of the first of those.
    """

    slots: torch.Tensor
    runs: Sequence[tuple[int, int]]
    start: int
    count: int
    offset: int
    index: torch.Tensor | None = None

    @property
    def length(self) -> int:
        """How many positions are read."""
        return self.start + self.count - self.offset

    def gather_index(self) -> torch.Tensor:
        """The physical positions read, as an index tensor."""
        if self.index is None:
            parts = [torch.arange(first, first + count) for first, count in self.runs]
            self.index = torch.cat(parts).to(self.slots.device)
        return self.index


class Store(Protocol):
    """One layer's part of the pool."""

    def tensors(self) -> tuple[torch.Tensor, ...]:
        """Everything that is held, for counting bytes."""
        ...

    def write(self, slots: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Put new K and V, (1, kv_heads, n, size), at the physical positions ``slots``."""
        ...

    def read(self, place: Place) -> Pair:
        """K and V of all positions of ``place``; good until the next layer reads."""
        ...

    def copy(self, source: int, target: int, count: int) -> None:
        """Copy ``count`` physical positions."""
        ...


def copy_positions(tensor: torch.Tensor, source: int, target: int, count: int) -> None:
    """Copy ``count`` positions of ``tensor`` (1, heads, positions, ...) to another place in it."""
    tensor.narrow(2, target, count).copy_(tensor.narrow(2, source, count))


def gathered(name: str, tensor: torch.Tensor, place: Place, scratch: Scratch) -> torch.Tensor:
    """The positions of ``place`` in ``tensor``: a view if they lie in a row, else a copy."""
    if len(place.runs) == 1:
        first, count = place.runs[0]
        return tensor.narrow(2, first, count)
    shape = (*tensor.shape[:2], place.length, *tensor.shape[3:])
    target = scratch.take(name, shape, tensor.dtype, tensor.device)
    if len(place.runs) > _MAX_PIECES:
        return torch.index_select(tensor, 2, place.gather_index(), out=target)
    at = 0
    for first, count in place.runs:
        target.narrow(2, at, count).copy_(tensor.narrow(2, first, count))
        at += count
    return target


class PlainStore:
    """K and V in the dtype that the model computes them in."""

    def __init__(self, shape: LayerShape, positions: int, scratch: Scratch) -> None:
        # Not an inference tensor: those could not be written outside inference mode. Not
        # initialised: pages of main memory that are never written are never really there.
        with torch.inference_mode(False):
            self._keys, self._values = (
                torch.empty(
                    (1, shape.kv_heads, positions, size), dtype=shape.dtype, device=shape.device
                )
                for size in (shape.key_dim, shape.value_dim)
            )
        self._scratch = scratch

    def tensors(self) -> tuple[torch.Tensor, ...]:
        return self._keys, self._values

    def write(self, slots: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
        self._keys.index_copy_(2, slots, keys)
        self._values.index_copy_(2, slots, values)

    def read(self, place: Place) -> Pair:
        return (
            gathered("keys", self._keys, place, self._scratch),
            gathered("values", self._values, place, self._scratch),
        )

    def copy(self, source: int, target: int, count: int) -> None:
        for tensor in self.tensors():
            copy_positions(tensor, source, target, count)
