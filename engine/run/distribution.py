"""Distributions after nodes of a run, and what it cost to get them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.backends.base import whole
from engine.records.arrays import FloatArray
from engine.records.cache import KVState
from engine.records.engine import EngineTimes
from engine.records.partial import TopLogprobs


@dataclass(frozen=True, eq=False)
class Distribution:
    """The distribution after a node, and what it cost to get."""

    logits: FloatArray | TopLogprobs
    forward_ms: float
    kv: KVState
    warmup: bool = False
    reused: bool = False
    reread: bool = False
    engine: EngineTimes | None = None
    shifted_ms: float = 0.0
    """See ``ForwardPass.shifted_ms``."""
    wider: Callable[[int], Distribution] | None = None
    """The same with that many candidates; None where the backend knows all, or can tell no more."""

    def dense(self) -> FloatArray:
        """Those of the whole vocabulary: logits, or log-probabilities where no logits are known.

        Raises BackendError where they cannot be had.
        """
        known = self.logits
        if isinstance(known, TopLogprobs) and self.wider is not None:
            return self.wider(known.vocab_size).dense()
        if isinstance(known, TopLogprobs) and known.ids.size == known.vocab_size:
            return known.scattered()
        return whole(known)


@dataclass(frozen=True, eq=False)
class Ahead:
    """The distributions after a node and after each token drafted behind it, from one pass.

    ``logits`` has shape (drafts + 1, vocab_size). ``written`` positions were read, behind
    ``cached`` that were there.
    """

    logits: Sequence[FloatArray]
    forward_ms: float
    written: int
    cached: int
    warmup: bool
    reread: bool
    copied: int
    evicted: int
