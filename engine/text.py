"""Tokens as bytes, bytes as text, and text as something a terminal may be given.

Model output is hostile input: it may hold escape sequences, characters that
reorder the line, characters nobody can see, and pieces of characters. So a
token is an id and *bytes*; text is made from the bytes of a whole sequence
(`IncrementalDecoder`), and nothing reaches a screen before `visible` or
`visible_bytes` has seen it.

Pure functions and small objects over `str` and `bytes`: no torch, no
transformers, no screen library. A tokenizer is passed in and duck-typed.

The door for foreign text is at the edge: whatever leaves the program passes `safe`, in
`engine.safe_output` (streams and the log), `inspector.safe_screen` (every line of every widget)
and `sessions.export.formats` (files), so no pane or command has to remember it. `visible` is for
those who lay text out: it also shows what hides, and the widths are then measured right.
"""

from __future__ import annotations

import codecs
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

Kind = Literal["normal", "special", "added", "byte", "unused"]
"""What an id of the vocabulary is.

`special`: the tokenizer drops it when asked for plain text. `added`: added after
training, but ordinary text. `byte`: its bytes alone are not whole characters, or
it is a `<0xNN>` token. `unused`: the logits have this row, the tokenizer has not.
"""


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


# ---------------------------------------------------------------- reading a tokenizer


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


def _byte_level(surface: str) -> tuple[bytes, bytes]:
    try:
        data = bytes([_BYTE_OF_LETTER[letter] for letter in surface])
    except KeyError:  # a letter outside the alphabet stands as it is
        data = _encode(surface)
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
        """What `token_id` adds to the text of `before`; None if it rewrites that text."""
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
    """What reads one id of `tokenizer`, its bytes by `bytes_of(id, its own string)`."""
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


# ------------------------------------------------------------------- bytes into text


class IncrementalDecoder:
    """UTF-8 bytes in, text out as soon as a character is complete.

    What `feed` returns, joined, plus `flush`, equals all the bytes decoded at once
    with `errors="replace"`, however they were cut. Invalid bytes become U+FFFD in the
    text only; whoever needs them has them.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> str:
        """The text that `data` completes, "" while a character is still open."""
        return self._decoder.decode(data)

    @property
    def pending(self) -> bytes:
        """The bytes of the character that is still open, at most three."""
        return self._decoder.getstate()[0]

    def flush(self) -> str:
        """The end of the text: U+FFFD for what stayed open. Ready for a new text."""
        return self._decoder.decode(b"", final=True)


# ---------------------------------------------------------------- text for the screen

# Invisible, though their category is that of a letter, a mark or nothing yet (Unicode's
# Default_Ignorable_Code_Point, less what is Cf anyway).
_IGNORABLE = (
    (0x034F, 0x034F),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x2065, 0x2065),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFF8),
    (0xE0000, 0xE0FFF),
)
_ZWJ = "\u200d"
_VS16 = "\ufe0f"
# Characters that a joiner may join: pictographs, or the skin tone or VS16 after one.
_PICTOGRAPH = (
    "[\u00a9\u00ae\u203c\u2049\u2122\u2139\u2194-\u21aa\u231a-\u23ff\u24c2\u25aa-\u27bf"
    "\u2934\u2935\u2b05-\u2b55\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]"
)
_EMOJI_SEQUENCE = re.compile(
    f"(?:{_PICTOGRAPH}[\U0001f3fb-\U0001f3ff]?{_VS16}?(?:{_ZWJ}(?={_PICTOGRAPH}))?)+"
    f"|[0-9#*]{_VS16}\u20e3"
)


def _form(code: int) -> str:
    """The visible form of one code point, the character itself where that is safe."""
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    if 0x80 <= code <= 0x9F:
        return f"\\x{code:02x}"
    hidden = (
        # Cf is every bidi control, joiner, soft hyphen, tag and zero-width space there
        # is; Zl and Zp would break the line; surrogates cannot be written at all.
        unicodedata.category(chr(code)) in ("Cf", "Cs", "Zl", "Zp")
        or (code & 0xFFFE) == 0xFFFE
        or 0xFDD0 <= code <= 0xFDEF
        or any(low <= code <= high for low, high in _IGNORABLE)
    )
    return f"<U+{code:04X}>" if hidden else chr(code)


class _Forms(dict[int, str]):
    """A table for `str.translate` that fills itself."""

    def __missing__(self, code: int) -> str:
        form = self[code] = _form(code)
        return form


@lru_cache(maxsize=16)
def _forms(newline: str, tab: str) -> _Forms:
    return _Forms({0x0A: newline, 0x09: tab})


def visible(text: str, *, newline: str = "⏎", tab: str = "⇥", emoji: bool = False) -> str:
    """`text` with everything that acts on a terminal, or hides on it, made visible.

    C0 controls become control pictures (␛, ␀), DEL ␡, C1 controls `\\x9b`; bidi
    controls, zero-width and other invisible characters, line separators, variation
    selectors, lone surrogates and noncharacters `<U+202E>`. `newline` and `tab` are
    what those two become: pass "\\n" (or "⏎\\n") to keep line breaks. With the
    defaults the result holds no control character, and always encodes to UTF-8.

    `emoji=True` keeps VS16 and the zero-width joiner where they make up an emoji
    (❤️, 👩‍💻). Terminals differ in how wide they draw these, so only a place where
    nothing stands behind them should ask for it.
    """
    forms = _forms(newline, tab)
    if not emoji:
        return text.translate(forms)
    shown: list[str] = []
    end = 0
    for found in _EMOJI_SEQUENCE.finditer(text):
        shown += text[end : found.start()].translate(forms), found[0]
        end = found.end()
    return "".join(shown) + text[end:].translate(forms)


# What a terminal acts on, and what XML and UTF-8 cannot hold: the controls, line separators and
# bidi controls, lone surrogates, the two noncharacters of the basic plane.
_ACTING = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def safe(text: str, *, newline: str = "\n", tab: str = "\t") -> str:
    """`text` with only what acts on a terminal made visible, in the forms of `visible`.

    For the edge, where every text passes whoever wrote it: our own signs, emoji and the joiners
    that some scripts need stay as they are. Text without any of it costs one look.
    """
    if text.isprintable():
        return text
    forms = _forms(newline, tab)
    return _ACTING.sub(lambda found: forms[ord(found[0])], text)


def visible_bytes(data: bytes, *, newline: str = "⏎", tab: str = "⇥") -> str:
    """The bytes of one token, made visible in a cell of their own.

    Whole characters go through `visible`; bytes that are only a piece of one (or no
    UTF-8 at all) are shown as `\\xf0\\x9f`. An accent that comes first gets a dotted
    circle to sit on (◌́), or it would sit on whatever stands before the cell.
    """
    shown: list[str] = []
    while data:
        try:
            text, bad, rest = data.decode(), b"", b""
        except UnicodeDecodeError as error:
            text = data[: error.start].decode()
            bad, rest = data[error.start : error.end], data[error.end :]
        if text[:1] == visible(text[:1]) and unicodedata.category(text[:1] or " ")[0] == "M":
            shown.append("◌")
        shown.append(visible(text, newline=newline, tab=tab))
        shown += [f"\\x{byte:02x}" for byte in bad]
        data = rest
    return "".join(shown)


def label(token_id: int, data: bytes, kind: Kind) -> str:
    """What stands for a token in a list, never empty.

    `<unused 49999>` for an id the tokenizer has not, `<empty 7>` for one that adds
    nothing, else `visible_bytes` of what it adds.
    """
    if kind == "unused":
        return f"<unused {token_id}>"
    return visible_bytes(data) or f"<empty {token_id}>"


def quote(text: str, limit: int = 60) -> str:
    """`text` on one line, in double quotes, at most `limit` characters of it (then …)."""
    # cut before and after: a megabyte need not be translated to show sixty characters
    shown = visible(text[: limit + 1])
    return f'"{shown}"' if len(shown) <= limit else f'"{shown[: max(limit - 1, 0)]}…"'


def share(probability: float) -> str:
    """A probability in per cent, in at most 5 characters; above 0 it never reads 0%."""
    if probability <= 0.0:
        return "0%"
    per_cent = probability * 100
    if per_cent < 0.005:
        return "<.01%"
    if per_cent < 9.995:
        return f"{per_cent:.2f}%"
    return f"{per_cent:.1f}%" if per_cent < 99.95 else "100%"
