"""Characters that cannot be typed or shown, written with a backslash, and read back.

The forms are those of Python and JSON: ``\\n``, ``\\t``, ``\\x1b``, ``\\u202e``, ``\\U000e0001``;
``\\\\`` is a backslash.
"""

from __future__ import annotations

import re

from engine.text import visible

_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.?))", re.DOTALL)
_SHORT = {"n": "\n", "r": "\r", "t": "\t", "0": "\0", "\\": "\\"}


def needs_escapes(text: str) -> bool:
    """True if a text has characters that no text box shows, or keeps, as they are."""
    return visible(text, newline="\n", tab="\t") != text


def escaped(text: str) -> str:
    """The text as it can be edited, line by line: ``unescaped`` makes the very same of it."""
    return "".join(_written(character) for character in text)


def _written(character: str) -> str:
    if character == "\\":
        return "\\\\"
    if not needs_escapes(character):
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else _long(code)


def _long(code: int) -> str:
    return f"\\U{code:08x}"


def unescaped(text: str) -> str:
    """The text that was meant. Raises ValueError, which names what cannot be read."""
    return _ESCAPE.sub(_read, text)


def _read(match: re.Match[str]) -> str:
    *codes, short = match.groups()
    code = next((one for one in codes if one), None)
    if code is not None:
        value = int(code, 16)
        if value > 0x10FFFF:
            raise ValueError(f"there is no character {match[0]}")
        return chr(value)
    if short not in _SHORT:
        raise ValueError(f"{match[0]} stands for nothing: write \\\\ for a backslash")
    return _SHORT[short]
