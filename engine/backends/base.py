"""What a backend is: something that reads token ids and yields next-token logits."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Protocol

from engine.kv.prefix import common_ids, explain
from engine.records.arrays import FloatArray, HalfArray
from engine.records.cache import KVState, PoolState, PrefixReport
from engine.records.model import ModelFacts
from engine.records.prompt import LayerTime, Origin
from engine.records.vocabulary import Token, Vocabulary


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
    only when the pass was profiled; ``layers_note`` says why it could not be. ``copied_blocks``
    were copied because a branch wrote into a block that it shared, ``evicted_blocks`` thrown out
    to make room.
    """

    logits: FloatArray
    ms: float
    warmup: bool
    layers: tuple[LayerTime, ...] = ()
    layers_note: str = ""
    half: HalfArray | None = None
    """The same logits in float16, where that is what the model computes them in."""
    copied_blocks: int = 0
    evicted_blocks: int = 0


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

    def seek(self, ids: Sequence[int]) -> int:
        """Go to where ``ids``, short of the last one, were read; how many of them that is.

        ``length`` is that number afterwards. Computes nothing. What was read before may be kept
        for a later ``seek``, or not. The last id is left because its logits want a pass.
        """
        ...

    def start(self, ids: Sequence[int]) -> PrefixReport:
        """As ``seek``, for a new prompt; says how much of it is there, by what rule, and why."""
        ...

    def pool_state(self) -> PoolState | None:
        """The pool of K/V blocks as a record; None where there is none."""
        ...

    @property
    def branch(self) -> int | None:
        """The number of the pool's branch that the next pass goes on with; None without a pool."""
        ...

    @property
    def block_size(self) -> int:
        """Positions of a block of the pool; without one, of the blocks they are counted off in."""
        ...

    def forget(self, branch: int, keep: int) -> None:
        """A branch of the pool is needed for its first ``keep`` positions at most."""
        ...

    def aside(self, *, cached: bool, positions: int = 0) -> AbstractContextManager[None]:
        """Inside ``with``, read another text; behind it all is as it was, down to what is warm.

        ``cached``: with a cache of its own for ``positions``; else every pass reads all again, as
        the model would on its own. Raises BackendError where there is no room.
        """
        ...

    def fresh(self, ids: Sequence[int], *, rows: int = 1, dtype: str | None = None) -> FloatArray:
        """The logits after ``ids``, read in one pass without a cache; what is held stays.

        With ``rows`` that many texts are in the pass, the others shorter beginnings of this one,
        padded as a server would. ``dtype``: with the weights in another one. Raises BackendError
        where that cannot be.
        """
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

    def clear(self) -> None:
        """Forget everything that was read, for this text or another."""
        ...

    def close(self) -> None:
        """Free what the backend holds."""
        ...


def kept_of(held: Sequence[int], ids: Sequence[int], *, can_rewind: bool) -> int:
    """How many positions a ``seek`` leaves where one sequence, ``held``, is all that is kept."""
    common = common_ids(held, ids[:-1])
    return common if can_rewind or common == len(held) else 0


def prefix_report(
    ids: Sequence[int], held: Sequence[int], cached: int, *, can_rewind: bool = True
) -> PrefixReport:
    """The report of a backend that keeps one sequence, ``held``, and every position of it."""
    report = explain(ids, held or None, cached=cached, hit_blocks=0, evicted_blocks=0, size=1)
    if report.common > cached + 1 and not can_rewind:
        reason = "what was read before cannot be taken back a step: it is read again"
        return replace(report, reason=reason)
    return report


def kv_state(
    backend: Backend, *, computed: int, cached: int, copied: int = 0, evicted: int = 0
) -> KVState:
    """The record of a backend's cache after a pass that computed ``computed`` positions."""
    stored, nbytes = backend.kv()
    if not backend.facts.keeps_cache:
        # What is given to the pass is one thing, what it has to compute another.
        computed, cached = computed + cached, 0
    return KVState(
        seen=backend.length,
        stored=stored,
        nbytes=nbytes,
        computed=computed,
        cached=cached,
        block_size=backend.block_size,
        copied_blocks=copied,
        evicted_blocks=evicted,
    )
