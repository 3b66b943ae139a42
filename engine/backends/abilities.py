"""Optional abilities of a backend, each a protocol to be asked for with isinstance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

from engine.backends.base import Backend, BackendError, ForwardPass, TokenSequence
from engine.records.arrays import FloatArray
from engine.records.cache import BLOCK_SIZE, KVState, PoolState, PrefixReport
from engine.records.model import ModelFacts
from engine.records.vocabulary import Token


@runtime_checkable
class Pooled(Protocol):
    """Tells what its KV cache holds, and where: which blocks, whose branches, how many bytes."""

    def begin_prompt(self, ids: Sequence[int]) -> PrefixReport:
        """Move to the longest run of cached blocks that ``ids`` begin with, for a new prompt."""

    def fork(self, sequence: TokenSequence, *, pinned: bool = True) -> TokenSequence:
        """A second sequence with what ``sequence`` holds; copies nothing.

        A branch of a pool is kept until ``forget`` lets go of all of it; one that is not
        ``pinned``, until its room is needed after a pass.
        """

    def forget(self, branch: int, keep: int) -> None:
        """A branch of the pool is needed for its first ``keep`` positions at most."""

    def kv(self, sequence: TokenSequence | None = None) -> tuple[int, int | None]:
        """(positions stored, bytes held), of the real tensors; None where there are none.

        Of ``sequence``, which a pass has just read, or of the one that the next goes on with.
        """

    def pool_state(self) -> PoolState | None:
        """The pool of K/V blocks as a record; None where this model's lie elsewhere."""

    @property
    def branch(self) -> int | None:
        """The number of the pool's branch that the next pass goes on with; None without a pool."""

    @property
    def block_size(self) -> int:
        """Positions of a block of the pool; without one, of the blocks they are counted off in."""


@runtime_checkable
class Templated(Protocol):
    """Has the chat template at hand, and not only a server that applies it."""

    @property
    def chat_template(self) -> str:
        """Source of the chat template; "" without one."""


@runtime_checkable
class Measurable(Protocol):
    """Reads other texts beside the run, to hold its figures against theirs."""

    def side_sequence(self, *, cached: bool, positions: int = 0) -> AbstractContextManager[None]:
        """Inside ``with``, read another text; behind it all is as it was, down to what is warm.

        ``cached``: with a cache of its own for ``positions``; else every pass reads all again, as
        the model would on its own. Raises BackendError where there is no room.
        """

    def reference_logits(
        self, ids: Sequence[int], *, rows: int = 1, dtype: str | None = None
    ) -> FloatArray:
        """The logits after ``ids``, read in one pass without a cache; what is held stays.

        With ``rows`` that many texts are in the pass, the others shorter beginnings of this one,
        padded as a server would. ``dtype``: with the weights in another one. Raises BackendError
        where that cannot be.
        """

    def clear(self) -> None:
        """Forget everything that was read, for this text or another."""


@runtime_checkable
class Profiled(Protocol):
    """Times the layers of a pass."""

    def prefill(
        self, ids: Sequence[int], *, profile: bool = True, modules: bool = False
    ) -> ForwardPass:
        """Read ``ids`` (at least one) behind ``sequence``; with ``profile``, layer by layer.

        With ``modules`` norms, embedding and whatever else is outside of the layers as well.
        """


@runtime_checkable
class Shallow(Protocol):
    """Can end a pass early: after some of its layers, with the model's own norm and head."""

    def shallow(self, layers: int) -> AbstractContextManager[Callable[[Sequence[int]], FloatArray]]:
        """Inside ``with``, read ids behind ``sequence`` through the first ``layers`` alone.

        What is yielded reads ids and returns the logits after the last one, (vocab_size,). K and V
        of these layers are the run's own; behind ``with`` no position is there that was not
        before. Raises BackendError where the model has no such layers, or cannot do it.
        """
        ...


@runtime_checkable
class LengthScaled(Protocol):
    """Knows where K and V of a text change because it has grown (LongRoPE, dynamic NTK)."""

    def lasting(self, length: int, most: int) -> int:
        """Positions, at most ``most``, by which a text of ``length`` grows and keeps its K."""
        ...


@runtime_checkable
class Widening(Protocol):
    """Tells more of a distribution than its passes yield, where it is asked to."""

    def widened(self, ids: Sequence[int], count: int) -> ForwardPass:
        """The ``count`` likeliest tokens behind ``ids``, which were read; all where there are less.

        What is read stays as it is. Raises BackendError where it can tell no more.
        """
        ...


@runtime_checkable
class OwnSampler(Protocol):
    """Has a sampler of its own, and tells what that leaves of a distribution."""

    @property
    def own_stack(self) -> str:
        """The preset that reproduces it."""

    def own_sampler(
        self, ids: Sequence[int], dials: Mapping[str, Any], count: int
    ) -> Mapping[int, float]:
        """Id -> probability of the ``count`` likeliest that it keeps behind ``ids``, ``dials`` set.

        Raises BackendError where it does not tell that, or has a dial in another form.
        """
        ...


@runtime_checkable
class Foreseeing(Protocol):
    """Can have the likeliest token's pass run before it is asked for."""

    foreseen: int
    """Set by the run: that many tokens are wanted, each the likeliest; 0 where that is not so."""


@runtime_checkable
class Numbering(Protocol):
    """Gives tokens numbers of its own, as it meets them: a server of texts has none."""

    def learn(self, tokens: Iterable[Token]) -> None:
        """Take over the numbers that tokens have in the records of a run, in a new process."""


@runtime_checkable
class MeasurableBackend(Backend, Measurable, Protocol):
    """A backend whose texts can be read beside the run."""


ABILITIES: dict[type, tuple[str, str]] = {
    Pooled: ("tells what its KV cache holds", "does not tell what its KV cache holds"),
    Measurable: ("reads a text beside the run", "cannot read a text beside the run"),
    Profiled: ("times its layers", "does not time its layers"),
    Widening: ("tells more of a distribution when asked", "tells no more of a distribution"),
    OwnSampler: ("tells what its own sampler leaves", "does not tell what its own sampler leaves"),
    Shallow: ("ends a pass after some layers", "cannot end a pass after some of its layers"),
}
"""Ability -> that a backend has it, and that it lacks it, in words."""


def missing(facts: ModelFacts, ability: type) -> str:
    """The line for a figure that needs ``ability``, which the backend lacks."""
    return f"n/a: backend {facts.backend} {ABILITIES[ability][1]}"


def measurable(backend: Backend) -> MeasurableBackend:
    """``backend``, which can read beside the run. Raises BackendError, with the reason, if not."""
    if not isinstance(backend, MeasurableBackend):
        raise BackendError(missing(backend.facts, Measurable))
    return backend


def take_back(backend: Backend, ids: Sequence[int]) -> int:
    """Take back what ``sequence``, which begins with ``ids`` or is a part of it, holds beyond it.

    Returns how many positions that were. Where a cache cannot be cut there, less is kept, and the
    rest is read again.
    """
    before = backend.length
    if before <= len(ids):
        return 0
    branch = backend.branch if isinstance(backend, Pooled) else None
    if branch is not None and isinstance(backend, Pooled):
        # No other branch is to be made of what a seek would go back to.
        backend.forget(branch, len(ids))
    else:
        backend.seek([*ids, ids[-1]])
    return before - len(ids)


def kv_state(
    backend: Backend,
    pooled: Pooled | None,
    *,
    computed: int,
    cached: int,
    copied: int = 0,
    evicted: int = 0,
) -> KVState:
    """The record of a backend's cache after a pass that computed ``computed`` positions.

    ``pooled`` is the backend as far as it tells what the cache holds; without, bytes are those of
    the formula.
    """
    length = backend.length
    stored, nbytes = (length, backend.facts.kv_bytes(length)) if pooled is None else pooled.kv()
    if not backend.facts.keeps_cache:
        # What is given to the pass is one thing, what it has to compute another.
        computed, cached = computed + cached, 0
    return KVState(
        seen=length,
        stored=stored,
        nbytes=nbytes,
        computed=computed,
        cached=cached,
        block_size=BLOCK_SIZE if pooled is None else pooled.block_size,
        copied_blocks=copied,
        evicted_blocks=evicted,
    )
