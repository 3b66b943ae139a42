"""Protocols of an engine behind the top-N backend, and data about what it can do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from engine.backends.base import Encoded
from engine.records.engine import EngineTimes, Probed
from engine.records.partial import TopLogprobs
from engine.records.vocabulary import Token, Vocabulary

BATCH = "batch of prompts"
"""The table's row for several texts in one request."""


@dataclass(frozen=True, slots=True)
class Abilities:
    """Abilities of an engine, found out when it was opened, not taken from its kind.

    ``most_top``: so many log-probabilities it gives of a position, None for any number. ``slots``:
    so many texts it keeps in its cache side by side, each asked for by number; 0 where requests
    cannot say which. ``batch``: a request may carry several texts. ``table`` is what doctor and the
    panes show, these included.
    """

    most_top: int | None = None
    slots: int = 1
    prompt_logprobs: bool = False
    batch: bool = False
    table: tuple[Probed, ...] = field(default=())


@dataclass(frozen=True, eq=False)
class Answer:
    """The distribution behind a text, as far as the engine tells it, and what the engine says.

    Of several positions ``top`` has one row each.
    """

    top: TopLogprobs
    times: EngineTimes


class Completer(Protocol):
    """Reads token ids and tells the likeliest next tokens, by raw log-probability.

    Both methods raise BackendError, in one line, for whatever goes wrong.
    """

    @property
    def abilities(self) -> Abilities: ...

    def next_token(self, ids: Sequence[int], top: int, *, slot: int, reuse: bool) -> Answer:
        """The ``top`` likeliest tokens behind ``ids``, at least one, and no fewer if it can.

        ``slot``: the place in the engine's cache; without ``reuse`` all is computed anew, whatever
        the cache holds.
        """

    def positions(self, ids: Sequence[int], start: int, top: int, *, slot: int) -> Answer:
        """The same behind each of ``ids[start:]``, rows in order.

        Asked for where ``abilities.prompt_logprobs``.
        """

    def close(self) -> None:
        """Let go of the engine; one that runs in this process ends."""


@runtime_checkable
class Sampling(Protocol):
    """A completer that tells what the engine's own sampler leaves, too."""

    def sampled(
        self, ids: Sequence[int], dials: Mapping[str, Any], count: int
    ) -> Mapping[int, float]:
        """See ``OwnSampler``."""
        ...


@dataclass(frozen=True, eq=False)
class Continued:
    """Rows behind a text and behind each token that the engine took itself, and these tokens."""

    answers: tuple[Answer, ...]
    taken: tuple[int, ...]


@runtime_checkable
class Continuing(Protocol):
    """Can go on by itself with the likeliest token, so that several rows cost one request."""

    def continued(self, ids: Sequence[int], top: int, count: int, *, slot: int) -> Continued:
        """Up to ``count`` rows; fewer where the text ends. What the cache holds is reused."""
        ...


@dataclass(frozen=True, eq=False)
class Batch:
    """The distributions behind several texts of one request, in order.

    ``slots``: the place in the engine's cache that read each; empty where it does not say.
    """

    answers: tuple[Answer, ...]
    slots: tuple[int, ...] = ()


@runtime_checkable
class Batching(Protocol):
    """Takes several texts in one request, whose passes the engine shares among them as it can."""

    def batch(self, texts: Sequence[Sequence[int]], top: int) -> Batch:
        """The ``top`` likeliest tokens behind each; its cache is reused. Raises BackendError.

        Asked for where ``abilities.batch``.
        """
        ...


class Tokens(Protocol):
    """The tokenizer of an engine: texts to ids, ids to bytes. Methods as those of ``Backend``."""

    def tokenize(self, text: str, *, chat: bool, system: str | None) -> Encoded: ...

    def token(self, token_id: int) -> Token: ...

    def vocabulary(self) -> Vocabulary: ...
