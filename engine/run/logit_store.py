"""Whole logit vectors by node, kept within a memory budget."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.records.arrays import FloatArray, HalfArray
from engine.records.partial import TopLogprobs

DEFAULT_BUDGET = 512 << 20


class LogitStore:
    """The distribution after each node, oldest forgotten first once ``budget`` bytes are full.

    Vectors have shape ``(vocab_size,)`` and come out as float32. One that goes in as float16, as a
    float16 model's are, takes half the room.
    """

    def __init__(self, budget: int = DEFAULT_BUDGET) -> None:
        self._budget = budget
        self._held: OrderedDict[int, NDArray[Any] | TopLogprobs] = OrderedDict()
        self._nbytes = 0

    def put(self, node: int, logits: FloatArray | HalfArray | TopLogprobs) -> None:
        """Keep ``logits`` under ``node``; nobody may change them any more."""
        kept = logits
        self.drop(node)
        self._held[node] = kept
        self._nbytes += kept.nbytes
        while self._nbytes > self._budget and len(self._held) > 1:
            self.drop(next(iter(self._held)))

    def get(self, node: int) -> FloatArray | TopLogprobs | None:
        """The vector of ``node``, or None when it was never put or is forgotten."""
        held = self._held.get(node)
        if held is None:
            return None
        self._held.move_to_end(node)
        return held if isinstance(held, TopLogprobs) else held.astype(np.float32)

    def drop(self, node: int) -> None:
        held = self._held.pop(node, None)
        if held is not None:
            self._nbytes -= held.nbytes

    def clear(self) -> None:
        self._held.clear()
        self._nbytes = 0
