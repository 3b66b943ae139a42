"""Stages that add to single logits or forbid tokens: bias, bad words, suppression, constraints."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.records.arrays import IntArray
from engine.sampling.candidates import Candidates, SamplingError
from engine.sampling.stages.base import (
    Dial,
    DialScale,
    Locality,
    Parameters,
    Role,
    StageContext,
    stage,
)
from engine.sampling.stages.lists import (
    entries,
    numbered_sequences,
    sequences,
    single_ids,
    texts,
)

_NO_LIMIT = float("inf")


class Over(StrEnum):
    """Span of the history that a stage looks at."""

    ALL = "prompt and output"
    OUTPUT = "output"


@stage(
    "logit_bias",
    Dial(
        "logit_bias", str, 0, 0, "", "adds to the logits of tokens: 318:-1, 'New York':+2.5",
        form=numbered_sequences, token_list=True, numbered=True,
    ),
    role=Role.LOGITS,
    source="OpenAI API; transformers SequenceBiasLogitsProcessor for sequences",
    locality=Locality.BY_ID,
    beside_mirostat=True,
)  # fmt: skip
@dataclass(frozen=True)
class LogitBias(Parameters):
    """Add a number to the logit of a token, or of the token that would complete a sequence.

    ``-inf`` forbids. A text of several tokens is a sequence; llama.cpp's server biases each of
    its tokens instead.
    """

    logit_bias: str = ""

    def apply(self, candidates: Candidates, context: StageContext) -> Candidates:
        if self.off:
            return candidates
        _need_ids(self.name, self.logit_bias, True, candidates)
        # Added up first and rounded to float32 once more, like transformers' bias tensor.
        added = np.zeros(candidates.vocab_size, dtype=np.float32)
        for entry in entries(self.logit_bias, True):
            if _ends_with(context.history, entry.sequence[:-1]):
                added[entry.sequence[-1]] += np.float32(entry.number or 0.0)
        return candidates.with_logits(candidates.logits + added[candidates.ids])


@stage(
    "bad_words",
    Dial(
        "bad_words", str, 0, 0, "", "forbids token sequences: 318 257, 'New York'", form=sequences,
        token_list=True,
    ),
    role=Role.LOGITS,
    source="transformers NoBadWordsLogitsProcessor",
    locality=Locality.BY_ID,
)  # fmt: skip
@dataclass(frozen=True)
class BadWords(Parameters):
    """Forbid the token that would complete one of the listed sequences.

    transformers leaves out an entry that is nothing but a stop token, and matches the prompt too;
    vLLM matches the output alone, and forbids a word in writing with a space before it too.
    """

    bad_words: str = ""
    over: Over = Over.ALL
    spare_stops: bool = True

    def apply(self, candidates: Candidates, context: StageContext) -> Candidates:
        if self.off:
            return candidates
        _need_ids(self.name, self.bad_words, False, candidates)
        past = context.history
        if self.over is Over.OUTPUT:
            past = past[len(context.prompt_ids) :]
        banned = []
        for entry in entries(self.bad_words, False):
            head, last = entry.sequence[:-1], entry.sequence[-1]
            spared = self.spare_stops and not head and last in context.stop_ids
            if not spared and _ends_with(past, head):
                banned.append(last)
        return _without(candidates, banned)


@stage(
    "allowed",
    Dial(
        "allowed_token_ids", str, 0, 0, "", "forbids all others: 318, 257", form=single_ids,
        token_list=True,
    ),
    role=Role.LOGITS,
    source="vLLM SamplingParams.allowed_token_ids",
    locality=Locality.BY_ID,
)  # fmt: skip
@dataclass(frozen=True)
class Allowed(Parameters):
    """Forbid every token that is not listed."""

    allowed_token_ids: str = ""

    def apply(self, candidates: Candidates, context: StageContext) -> Candidates:
        if self.off:
            return candidates
        _need_ids(self.name, self.allowed_token_ids, False, candidates)
        listed = [entry.sequence[0] for entry in entries(self.allowed_token_ids, False)]
        return candidates.select(np.isin(candidates.ids, listed))


@stage(
    "suppress",
    Dial("suppress", str, 0, 0, "", "forbids tokens: 318, 257", form=single_ids, token_list=True),
    role=Role.LOGITS,
    source="transformers SuppressTokensLogitsProcessor",
    locality=Locality.BY_ID,
)
@dataclass(frozen=True)
class Suppress(Parameters):
    """Forbid the listed tokens, always."""

    suppress: str = ""

    def apply(self, candidates: Candidates, context: StageContext) -> Candidates:
        if self.off:
            return candidates
        _need_ids(self.name, self.suppress, False, candidates)
        return _without(candidates, [entry.sequence[0] for entry in entries(self.suppress, False)])


@stage(
    "min_new_tokens",
    Dial(
        "min_new_tokens", int, 0, _NO_LIMIT, 0, "forbids stop tokens before so many", "tokens",
        scale=DialScale(0, 100, 1, 10, 10),
    ),
    role=Role.LOGITS,
    source="transformers MinNewTokensLengthLogitsProcessor",
    locality=Locality.BY_ID,
)  # fmt: skip
@dataclass(frozen=True)
class MinNewTokens(Parameters):
    """Forbid the stop tokens until the output has the given length."""

    min_new_tokens: int = 0

    def apply(self, candidates: Candidates, context: StageContext) -> Candidates:
        if len(context.output_ids) >= self.min_new_tokens:
            return candidates
        return _without(candidates, context.stop_ids)


@stage(
    "no_repeat_ngram",
    Dial(
        "no_repeat_ngram_size", int, 0, _NO_LIMIT, 0, "forbids a second n-gram", "tokens",
        scale=DialScale(0, 10, 1, 2, 3),
    ),
    role=Role.LOGITS,
    source="fairseq; transformers NoRepeatNGramLogitsProcessor",
    locality=Locality.BY_ID,
)  # fmt: skip
@dataclass(frozen=True)
class NoRepeatNGram(Parameters):
    """Forbid every token that would complete an n-gram seen before, in the prompt or the output."""

    no_repeat_ngram_size: int = 0

    def apply(self, candidates: Candidates, context: StageContext) -> Candidates:
        size, history = self.no_repeat_ngram_size, context.history
        if not 0 < size <= history.size:
            return candidates
        windows = np.lib.stride_tricks.sliding_window_view(history, size)
        head = history[history.size - size + 1 :]
        return _without(candidates, windows[(windows[:, :-1] == head).all(axis=1), -1])


def _ends_with(history: IntArray, head: tuple[int, ...]) -> bool:
    """True if the last tokens are ``head``."""
    if not head:
        return True
    return history.size >= len(head) and bool((history[-len(head) :] == head).all())


def _without(candidates: Candidates, banned: Iterable[int] | NDArray[Any]) -> Candidates:
    """The candidates less ``banned``; ids that are not among them are no matter."""
    ids = np.unique(banned if isinstance(banned, np.ndarray) else np.fromiter(banned, np.int64))
    at, present = candidates.find(ids)
    if not present.any():
        return candidates
    keep = np.ones(len(candidates), dtype=np.bool_)
    keep[at[present]] = False
    return candidates.select(keep)


def _need_ids(name: str, written: str, numbered: bool, candidates: Candidates) -> None:
    """SamplingError for text that nobody tokenized, and for ids that the model does not have."""
    for text in texts(written, numbered):
        raise SamplingError(f"{text!r} is text: it needs a tokenizer")
    largest = _largest(written, numbered)
    if largest >= candidates.vocab_size:
        raise SamplingError(f"token id {largest} is outside 0..{candidates.vocab_size - 1}")


@functools.lru_cache(maxsize=256)
def _largest(written: str, numbered: bool) -> int:
    return max((max(entry.sequence) for entry in entries(written, numbered)), default=-1)
