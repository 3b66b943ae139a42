"""The vocabulary: tokens as ids and bytes, one by one or all of them packed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray


class TokenKind(StrEnum):
    """Kind of a vocabulary entry."""

    NORMAL = "normal"
    SPECIAL = "special"
    ADDED = "added"
    BYTE = "byte"
    UNUSED = "unused"


KINDS = tuple(TokenKind)
_MOST_SHARED = 1 << 18
"""More than the vocabulary of one model."""


@dataclass(frozen=True, slots=True)
class Token:
    """One vocabulary entry: its id and the exact bytes it stands for."""

    id: int
    bytes: bytes
    kind: TokenKind = TokenKind.NORMAL

    def __reduce__(self) -> tuple[Callable[..., Token], tuple[Any, ...]]:
        # Each of a step's candidates is one: what comes through a pipe shares them.
        return _shared, (self.id, self.bytes, self.kind)


@lru_cache(maxsize=_MOST_SHARED)
def _shared(token_id: int, data: bytes, kind: TokenKind) -> Token:
    return Token(token_id, data, kind)


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Every token of the model, sent on request, packed so that it crosses a pipe at once.

    Token ``i`` is ``blob[offsets[i]:offsets[i + 1]]`` with kind ``KINDS[kinds[i]]``.
    """

    blob: bytes
    offsets: NDArray[np.int64]  # (vocab_size + 1,)
    kinds: NDArray[np.uint8]  # (vocab_size,)

    def __len__(self) -> int:
        return len(self.kinds)

    def token(self, token_id: int) -> Token:
        """The token of ``token_id``. Raises IndexError outside ``0 <= token_id < vocab_size``."""
        if not 0 <= token_id < len(self):
            raise IndexError(f"token id {token_id} is outside 0..{len(self) - 1}")
        start, end = self.offsets[token_id], self.offsets[token_id + 1]
        return Token(token_id, self.blob[start:end], KINDS[self.kinds[token_id]])

    @classmethod
    def pack(cls, tokens: Iterable[Token]) -> Vocabulary:
        """Pack tokens given in id order, from 0 on, without gaps."""
        listed = list(tokens)
        lengths = np.fromiter((len(token.bytes) for token in listed), np.int64, len(listed))
        return cls(
            blob=b"".join(token.bytes for token in listed),
            offsets=np.concatenate(([0], np.cumsum(lengths))),
            kinds=np.fromiter((KINDS.index(t.kind) for t in listed), np.uint8, len(listed)),
        )
