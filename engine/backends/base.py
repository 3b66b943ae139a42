"""The interface of a backend: it reads token ids and gives next-token logits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from engine.kv.branch import Branch
from engine.kv.prefix import common_ids, explain
from engine.records.arrays import FloatArray, HalfArray
from engine.records.cache import KVRead, PrefixReport
from engine.records.engine import EngineTimes
from engine.records.model import ModelFacts
from engine.records.partial import TopLogprobs
from engine.records.prompt import LayerTime, Origin
from engine.records.vocabulary import Token, Vocabulary


class BackendError(RuntimeError):
    """The backend cannot do what was asked; one line says why and what to do."""


class NoMoreError(BackendError):
    """The backend tells no more tokens of a distribution than it has told."""


@dataclass(frozen=True, eq=False)
class Encoded:
    """A prompt as token ids, each with who put it there, and what is worth saying about it."""

    ids: tuple[int, ...]
    origins: tuple[Origin, ...]
    notes: tuple[str, ...] = ()
    template_ms: float | None = None
    """Time that the chat template took; None without one."""


TokenSequence = Branch | list[int]
"""A text that can be gone on with: a branch of a pool of K/V blocks, or the ids read so far."""

Row = tuple[TokenSequence, Sequence[int]]
"""One row of a pass: a sequence, and the ids (at least one) that come behind it."""


@dataclass(frozen=True, eq=False)
class RowLogits:
    """float32 logits of a row: (vocab_size,) of its last position, (n, vocab_size) of all.

    Or ``TopLogprobs``, of a backend that knows no more.
    """

    values: FloatArray | TopLogprobs
    half: HalfArray | None = None
    """The same logits in float16, where that is what the model computes them in."""
    engine: EngineTimes | None = None
    """This row of a pass over several, by the clock of an engine of its own."""


@dataclass(frozen=True, eq=False)
class ForwardPass:
    """Result of one call of ``forward``, row by row, and its cost.

    ``ms`` runs from before the ids go in until the logits lie in main memory. ``layers`` is filled
    only when the pass was profiled; ``layers_note`` says why it could not be. ``copied_blocks``
    were copied because a branch wrote into a block that it shared, ``evicted_blocks`` thrown out
    to make room. ``passes``: how many passes of the model that were; as many as rows where those
    could not share one. ``rows_note`` says how an engine of its own took several.
    """

    rows: tuple[RowLogits, ...]
    ms: float
    warmup: bool
    layers: tuple[LayerTime, ...] = ()
    layers_note: str = ""
    head_ms: float | None = None
    """Time in the output head, where the pass was profiled and the head was found."""
    outside: Mapping[str, float] = field(default_factory=dict)
    """Times of modules beside layers and head, where all modules were timed: name -> ms."""
    copied_blocks: int = 0
    evicted_blocks: int = 0
    passes: int = 1
    kv_read: KVRead | None = None
    """K and V that rows of one pass read; None: each row what its layers hold."""
    rows_note: str = ""
    engine: EngineTimes | None = None
    """The same pass by the clock of an engine of its own; ``ms`` is measured here, around it."""
    shifted_ms: float = 0.0
    """Part of ``ms`` that passed earlier, with the request that this row came ahead in.

    Below 0: so much of the call's time is in later passes' ``ms``, whose rows came with it.
    """

    @property
    def known(self) -> FloatArray | TopLogprobs:
        """Logits of the first row, which is often the only one, as far as they are known."""
        return self.rows[0].values

    @property
    def logits(self) -> FloatArray:
        """Those of the whole vocabulary. Raises BackendError where they are not known."""
        return whole(self.known)

    @property
    def half(self) -> HalfArray | None:
        """Those of the first row in float16, where that is what the model computes them in."""
        return self.rows[0].half


def whole(logits: FloatArray | TopLogprobs) -> FloatArray:
    """``logits``, which are those of the whole vocabulary. Raises BackendError if not."""
    if isinstance(logits, TopLogprobs):
        count = logits.ids.shape[-1]
        raise BackendError(f"this backend gives the {count} leading log-probabilities, no more")
    return logits


class Backend(Protocol):
    """The least that a backend can do: read token ids, and yield logits over its vocabulary.

    Where it knows only the leading log-probabilities (``facts.top``) it yields those.

    What only some can do are protocols of their own in ``engine.backends.abilities``, asked for
    with isinstance. ``tests/engine/backends/test_backend_contract.py`` holds every backend to this.
    """

    @property
    def facts(self) -> ModelFacts: ...

    def tokenize(self, text: str, *, chat: bool, system: str | None) -> Encoded:
        """Ids of ``text``; with ``chat``, of the model's own template around it."""

    def token(self, token_id: int) -> Token:
        """The token of any id below ``facts.vocab_size``."""

    def vocabulary(self) -> Vocabulary:
        """Every token; may take a moment."""

    def forward(self, rows: Sequence[Row], *, all_positions: bool = False) -> ForwardPass:
        """Read each row's ids behind its sequence; logits of each row's last position, or of all.

        Each sequence holds its ids afterwards, and ``sequence`` is the last row's. Rows are of
        different sequences. Raises BackendError; then no sequence has changed.
        """

    def seek(self, ids: Sequence[int]) -> int:
        """Go to the longest part of ``ids[:-1]`` that was read, and return its length.

        ``sequence`` holds that much afterwards. Computes nothing. What was read before may be kept
        for a later ``seek``, or not. The last id is left because its logits want a pass.
        """

    @property
    def sequence(self) -> TokenSequence:
        """The sequence that ``seek`` or ``forward`` left; valid until the backend reads on."""

    @property
    def length(self) -> int:
        """Positions of ``sequence``."""

    def close(self) -> None:
        """Free what the backend holds."""


def checked_rows(rows: Sequence[Row]) -> Sequence[Row]:
    """``rows``, which one pass can read. Raises BackendError where it cannot."""
    if not rows or not all(len(ids) for _, ids in rows):
        raise BackendError("there is nothing to read: a pass needs at least one token")
    if len(rows) > 1 and len({id(sequence) for sequence, _ in rows}) < len(rows):
        raise BackendError("two rows of a pass go on with one sequence: fork it first")
    return rows


def own_list(sequence: TokenSequence) -> list[int]:
    """The ids of a sequence of a backend without a pool. Raises BackendError for a branch."""
    if isinstance(sequence, Branch):
        raise BackendError("a branch of a pool belongs to the backend that keeps that pool")
    return sequence


def kept_of(held: Sequence[int], ids: Sequence[int], *, can_rewind: bool) -> int:
    """Number of positions a ``seek`` leaves where one sequence, ``held``, is all that is kept."""
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
