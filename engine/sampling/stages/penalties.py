"""Stages that make tokens less likely because they were there before: penalties and DRY."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.records import IntArray
from engine.sampling.candidates import Candidates, SamplingError
from engine.sampling.stages.base import Dial, Parameters, Role, StageContext, stage
from engine.sampling.stages.bias import Over
from engine.sampling.stages.lists import entries, sequences, texts

_NO_LIMIT = float("inf")
_LAST = "looks at the last n tokens; -1 at all"


@stage(
    "penalties",
    Dial(
        "repetition_penalty", float, 0, 100, 1.0, "divides a seen token's logit, or multiplies it",
        low_included=False,
    ),
    Dial("frequency_penalty", float, -100, 100, 0.0, "subtracted once per occurrence", "logits"),
    Dial("presence_penalty", float, -100, 100, 0.0, "subtracted once from a seen token", "logits"),
    Dial("penalty_last_n", int, -1, _NO_LIMIT, None, _LAST, "tokens", apart=-1),
    role=Role.LOGITS,
    source="CTRL (arXiv:1909.05858) for repetition; OpenAI API for frequency and presence",
)  # fmt: skip
@dataclass(frozen=True)
class Penalties(Parameters):
    """Make the tokens of the text so far less likely.

    Repetition: a positive logit is divided, another multiplied, once per distinct token.
    Frequency and presence: ``logit - frequency * count - presence``. Stacks differ in which
    tokens count (OpenAI and vLLM count the output alone), how far back, and what comes first.
    """

    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    penalty_last_n: int = -1
    repeats_in: Over = Over.ALL
    counts_in: Over = Over.OUTPUT
    subtract_first: bool = False

    def apply(self, candidates: Candidates, context: StageContext) -> Candidates:
        if self.off:
            return candidates
        logits = candidates.logits.copy()
        steps = (self._repetition, self._frequency_and_presence)
        for step in reversed(steps) if self.subtract_first else steps:
            step(candidates, context, logits)
        return candidates.with_logits(logits)

    def _repetition(
        self, candidates: Candidates, context: StageContext, logits: NDArray[np.float32]
    ) -> None:
        if self.repetition_penalty == 1.0:
            return
        ids = np.unique(self._window(context, self.repeats_in))
        at, present = candidates.find(ids)
        at, factor = at[present], np.float32(self.repetition_penalty)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            changed = np.where(logits[at] < 0, logits[at] * factor, logits[at] / factor)
        logits[at] = changed

    def _frequency_and_presence(
        self, candidates: Candidates, context: StageContext, logits: NDArray[np.float32]
    ) -> None:
        if self.frequency_penalty == 0.0 and self.presence_penalty == 0.0:
            return
        ids, counts = np.unique(self._window(context, self.counts_in), return_counts=True)
        at, present = candidates.find(ids)
        logits[at[present]] -= (
            counts[present] * np.float64(self.frequency_penalty) + self.presence_penalty
        ).astype(np.float32)

    def _window(self, context: StageContext, over: Over) -> IntArray:
        past = context.history
        if over is Over.OUTPUT:
            past = past[len(context.prompt_ids) :]
        return _last(past, self.penalty_last_n)


@stage(
    "dry",
    Dial("dry_multiplier", float, 0, 1000, 0.0, "scale of the penalty", "logits"),
    Dial("dry_base", float, 1, 100, None, "growth of the penalty per token of the repeat"),
    Dial("dry_allowed_length", int, 1, _NO_LIMIT, None, "repeats up to here are free", "tokens"),
    Dial("dry_last_n", int, -1, _NO_LIMIT, None, _LAST, "tokens", apart=-1),
    Dial("dry_breakers", str, 0, 0, None, "no repeat reaches across these", form=sequences),
    role=Role.LOGITS,
    source="DRY by p-e-w (oobabooga/text-generation-webui#5677), as llama.cpp has it",
)
@dataclass(frozen=True)
class Dry(Parameters):
    """Don't Repeat Yourself: penalise the token that would extend a repeated sequence.

    Where the last n tokens occurred before, and the token that followed then would follow again:
    ``logit - multiplier * base ** (n - allowed_length)`` for n >= allowed_length, with the longest
    such n. Breakers (usually line ends and quotes) end a sequence and are themselves exempt.
    """

    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_last_n: int = -1
    dry_breakers: str = ""

    def apply(self, candidates: Candidates, context: StageContext) -> Candidates:
        if self.off:
            return candidates
        for text in texts(self.dry_breakers, False):
            raise SamplingError(f"breaker {text!r} is text: it needs a tokenizer")
        breakers = _breakers(self.dry_breakers)
        past = _last(context.history, self.dry_last_n).tolist()
        longest = repeats(past, breakers)
        single = {one[0] for one in breakers if len(one) == 1}
        penalised = {
            token: length
            for token, length in longest.items()
            if length >= self.dry_allowed_length and token not in single
        }
        if not penalised:
            return candidates
        at, present = candidates.find(np.fromiter(penalised, np.int64))
        lengths = np.fromiter(penalised.values(), np.float64)[present]
        with np.errstate(over="ignore"):
            penalty = self.dry_multiplier * self.dry_base ** (lengths - self.dry_allowed_length)
        logits = candidates.logits.copy()
        lowest = float(np.finfo(np.float32).min)
        at = at[present]
        logits[at] = np.maximum(logits[at].astype(np.float64) - penalty, lowest)
        return candidates.with_logits(logits)


def repeats(past: Sequence[int], breakers: Sequence[Sequence[int]]) -> dict[int, int]:
    """Token -> length of the longest run at the end that it followed before.

    A run never reaches across a breaker. Linear time (Z-function of the reversed tokens).
    """
    backwards = list(reversed(past))
    limit = _unbroken(past, breakers)
    longest: dict[int, int] = {}
    for offset, length in enumerate(z_function(backwards)):
        if offset and length and limit:
            token = backwards[offset - 1]
            longest[token] = max(longest.get(token, 0), min(length, limit))
    return longest


def z_function(items: Sequence[int]) -> list[int]:
    """For each position, how many items from there on equal those from the start (0 at 0)."""
    size = len(items)
    lengths = [0] * size
    left = right = 0
    for at in range(1, size):
        length = min(right - at, lengths[at - left]) if at < right else 0
        while at + length < size and items[length] == items[at + length]:
            length += 1
        lengths[at] = length
        if at + length > right:
            left, right = at, at + length
    return lengths


def _unbroken(past: Sequence[int], breakers: Sequence[Sequence[int]]) -> int:
    """How many tokens follow the last breaker (all of them when there is none)."""
    heads: dict[int, list[Sequence[int]]] = {}
    for breaker in breakers:
        heads.setdefault(breaker[0], []).append(breaker)
    for distance in range(1, len(past) + 1):
        start = len(past) - distance
        fitting = [
            len(one)
            for one in heads.get(past[start], ())
            if len(one) <= distance and tuple(past[start : start + len(one)]) == tuple(one)
        ]
        if fitting:
            return distance - max(fitting)
    return len(past)


@functools.lru_cache(maxsize=64)
def _breakers(written: str) -> tuple[tuple[int, ...], ...]:
    return tuple(entry.sequence for entry in entries(written, False))


def _last(past: IntArray, count: int) -> IntArray:
    """The last ``count`` tokens; all of them for -1."""
    return past if count < 0 else past[max(0, past.size - count) :]
