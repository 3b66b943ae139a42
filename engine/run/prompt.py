"""A prompt from text or from token ids, as the model reads it."""

from __future__ import annotations

from collections.abc import Sequence

from engine.backends.base import Backend
from engine.records.prompt import Origin, PromptRecord
from engine.timing import now_ms


def prompt_of_text(
    backend: Backend, text: str, *, chat: bool = False, system: str | None = None
) -> PromptRecord:
    """Tokenize a text, with the chat template where it is one turn of a chat."""
    started = now_ms()
    encoded = backend.tokenize(text, chat=chat, system=system)
    tokens = tuple(backend.token(token_id) for token_id in encoded.ids)
    took = now_ms() - started
    origins, notes = encoded.origins, encoded.notes
    return PromptRecord(text, tokens, origins, chat, took, notes, encoded.template_ms)


def prompt_of_ids(backend: Backend, ids: Sequence[int], text: str = "") -> PromptRecord:
    """Take token ids as they are."""
    started = now_ms()
    tokens = tuple(backend.token(token_id) for token_id in ids)
    return PromptRecord(text, tokens, (Origin.USER,) * len(ids), False, now_ms() - started)
