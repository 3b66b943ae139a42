"""The stage that makes a token less likely where it would extend a repeated sequence: DRY."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

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
from engine.sampling.stages.lists import entries, sequences, texts
from engine.sampling.stages.penalties import LAST_N, last_tokens

_NO_LIMIT = float("inf")
_LONGEST_BREAKER, _LONGEST_TAIL = 40, 20
"""Bytes of a breaker, and tokens of what follows its first one, that llama.cpp looks at."""

Tails = tuple[tuple[int, ...], ...]
"""Token sequences that may follow one token and make a breaker with it; () is the token alone."""


@stage(
    "dry",
    Dial(
        "dry_multiplier", float, 0, 1000, 0.0, "scale of the penalty", "logits",
        scale=DialScale(0, 4, 0.1, 0.5, 0.8),
    ),
    Dial(
        "dry_base", float, 1, 100, None, "growth of the penalty per token of the repeat",
        scale=DialScale(1, 4, 0.05, 0.25, 1.75),
    ),
    Dial(
        "dry_allowed_length", int, 1, _NO_LIMIT, None, "repeats up to here are free", "tokens",
        scale=DialScale(1, 16, 1, 4, 2),
    ),
    Dial(
        "dry_last_n", int, -1, _NO_LIMIT, None, LAST_N, "tokens", apart=-1,
        scale=DialScale(1, 2048, 1, 16, 64, log=True),
    ),
    Dial("dry_breakers", str, 0, 0, None, "no repeat reaches across these", form=sequences),
    role=Role.LOGITS,
    source="DRY by p-e-w (oobabooga/text-generation-webui#5677), as llama.cpp has it",
    locality=Locality.BY_ID,
)  # fmt: skip
@dataclass(frozen=True)
class Dry(Parameters):
    """Don't Repeat Yourself: penalise the token that would extend a repeated sequence.

    Where the last n tokens occurred before, and the token that followed then would follow again:
    ``logit - multiplier * base ** (n - allowed_length)`` for n >= allowed_length, with the longest
    such n. Breakers (usually line ends and quotes) end a sequence and are themselves exempt. A
    breaker in writing is every token whose text contains it, and every run of tokens that begins
    inside one token and goes on with the tokens of the rest; one of ids is that run alone.
    """

    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_last_n: int = -1
    dry_breakers: str = ""

    def apply(self, candidates: Candidates, context: StageContext) -> Candidates:
        if self.off:
            return candidates
        tails = _breakers(self.dry_breakers, context)
        past = last_tokens(context.history, self.dry_last_n).tolist()
        penalised = {
            token: length
            for token, length in repeats(past, tails).items()
            if length >= self.dry_allowed_length and () not in tails(token)
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


def repeats(past: Sequence[int], tails: Callable[[int], Tails]) -> dict[int, int]:
    """Token -> length of the longest run at the end that it followed before.

    A run never reaches across a breaker. Linear time (Z-function of the reversed tokens).
    """
    backwards = list(reversed(past))
    limit = _unbroken(past, tails)
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


def _unbroken(past: Sequence[int], tails: Callable[[int], Tails]) -> int:
    """Number of tokens after the last breaker (all of them when there is none)."""
    for start in range(len(past) - 1, -1, -1):
        fitting = [
            len(tail)
            for tail in tails(past[start])
            if tuple(past[start + 1 : start + 1 + len(tail)]) == tail
        ]
        if fitting:
            return len(past) - start - 1 - max(fitting)
    return len(past)


# --- breakers ----------------------------------------------------------------------------------


def _breakers(written: str, context: StageContext) -> Callable[[int], Tails]:
    """For a token of the text so far, what may follow it and makes a breaker with it."""
    listed = [one.sequence for one in entries(written, False) if one.text is None]
    found = [text.encode()[:_LONGEST_BREAKER] for text in texts(written, False)]
    if not found:
        return lambda token: _listed(token, tuple(listed))
    name, encode = context.token, context.encode
    if name is None:
        raise SamplingError(f"breaker {texts(written, False)[0]!r} needs the text of the tokens")

    @functools.cache
    def tails(token: int) -> Tails:
        data = name(token).bytes
        of_texts = (tail for text in found for tail in overlaps(data, text, encode))
        return tuple(dict.fromkeys((*_listed(token, tuple(listed)), *of_texts)))

    return tails


def _listed(token: int, breakers: tuple[tuple[int, ...], ...]) -> Tails:
    return tuple(one[1:] for one in breakers if one[0] == token)


def overlaps(
    data: bytes, breaker: bytes, encode: Callable[[str], Sequence[int]] | None
) -> list[tuple[int, ...]]:
    """Continuations of a token of bytes ``data`` that complete ``breaker``; () where it holds it.

    llama.cpp's rule (get_overlapping_token_sequences): of a breaker that begins in the token and
    does not end there, the tokens that ``encode`` makes of the rest. Raises SamplingError where
    there is a rest and no ``encode``.
    """
    if breaker in data:
        return [()]
    found = []
    for start in range(len(data)):
        inside = data[start:]
        if not breaker.startswith(inside):
            continue
        rest = breaker[len(inside) :].decode("utf-8", "replace")
        if encode is None:
            raise SamplingError(f"breaker of several characters: {rest!r} needs a tokenizer")
        found.append(tuple(encode(rest))[:_LONGEST_TAIL])
    return found
