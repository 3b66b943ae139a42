"""One pass over several branches of the pool, each at a position of its own.

A row's K and V are written where its branch lies, and gathered from there behind those of the other
rows, padded on the right. A key's place in the padded tensor tells its position; which of them a
query sees is worked out from the query's own position (``engine.kv.attention.RowsSeen``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from transformers import Cache
from transformers.cache_utils import CacheLayerMixin

from engine.kv.attention import RowsSeen, masks_of
from engine.kv.branch import Branch
from engine.kv.cache import PooledCache
from engine.kv.layer import PooledLayer
from engine.kv.store import Pair, Place
from engine.records.cache import KVRead


class RowsLayer(CacheLayerMixin):
    """One layer for one pass over several rows, with the methods that models and masks call."""

    is_compileable = False
    is_croppable = False

    def __init__(self, layer: PooledLayer, places: Sequence[Place], group: int) -> None:
        super().__init__()
        self.is_initialized = True
        self.is_sliding = layer.is_sliding
        self.sliding_window = layer.sliding_window
        self.written = False
        self._store = layer.store
        self._places = places
        self._offset = min(place.offset for place in places)
        # A mask is made for a size and not for a layer: every group has one of its own.
        self._length = max(place.end for place in places) - self._offset + group

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> Pair:
        """Write each row's new K and V; all that the rows may see, (rows, kv_heads, n, size)."""
        found: list[torch.Tensor] = []
        for row, place in enumerate(self._places):
            new = (states[row : row + 1, :, : place.count] for states in (key_states, value_states))
            at = place.offset - self._offset
            for number, part in enumerate(self._store.update(place, *new)):
                if row == 0:
                    shape = (len(self._places), part.shape[1], self._length, part.shape[3])
                    found.append(part.new_zeros(shape))
                found[number][row, :, at : at + place.length] = part[0]
        self.written = True
        keys, values = found
        return keys, values

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self._length, self._offset

    def get_seq_length(self) -> int:
        """Positions seen by the row that has seen most."""
        return max(place.start for place in self._places)

    def get_max_length(self) -> int:
        return self.sliding_window or -1

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Nothing to do: the pool was made before the first pass."""


class RowsCache(Cache):
    """All layers for one pass.

    ``positions`` (rows, n) are those of the ids, the last one repeated where a row has fewer ids
    than the longest.
    """

    def __init__(self, layers: list[RowsLayer], positions: torch.Tensor, read: KVRead) -> None:
        super().__init__(layers=layers)
        self.positions = positions
        self.read = read


@contextmanager
def reading_rows(
    pool: PooledCache, rows: Sequence[tuple[Branch, Sequence[int]]]
) -> Iterator[RowsCache]:
    """One pass of the model over each row's ids behind its branch.

    If the pass fails every branch is as it was before. The branches must be held. Raises
    OutOfBlocks when there is no room, RuntimeError when a layer wrote nothing.
    """
    with reserved(pool, rows) as places:
        layers, firsts = [], {}
        for index, layer in enumerate(pool.layers):
            group = pool.group_of(index)
            made = RowsLayer(layer, [own[group] for own in places], group)
            first = [own[group].offset for own in places]
            firsts[made.get_mask_sizes(0)] = torch.tensor(first, device=places[0][0].slots.device)
            layers.append(made)
        positions = _positions([own[0] for own in places])
        with masks_of(RowsSeen(positions, firsts)):
            yield RowsCache(layers, positions, kv_read(pool, places, [0] * len(places[0])))
        for index, layer in enumerate(layers):
            if not layer.written:
                raise RuntimeError(f"layer {index} of the model did not use the cache")


@contextmanager
def reserved(
    pool: PooledCache, rows: Sequence[tuple[Branch, Sequence[int]]]
) -> Iterator[list[tuple[Place, ...]]]:
    """Places of a pass over each row's ids behind its branch, by row and group.

    Behind it the branches hold their ids; if it fails they are as before.
    """
    begun: list[tuple[Branch, tuple[Place, ...]]] = []
    try:
        for branch, ids in rows:
            begun.append((branch, pool.reserve(branch, len(ids))))
        yield [own for _, own in begun]
    except BaseException:
        for branch, _ in begun:
            pool.pool.abandon(branch)
        raise
    for branch, ids in rows:
        pool.pool.commit(branch, ids)


def kv_read(pool: PooledCache, places: Sequence[Sequence[Place]], shared: Sequence[int]) -> KVRead:
    """K and V that a pass over ``places``, by row and group, reads.

    ``shared`` positions of each group are read once for all rows, the others row by row.
    """
    nbytes = once = 0
    for group, count in enumerate(shared):
        each = pool.position_bytes(group)
        once += each * count
        nbytes += each * (count + sum(row[group].length - count for row in places))
    return KVRead(nbytes, once)


def _positions(places: Sequence[Place]) -> torch.Tensor:
    device = places[0].slots.device
    counted = torch.arange(max(place.count for place in places), device=device)
    return torch.stack([(place.start + counted).clamp(max=place.end - 1) for place in places])
