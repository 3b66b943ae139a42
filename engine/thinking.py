"""Thinking spans: which tokens of an output stand between a model's thinking tags, tags included.

A tag is found by its bytes, so that it does not matter how many tokens it is made of. A prompt
that ends in the opening tag, as some chat templates write it, begins an output that thinks.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from engine.records.prompt import PromptRecord
from engine.records.thinking import ThinkingSettings
from engine.records.vocabulary import Token

_TAIL = 16
"""Tokens of a prompt that are looked at for an opening tag at its end, with blanks behind it."""


def prompt_opens(prompt: PromptRecord | None, tags: ThinkingSettings) -> bool:
    """True if the prompt ends in the opening tag, so that the output begins inside."""
    if prompt is None or not tags.known:
        return False
    opens = tags.open_bytes
    tail = b"".join(token.bytes for token in prompt.tokens[-max(_TAIL, len(opens) + 4) :])
    return tail.rstrip().endswith(opens.strip() or opens)


def thinking_mask(
    prompt: PromptRecord | None, tokens: Sequence[Token], tags: ThinkingSettings
) -> NDArray[np.bool_]:
    """Mask of the output's ``tokens`` that are part of a thinking span; none without tags."""
    mask = np.zeros(len(tokens), np.bool_)
    if not tags.known or not len(tokens):
        return mask
    opens, closes = tags.open_bytes, tags.close_bytes
    data = b"".join(token.bytes for token in tokens)
    ends = list(accumulate(len(token.bytes) for token in tokens))
    place, inside = 0, prompt_opens(prompt, tags)
    while place <= len(data):
        start = place if inside else data.find(opens, place)
        if start < 0:
            break
        end = data.find(closes, start if inside else start + len(opens))
        stop = len(data) if end < 0 else end + len(closes)
        # The tokens that have a byte in start .. stop.
        mask[bisect_right(ends, start) : bisect_left(ends, stop) + 1] = True
        if end < 0:
            break
        place, inside = stop, False
    return mask


def span_count(mask: NDArray[np.bool_]) -> int:
    """Number of spans: runs of thinking tokens."""
    return int(np.count_nonzero(np.diff(mask.astype(np.int8), prepend=0) == 1))
