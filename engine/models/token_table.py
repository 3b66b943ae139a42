"""Every id of a tokenizer as bytes: byte-level BPE, SentencePiece, WordPiece and added tokens.

A tokenizer is passed in and duck-typed: no torch and no transformers here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from engine.text import Kind


class Token(NamedTuple):
    """One id of the vocabulary.

    `data` is what the id adds to a text that has already begun; `first` what it
    gives at the very start of a text. They differ where the tokenizer's decoder
    drops the space that it put before the first word.
    """

    id: int
    data: bytes
    kind: Kind
    first: bytes


class TokenTable:
    """Every id of a model's logits, computed when asked for and then kept.

    Opening one costs nothing whatever the size of the vocabulary. `len(table)` is
    the width of the logits, which may be more than the tokenizer has. An id outside
    `0 .. len(table) - 1` raises IndexError. Pickling reads every id once and carries
    plain rows, never the tokenizer; what an unpickled table cannot know is the little
    that a rare decoder (WordPiece's kin) makes of a token's neighbours.
    """

    def __init__(
        self,
        size: int,
        read: Callable[[int], Token],
        added_by: Callable[[Sequence[int], int], bytes | None] | None = None,
    ) -> None:
        """`added_by(before, id)` says what an id adds where its place in the text matters."""
        self._size = size
        self._read = read
        self._added_by = added_by
        self._seen: dict[int, Token] = {}

    @classmethod
    def from_tokenizer(cls, tokenizer: Any, vocab_size: int) -> TokenTable:
        """The table of a transformers tokenizer for logits `vocab_size` wide."""
        rule = _rule(tokenizer)
        if rule:
            return cls(vocab_size, _reader(tokenizer, _by_rule(tokenizer, rule)))
        decoding = _ByDecoding(tokenizer)
        return cls(vocab_size, _reader(tokenizer, decoding), decoding.added_by)

    @classmethod
    def from_rows(cls, rows: Iterable[Token]) -> TokenTable:
        """A table from rows in the order of their ids, 0 first, none missing."""
        listed = tuple(rows)
        return cls(len(listed), listed.__getitem__)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, token_id: int) -> Token:
        found = self._seen.get(token_id)
        if found is None:
            if not 0 <= token_id < self._size:
                raise IndexError(
                    f"token id {token_id} is outside the vocabulary 0..{self._size - 1}"
                )
            found = self._seen[token_id] = self._read(token_id)
        return found

    def __iter__(self) -> Iterator[Token]:
        return (self[token_id] for token_id in range(self._size))

    def piece(self, token_id: int, before: Sequence[int]) -> bytes:
        """The bytes that `token_id` adds to a text of which `before` are all the ids."""
        token = self[token_id]
        if not before:
            return token.first
        if self._added_by and token.kind not in ("byte", "unused"):
            added = self._added_by(before, token_id)
            return token.data if added is None else added
        return token.data

    def pieces(self, ids: Sequence[int]) -> list[bytes]:
        """The bytes that each id of a whole text adds; joined, they are the text.

        Joined and decoded they equal the tokenizer's own decode (special tokens kept,
        no clean-up), but for bytes that are no UTF-8, which it makes U+FFFD its own way.
        """
        return [self.piece(i, ids[max(0, n - _WINDOW) : n]) for n, i in enumerate(ids)]

    def __reduce__(self) -> tuple[Any, ...]:
        return TokenTable.from_rows, (tuple(self),)


# --- reading a tokenizer --------------------------------------------------------------------


def _alphabet() -> dict[str, int]:
    """GPT-2's letters for the 256 bytes: printable Latin-1 stands for itself, the
    other bytes are U+0100 onwards, in order."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [byte for byte in range(256) if byte not in set(plain)]
    return {chr(b): b for b in plain} | {chr(0x100 + n): b for n, b in enumerate(rest)}


_BYTE_OF_LETTER = _alphabet()
_WINDOW = 8  # ids before a token that can change what it adds; a marker reaches one
_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")

# From a token's own string to (bytes in the middle of a text, bytes at its start).
Rule = Callable[[str], tuple[bytes, bytes]]


def _encode(text: str) -> bytes:
    """UTF-8; a lone surrogate, which has no UTF-8, becomes U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def byte_level(surface: str) -> bytes:
    """The bytes that byte-level BPE's letters stand for; a letter that is none stands as it is."""
    try:
        return bytes([_BYTE_OF_LETTER[letter] for letter in surface])
    except KeyError:
        return _encode(surface)


def _byte_level(surface: str) -> tuple[bytes, bytes]:
    data = byte_level(surface)
    return data, data


def _sentencepiece(steps: list[dict[str, Any]]) -> Rule | None:
    """The rule of a chain of SentencePiece-like decoder steps, None if one is unknown.

    A byte token stays the byte it names. Replacements are applied in order. `Strip`
    takes spaces off the front of the text, Metaspace every marker of the first token.
    Steps in an order in which one id's bytes would depend on another's are unknown.
    """
    replace: list[tuple[str, str]] = []
    byte_tokens = fused = False
    strip = 0
    marker = ""
    for step in steps:
        match step:
            case {"type": "Replace", "pattern": {"String": str(old)}, "content": str(new)} if (
                len(old) == 1
            ):
                replace.append((old, new))
            case {"type": "Metaspace", "replacement": str(old)} if not fused:
                replace.append((old, " "))
                if step.get("prepend_scheme", "always") != "never":
                    marker = old
            case {"type": "ByteFallback"} if not fused:
                byte_tokens = True
            case {"type": "Fuse"}:
                fused = True
            case {"type": "Strip", "content": " ", "start": 0 | 1 as start, "stop": 0} if fused:
                strip += start
            case _:
                return None

    def render(text: str) -> bytes:
        for old, new in replace:
            text = text.replace(old, new)
        return _encode(text)

    def rule(surface: str) -> tuple[bytes, bytes]:
        if byte_tokens and (found := _BYTE_TOKEN.fullmatch(surface)):
            data = bytes([int(found[1], 16)])
        else:
            data = render(surface)
        first = render(surface.replace(marker, "")) if marker and marker in surface else data
        for _ in range(strip):
            first = first.removeprefix(b" ")
        return data, first

    return rule


def _decoder_steps(tokenizer: Any) -> list[dict[str, Any]] | None:
    """The decoder of a fast tokenizer as a flat list of its steps, None if it has none."""
    decoder = getattr(getattr(tokenizer, "backend_tokenizer", None), "decoder", None)
    if decoder is None:
        return None
    # Its pickled state is its JSON; the tokenizer's own to_str() would write out the
    # whole vocabulary to tell us the same thing.
    pending = [json.loads(decoder.__getstate__())]
    steps: list[dict[str, Any]] = []
    while pending:
        step = pending.pop(0)
        if step.get("type") == "Sequence":
            pending = [*step.get("decoders", ()), *pending]
        else:
            steps.append(step)
    return steps


def _rule(tokenizer: Any) -> Rule | None:
    steps = _decoder_steps(tokenizer)
    if not steps:
        return None
    kinds = [step.get("type") for step in steps]
    # Some conversions put SentencePiece's steps before it; its letters pass them unchanged.
    if kinds[-1] == "ByteLevel" and {*kinds[:-1]} <= {"ByteFallback", "Fuse", "Replace"}:
        return _byte_level
    return _sentencepiece(steps)


class _ByDecoding:
    """Bytes of an id under a decoder that we know no rule for (WordPiece, slow ones).

    What an id adds is decode(before + [id]) less decode(before), with one ordinary
    word before it, so that a marker of "begins a word" shows as the space it is.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._before: list[int] = []
        found = list(tokenizer.encode("a", add_special_tokens=False))[:1]
        if found and self._decode(found).strip():
            self._before = found

    def _decode(self, ids: list[int]) -> str:
        # clean-up would take away the space before a full stop
        return str(
            self._tokenizer.decode(
                ids, skip_special_tokens=False, clean_up_tokenization_spaces=False
            )
        )

    def added_by(self, before: Sequence[int], token_id: int) -> bytes | None:
        """Text that `token_id` adds to the text of `before`; None if it rewrites that text."""
        near = list(before[-_WINDOW:])
        text, longer = self._decode(near), self._decode([*near, token_id])
        return _encode(longer.removeprefix(text)) if longer.startswith(text) else None

    def __call__(self, token_id: int, surface: str) -> tuple[bytes, bytes]:
        alone = self._decode([token_id])
        if alone == "\ufffd" and (found := _BYTE_TOKEN.fullmatch(surface)):
            data = bytes([int(found[1], 16)])
            return data, data
        added = self.added_by(self._before, token_id)
        return _encode(alone) if added is None else added, _encode(alone)


def _by_rule(tokenizer: Any, rule: Rule) -> Callable[[int, str], tuple[bytes, bytes]]:
    """The bytes of an id by ``rule``, those of an added token by how it is written.

    An added token is cut out of the text before the model's alphabet (bytes as letters, a marker
    for a space) comes into play, so its string is its text, whatever the tokenizer's own decode
    makes of it. Not so where the model's own merges lead to the same id, nor where the text is
    normalised before it is looked for, when a marker in it may be a space.
    """
    backend, added = tokenizer.backend_tokenizer, tokenizer.added_tokens_decoder

    def as_written(token_id: int, surface: str) -> bool:
        if token_id not in added or surface.isascii():
            return False
        if rule is not _byte_level and backend.normalizer and added[token_id].normalized:
            return False
        return [one.id for one in backend.model.tokenize(surface)] != [token_id]

    def bytes_of(token_id: int, surface: str) -> tuple[bytes, bytes]:
        data, first = rule(surface)
        written = _encode(surface)
        if data == written or not as_written(token_id, surface):
            return data, first
        return written, written

    return bytes_of


def _reader(
    tokenizer: Any, bytes_of: Callable[[int, str], tuple[bytes, bytes]]
) -> Callable[[int], Token]:
    """A reader of single ids of `tokenizer`, their bytes by `bytes_of(id, its own string)`."""
    added = tokenizer.added_tokens_decoder
    special = {i for i, token in added.items() if getattr(token, "special", False)}
    special |= {i for i in tokenizer.all_special_ids if i is not None}

    def read(token_id: int) -> Token:
        surface = tokenizer.convert_ids_to_tokens(token_id)
        if surface is None:
            return Token(token_id, b"", "unused", b"")
        data, first = bytes_of(token_id, surface)
        kind: Kind = "normal"
        if token_id in special:
            kind = "special"
        elif token_id in added:
            kind = "added"
        elif not _whole(data) or (len(data) == 1 and _BYTE_TOKEN.fullmatch(surface)):
            kind = "byte"
        return Token(token_id, data, kind, data if first == data else first)

    return read


def _whole(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
