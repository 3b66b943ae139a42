"""Tokens as bytes, bytes as text, and text as something a terminal may be given.

Model output is hostile input: it may hold escape sequences, characters that
reorder the line, characters nobody can see, and pieces of characters. So a
token is an id and *bytes*; text is made from the bytes of a whole sequence
(`IncrementalDecoder`), and nothing reaches a screen before `visible` or
`visible_bytes` has seen it.

Pure functions and small objects over `str` and `bytes`: no torch, no transformers, no screen
library. `engine.models.token_table` reads a tokenizer's tokens.

The door for foreign text is at the edge: whatever leaves the program passes `safe`, in
`engine.safe_output` (streams and the log), `inspector.safe_screen` (every line of every widget)
and `sessions.export.formats` (files), so no pane or command has to remember it. `visible` is for
those who lay text out: it also shows what hides, and the widths are then measured right.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from functools import lru_cache
from typing import Literal

from engine.records.partial import Interval

Kind = Literal["normal", "special", "added", "byte", "unused"]
"""Kind of an id in the vocabulary.

`special`: the tokenizer drops it when asked for plain text. `added`: added after
training, but ordinary text. `byte`: its bytes alone are not whole characters, or
it is a `<0xNN>` token. `unused`: the logits have this row, the tokenizer has not.
"""


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
    """A token's name in a list, never empty.

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
    if isinstance(probability, Interval):
        return probability.written(share)
    if probability <= 0.0:
        return "0%"
    per_cent = probability * 100
    if per_cent < 0.005:
        return "<.01%"
    if per_cent < 9.995:
        return f"{per_cent:.2f}%"
    return f"{per_cent:.1f}%" if per_cent < 99.95 else "100%"


def plural(number: int | Interval, thing: str, things: str = "") -> str:
    """``1 step``, ``2 steps``, of a whole number or an interval of them.

    ``things`` where that is more than an s: ``2 branches``.
    """
    return f"{number:,} {thing if number == 1 else things or f'{thing}s'}"
