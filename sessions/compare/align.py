"""Two texts side by side: what they share, and what only one of them has."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass

_WORDS_COMPARED = 4000
_WORD = re.compile(rb"\s*[^\s]+|\s+")


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of two texts: ``a == b`` where they agree, else what each has there."""

    a: bytes
    b: bytes

    @property
    def same(self) -> bool:
        return self.a == self.b


def common_prefix(a: bytes, b: bytes) -> int:
    """Number of bytes that the two begin with in common."""
    if a == b:
        return len(a)
    shorter = min(len(a), len(b))
    if a[:shorter] == b[:shorter]:
        return shorter
    low, high = 0, shorter
    while high - low > 1:
        middle = (low + high) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle
    return low


def align(a: bytes, b: bytes) -> Iterator[Segment]:
    """The two texts in stretches, which joined give them back; no stretch is empty on both sides.

    After the first difference words are compared, and never tokens: those of two tokenizers have
    little in common. No character is cut in two.
    """
    start = _character_start(a, common_prefix(a, b))
    if start:
        yield Segment(a[:start], b[:start])
    words_a, words_b = _WORD.findall(a[start:]), _WORD.findall(b[start:])
    if max(len(words_a), len(words_b)) > _WORDS_COMPARED:
        yield Segment(a[start:], b[start:])
        return
    matcher = difflib.SequenceMatcher(None, words_a, words_b, autojunk=False)
    for _, from_a, to_a, from_b, to_b in matcher.get_opcodes():
        yield Segment(b"".join(words_a[from_a:to_a]), b"".join(words_b[from_b:to_b]))


def _character_start(data: bytes, at: int) -> int:
    """``at``, or the start of the character that it lies within."""
    start = at
    while 0 < start < len(data) and data[start] & 0xC0 == 0x80 and at - start < 3:
        start -= 1
    return start
