"""What a backend is: something that reads token ids and yields next-token logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from engine.records import FloatArray, KVState, LayerTime, ModelFacts, Origin, Token, Vocabulary


class BackendError(RuntimeError):
    """The backend cannot do what was asked; one line says why and what to do."""


@dataclass(frozen=True, eq=False)
class Encoded:
    """A prompt as token ids, each with who put it there, and what is worth saying about it."""

    ids: tuple[int, ...]
    origins: tuple[Origin, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class ForwardPass:
    """One forward pass: float32 logits of the last position, shape ``(vocab_size,)``, and its cost.

    ``ms`` runs from before the ids go in until the logits lie in main memory. ``layers`` is filled
    only when the pass was profiled; ``layers_note`` says why it could not be.
    """

    logits: FloatArray
    ms: float
    warmup: bool
    layers: tuple[LayerTime, ...] = ()
    layers_note: str = ""


class Backend(Protocol):
    """One model with one KV cache, read from the front and cut from the back.

    ``prefill`` and ``decode`` append positions; ``rollback`` takes the last ones away again. The
    contract suite in ``tests/test_backend_contract.py`` runs on every backend.
    """

    @property
    def facts(self) -> ModelFacts: ...

    def tokenize(self, text: str, *, chat: bool, system: str | None) -> Encoded:
        """Ids of ``text``; with ``chat``, of the model's own template around it."""
        ...

    def token(self, token_id: int) -> Token:
        """The token of any id below ``facts.vocab_size``."""
        ...

    def vocabulary(self) -> Vocabulary:
        """Every token; may take a moment."""
        ...

    def prefill(self, ids: Sequence[int], *, profile: bool = True) -> ForwardPass:
        """Read ``ids`` (at least one) after what the cache holds."""
        ...

    def decode(self, token_id: int) -> ForwardPass:
        """Read one id after what the cache holds."""
        ...

    def rollback(self, count: int) -> None:
        """Forget the last ``count`` positions; 0 does nothing. BackendError if it cannot."""
        ...

    @property
    def length(self) -> int:
        """Positions read and not rolled back."""
        ...

    def kv(self) -> tuple[int, int | None]:
        """(positions stored, bytes held), of the real tensors; None where there are none."""
        ...

    def close(self) -> None:
        """Free what the backend holds."""
        ...


def kv_state(backend: Backend, *, computed: int, cached: int) -> KVState:
    """The record of a backend's cache after a pass that computed ``computed`` positions."""
    stored, nbytes = backend.kv()
    return KVState(
        seen=backend.length, stored=stored, nbytes=nbytes, computed=computed, cached=cached
    )
