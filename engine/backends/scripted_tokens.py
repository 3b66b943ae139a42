"""Vocabularies of scripted backends: letters, words with bytes, and the token that ends a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.records.vocabulary import Token, TokenKind

END = "<end>"


def token_of(token_id: int, given: str | bytes | Token) -> Token:
    """The token of a script's entry: the end is special, a part of a character a byte."""
    if isinstance(given, Token):
        return replace(given, id=token_id)
    data = given.encode() if isinstance(given, str) else given
    if data == END.encode():
        return Token(token_id, data, TokenKind.SPECIAL)
    try:
        data.decode()
    except UnicodeDecodeError:
        return Token(token_id, data, TokenKind.BYTE)
    return Token(token_id, data)


def letters(count: int) -> list[str]:
    """``a`` to ``z``, then the code points from U+0100 on."""
    return [chr(ord("a") + n) if n < 26 else chr(0x100 + n) for n in range(count)]


def words_and_bytes(words: Sequence[str]) -> list[str | bytes]:
    """The distinct words, the bytes that are not words already, and the end."""
    distinct: dict[bytes, None] = dict.fromkeys(word.encode() for word in words)
    distinct.update(dict.fromkeys(bytes([byte]) for byte in range(256)))
    return [*distinct, END]
