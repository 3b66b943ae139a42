"""Loop watch: text that has fallen into a repeated cycle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.sampling.stages.dry import z_function

WINDOW = 1024
"""Tokens that a check looks back. It bounds the longest cycle found, at a third of it."""
MIN_REPEATS = 3
"""A cycle that has run so often counts as a loop ..."""
MIN_TOKENS = 12
"""... once it fills at least so many tokens, so that ``no, no, no`` is none."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A cycle at the end of a sequence: the last tokens repeat with period ``length``.

    ``start`` is the index of the first token of the repeating part; ``repeats`` counts whole
    cycles from there to the end. At a ``start`` of 0 of a cut window the loop may be older.
    """

    length: int
    start: int
    repeats: int


def find_loop(
    ids: Sequence[int],
    *,
    window: int = WINDOW,
    min_repeats: int = MIN_REPEATS,
    min_tokens: int = MIN_TOKENS,
) -> Loop | None:
    """The loop that the end of ``ids`` is in, by its shortest cycle; None when there is none.

    Linear in ``window`` (Z-function of the reversed tail): a suffix has period p exactly when
    the reversed tail matches itself p places on.
    """
    tail = list(ids[-window:])
    if len(tail) < max(min_tokens, 2) or tail.count(tail[-1]) < min_repeats:
        return None
    matches = z_function(tail[::-1])
    for period in range(1, len(tail) // min_repeats + 1):
        span = period + matches[period]
        if span >= period * min_repeats and span >= min_tokens:
            return Loop(period, len(ids) - span, span // period)
    return None
