"""A backend of the small core that knows the leading log-probabilities alone, as a server does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from engine.backends.base import Backend, Encoded, ForwardPass, Row, RowLogits, TokenSequence, whole
from engine.backends.scripted import ScriptedBackend
from engine.records.arrays import FloatArray
from engine.records.model import ModelFacts
from engine.records.partial import TopLogprobs
from engine.records.vocabulary import Token, Vocabulary
from engine.sampling.candidates import Candidates

TOP = 20
WIDTH = 300
TOKENS = [f" w{number}" for number in range(WIDTH - 1)] + ["<end>"]


def words(ids: Sequence[int], spread: float = 2.0) -> FloatArray:
    """Logits of 300 words, of which the 20 likeliest hold two thirds of the mass."""
    rng = np.random.default_rng([len(ids), ids[-1]])
    return rng.normal(0.0, spread, WIDTH).astype(np.float32)


def scripted() -> ScriptedBackend:
    """The whole vocabulary of what ``TopBackend`` knows 20 of."""
    return ScriptedBackend(words, TOKENS)


class TopBackend:
    """What another backend's core gives, but for all that is behind the 20 likeliest tokens."""

    def __init__(self, inner: Backend | None = None) -> None:
        self._inner = inner or scripted()

    @property
    def facts(self) -> ModelFacts:
        return replace(self._inner.facts, backend="top", name="top", top=TOP)

    def tokenize(self, text: str, *, chat: bool, system: str | None) -> Encoded:
        return self._inner.tokenize(text, chat=chat, system=system)

    def token(self, token_id: int) -> Token:
        return self._inner.token(token_id)

    def vocabulary(self) -> Vocabulary:
        return self._inner.vocabulary()

    def forward(self, rows: Sequence[Row], *, all_positions: bool = False) -> ForwardPass:
        found = self._inner.forward(rows, all_positions=all_positions)
        return replace(
            found, rows=tuple(RowLogits(top_of(whole(row.values))) for row in found.rows)
        )

    def seek(self, ids: Sequence[int]) -> int:
        return self._inner.seek(ids)

    @property
    def sequence(self) -> TokenSequence:
        return self._inner.sequence

    @property
    def length(self) -> int:
        return self._inner.length

    def close(self) -> None:
        self._inner.close()


def top_of(logits: FloatArray, count: int = TOP) -> TopLogprobs:
    """The leading log-probabilities of one position's logits, or of each one's."""
    ids, logprobs = [], []
    for row in np.atleast_2d(logits):
        model = Candidates.from_logits(row)
        at = model.order(count)[:count]
        ids.append(model.ids[at])
        logprobs.append((model.logits[at].astype(np.float64) - model.log_z).astype(np.float32))
    shape = (*logits.shape[:-1], count)
    return TopLogprobs(
        np.array(ids).reshape(shape), np.array(logprobs).reshape(shape), logits.shape[-1]
    )


def open_backend(
    options: Mapping[str, Any], progress: Callable[[str, float | None, str], None]
) -> TopBackend:
    """Open it, in the form that ``engine.backends`` expects."""
    return TopBackend()
