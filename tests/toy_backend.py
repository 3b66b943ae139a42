"""The least that can be called a backend: the small core, and none of the optional abilities."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from engine.backends.base import (
    BackendError,
    Encoded,
    ForwardPass,
    Row,
    RowLogits,
    checked_rows,
    kept_of,
    own_list,
)
from engine.backends.scripted import ScriptedBackend
from engine.records.model import ModelFacts
from engine.records.vocabulary import Token, Vocabulary
from tests.tiny_models import CHARACTERS, SPECIALS, VOCAB


class ToyBackend:
    """Logits are the sine of what was read. Its tokens are a script's."""

    def __init__(self) -> None:
        self._tokens = ScriptedBackend.uniform([*SPECIALS, *CHARACTERS], vocab_size=VOCAB)
        self._ids: list[int] = []

    @property
    def facts(self) -> ModelFacts:
        note = "n/a: backend toy has no cache of K and V"
        return replace(self._tokens.facts, backend="toy", name="toy", kv_note=note)

    def tokenize(self, text: str, *, chat: bool, system: str | None) -> Encoded:
        return self._tokens.tokenize(text, chat=chat, system=system)

    def token(self, token_id: int) -> Token:
        return self._tokens.token(token_id)

    def vocabulary(self) -> Vocabulary:
        return self._tokens.vocabulary()

    def forward(self, rows: Sequence[Row], *, all_positions: bool = False) -> ForwardPass:
        own = [(own_list(sequence), ids) for sequence, ids in checked_rows(rows)]
        for _, ids in own:
            for token_id in ids:
                if not 0 <= token_id < VOCAB:
                    raise BackendError(f"token id {token_id} is outside 0..{VOCAB - 1}")
        found = []
        for sequence, ids in own:
            at = len(sequence)
            sequence.extend(ids)
            ends = range(at + 1 if all_positions else len(sequence), len(sequence) + 1)
            logits = [_logits(sequence[:end]) for end in ends]
            found.append(RowLogits(np.stack(logits) if all_positions else logits[0]))
            self._ids = sequence
        return ForwardPass(tuple(found), 0.1 * len(found), warmup=False)

    def seek(self, ids: Sequence[int]) -> int:
        kept = kept_of(self._ids, ids, can_rewind=True)
        self._ids = self._ids[:kept]
        return kept

    @property
    def sequence(self) -> list[int]:
        return self._ids

    @property
    def length(self) -> int:
        return len(self._ids)

    def close(self) -> None:
        self._ids = []


def _logits(ids: Sequence[int]) -> Any:
    state = 7
    for token_id in ids:
        state = (state * 31 + token_id + 1) % 1_000_003
    return np.sin(np.arange(VOCAB, dtype=np.float32) * (state % 97 + 1))


def open_backend(
    options: Mapping[str, Any], progress: Callable[[str, float | None, str], None]
) -> ToyBackend:
    """Open the toy backend, in the form that ``engine.backends`` expects."""
    return ToyBackend()
