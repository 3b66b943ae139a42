"""The tensors of one layer's K and V: made once, written by index, read as a view where possible.

A tensor is laid out (1, kv_heads, positions, size), all positions of one head in a row, so that a
branch whose blocks lie in a row is a strided view that attention can read as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch

from engine.kv.layout import LayerShape
from engine.kv.scratch import SMALL, Scratch

Pair = tuple[torch.Tensor, torch.Tensor]

_MAX_PIECES = 8
"""Up to so many runs are copied one by one; more are gathered by index."""


@dataclass(slots=True, eq=False)
class Place:
    """Physical positions that one pass writes and reads in one group of layers.

    ``slots`` are the physical positions (an index tensor) of the pass's own ``count`` positions;
    ``runs`` cover all that they see, as (physical start, count), and ``offset`` is the logical
    position of the first of those. ``first`` is the physical start of the only run, None where
    there are several; ``end`` is how many positions will have been seen, ``length`` how many of
    them are read.
    """

    slots: torch.Tensor
    runs: Sequence[tuple[int, int]]
    start: int
    count: int
    offset: int
    index: torch.Tensor | None = None
    end: int = field(init=False)
    length: int = field(init=False)
    first: int | None = field(init=False)

    def __post_init__(self) -> None:
        self.end = self.start + self.count
        self.length = self.end - self.offset
        self.first = self.runs[0][0] if len(self.runs) == 1 else None

    def gather_index(self) -> torch.Tensor:
        if self.index is None:
            parts = [torch.arange(first, first + count) for first, count in self.runs]
            self.index = torch.cat(parts).to(self.slots.device)
        return self.index


class Store(Protocol):
    """One layer's part of the pool."""

    def tensors(self) -> tuple[torch.Tensor, ...]:
        """Everything that is held, for counting bytes."""

    def update(self, place: Place, keys: torch.Tensor, values: torch.Tensor) -> Pair:
        """Write new K and V, (1, kv_heads, n, size); all that ``place`` reads, in the same form.

        What is returned is good until the next layer's update.
        """

    def copy(self, source: int, target: int, count: int) -> None:
        """Copy ``count`` physical positions."""


def gathered(name: str, tensor: torch.Tensor, place: Place, scratch: Scratch) -> torch.Tensor:
    """The positions of ``place`` in ``tensor``: a view if they lie in a row, else a copy.

    ``tensor`` is (..., positions, size).
    """
    along = tensor.ndim - 2
    if place.first is not None:
        return tensor.narrow(along, place.first, place.length)
    size = tensor.numel() // tensor.shape[along] * place.length
    if len(place.runs) <= _MAX_PIECES and size <= SMALL:
        pieces = [tensor.narrow(along, first, count) for first, count in place.runs]
        return torch.cat(pieces, along)
    shape = (*tensor.shape[:along], place.length, tensor.shape[-1])
    target = scratch.take(name, shape, tensor.dtype, tensor.device)
    if len(place.runs) > _MAX_PIECES:
        return torch.index_select(tensor, along, place.gather_index(), out=target)
    at = 0
    for first, count in place.runs:
        target.narrow(along, at, count).copy_(tensor.narrow(along, first, count))
        at += count
    return target


def reserve(
    shape: LayerShape, positions: int, sizes: tuple[int, int], dtype: torch.dtype
) -> tuple[torch.Tensor, ...]:
    """Room for K and V of the given sizes: one tensor (2, 1, kv_heads, positions, size) or two.

    Not an inference tensor: those could not be written outside inference mode. Not initialised:
    pages of main memory that are never written are never really there.
    """
    joint = sizes[0] == sizes[1]
    with torch.inference_mode(False):
        return tuple(
            torch.empty(
                (1 + joint, 1, shape.kv_heads, positions, size), dtype=dtype, device=shape.device
            )
            for size in (sizes[:1] if joint else sizes)
        )


def pair(parts: Sequence[torch.Tensor]) -> Pair:
    """K and V out of one tensor for both, or out of one for each."""
    if len(parts) == 2:
        return parts[0][0], parts[1][0]
    keys, values = parts[0].unbind(0)
    return keys, values


def copy_positions(parts: Sequence[torch.Tensor], source: int, target: int, count: int) -> None:
    """Copy ``count`` positions in each tensor (..., positions, size) to another place in it."""
    for part in parts:
        part.narrow(-2, target, count).copy_(part.narrow(-2, source, count))


class PlainStore:
    """K and V in the dtype that the model computes them in."""

    def __init__(self, shape: LayerShape, positions: int, scratch: Scratch) -> None:
        # In one tensor where they can be, so that whoever converts them does both at once.
        self._parts = reserve(shape, positions, (shape.key_dim, shape.value_dim), shape.dtype)
        self._keys, self._values = pair(self._parts)
        self._scratch = scratch

    def tensors(self) -> tuple[torch.Tensor, ...]:
        return self._parts

    @property
    def joint(self) -> torch.Tensor | None:
        """K and V in one tensor (2, 1, kv_heads, positions, size); None where they lie apart."""
        return self._parts[0] if len(self._parts) == 1 else None

    def update(self, place: Place, keys: torch.Tensor, values: torch.Tensor) -> Pair:
        self._keys.index_copy_(2, place.slots, keys)
        self._values.index_copy_(2, place.slots, values)
        parts = self._parts
        if place.first is not None and len(parts) == 1:
            keys, values = parts[0].narrow(3, place.first, place.length).unbind(0)
            return keys, values
        return pair(
            [
                gathered(f"part {number}", part, place, self._scratch)
                for number, part in enumerate(parts)
            ]
        )

    def copy(self, source: int, target: int, count: int) -> None:
        copy_positions(self._parts, source, target, count)
