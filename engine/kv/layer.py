"""One layer of the pool, with the methods that transformers' models and masks call."""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import CacheLayerMixin

from engine.kv.store import Pair, Place, Store


class PooledLayer(CacheLayerMixin):
    """One layer's share of the pool, with the methods that models and masks call."""

    is_compileable = False
    is_croppable = False

    def __init__(self, store: Store, window: int | None) -> None:
        super().__init__()
        self.store = store
        self.is_sliding = window is not None
        self.sliding_window = window
        self.is_initialized = True
        self.place: Place | None = None
        self.seen = 0

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> Pair:
        """Write the pass's K and V and return all that it may see, (1, kv_heads, n, size)."""
        place = self.place
        if place is None:
            raise RuntimeError("the pool can be read and written inside `reading` only")
        self.seen = place.end
        return self.store.update(place, key_states, value_states)

    def get_seq_length(self) -> int:
        return self.seen

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """(positions that ``update`` will return, logical position of the first)."""
        offset = 0 if self.place is None else self.place.offset
        return self.seen + query_length - offset, offset

    def get_max_length(self) -> int:
        """Positions that the layer can see; -1 for all."""
        return self.sliding_window or -1

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Nothing to do: the pool was made before the first pass."""

    def offload(self) -> None:
        """The pool never moves."""

    prefetch = offload


class KeylessLayer(PooledLayer):
    """A layer that reads what another one has written."""

    def __init__(self) -> None:
        CacheLayerMixin.__init__(self)
        self.is_sliding = False
        self.sliding_window = None
        self.is_initialized = True
        self.place = None
        self.seen = 0

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> Pair:
        raise NotImplementedError("this layer keeps no K and V of its own")
