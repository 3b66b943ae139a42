"""The prompt and its prefill: tokens with their origin, chunks, times by layer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from engine.records.cache import KVState, PrefixReport
from engine.records.engine import EngineTimes
from engine.records.vocabulary import Token


class Origin(StrEnum):
    """Source of a prompt token: the user, the template or the tokenizer."""

    USER = "prompt"
    TEMPLATE = "template"
    TOKENIZER = "tokenizer"


@dataclass(frozen=True, eq=False)
class PromptRecord:
    """The prompt as the model reads it. The run's root node (0) stands for all of it."""

    text: str
    tokens: tuple[Token, ...]
    origins: tuple[Origin, ...]
    chat: bool
    tokenize_ms: float
    notes: tuple[str, ...] = ()
    template_ms: float | None = None
    """Part of ``tokenize_ms`` that the chat template took; None without one."""

    @cached_property
    def ids(self) -> tuple[int, ...]:
        return tuple(token.id for token in self.tokens)


@dataclass(frozen=True, slots=True)
class LayerTime:
    """Time spent in one layer of one pass; ``attention``, ``mlp`` and ``norm`` are in ``total``."""

    attention_ms: float | None
    mlp_ms: float | None
    total_ms: float
    norm_ms: float | None = None
    """None where norms were not timed: they are in the rest then."""


@dataclass(frozen=True, eq=False)
class PrefillChunk:
    """One pass of the prefill: positions ``start .. start + count`` read in ``ms``.

    ``layers`` is empty when the model's layers could not be found (``layers_note`` says why).
    """

    start: int
    count: int
    ms: float
    layers: tuple[LayerTime, ...]
    warmup: bool
    layers_note: str = ""
    engine: EngineTimes | None = None
    """The pass by the clock of the engine that ran it, where that is another one than ours."""
    head_ms: float | None = None
    """Part of ``ms`` that the output head took; None where it was not timed."""


@dataclass(frozen=True, eq=False)
class PrefillRecord:
    """The reading of the prompt, or of a branch again. ``cached + computed`` is its length."""

    chunks: tuple[PrefillChunk, ...]
    cached: int
    computed: int
    total_ms: float
    kv: KVState
    done: bool
    reason: str = "prompt"
    """Reason for reading these positions: ``prompt``, or what made a re-read necessary."""
    prefix: PrefixReport | None = None
    """Prefix match of the prompt: length, rule, and why not more."""
    lookup_ms: float | None = None
    """Time of that match, before the first chunk and not in ``total_ms``; None if not timed."""
