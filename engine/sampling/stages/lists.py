r"""Lists of token sequences as a dial writes them: ``318 257, 'New York':-1.5``.

Entries are separated by commas. An entry is one or more token ids, separated by spaces, or text
in single quotes (``\'``, ``\\``, ``\n`` and ``\t`` inside), which a tokenizer turns into ids.
Where the dial gives each entry a number, it follows after a colon; ``-inf`` forbids.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

Resolver = Callable[[str], Sequence[int]]
"""A tokenizer: the ids of a text, without special tokens."""

_PIECE = re.compile(r"\s*(?:'((?:[^'\\]|\\.)*)'|(\d+)(?![\w.])|:\s*([^\s,']+)|(,))\s*")
_ESCAPES = {"n": "\n", "t": "\t"}
_MAX_ID = 2**31 - 1


@dataclass(frozen=True)
class Entry:
    """One token sequence, as ids or as text still to be tokenized, and its number if it has one."""

    sequence: tuple[int, ...]
    text: str | None = None
    number: float | None = None


@functools.lru_cache(maxsize=256)
def entries(written: str, numbered: bool) -> tuple[Entry, ...]:
    """Read a list. Raises ValueError that quotes what cannot be read."""
    found: list[Entry] = []
    current = Entry(())
    at = 0
    while at < len(written):
        match = _PIECE.match(written, at)
        if match is None:
            raise ValueError(f"cannot read {written[at:].strip()!r}: {_example(numbered)}")
        text, token_id, number, comma = match.groups()
        if text is not None and current == Entry(()):
            current = Entry((), _unescape(text))
        elif token_id is not None and current.text is None and current.number is None:
            current = Entry((*current.sequence, _token_id(token_id)))
        elif number is not None and numbered and current.number is None and current != Entry(()):
            current = Entry(current.sequence, current.text, _number(number))
        elif comma is not None and _complete(current, numbered):
            found.append(current)
            current = Entry(())
        else:
            raise ValueError(f"cannot read {written[at:].strip()!r}: {_example(numbered)}")
        at = match.end()
    if current != Entry(()):
        if not _complete(current, numbered):
            raise ValueError(f"{written.strip()!r} lacks a number: {_example(numbered)}")
        found.append(current)
    return tuple(found)


def spell(listed: Iterable[Entry]) -> str:
    """Write a list in its one proper spelling; ``entries`` reads it back."""
    return ", ".join(map(_spell, listed))


def sequences(written: str) -> str:
    """The form of a dial that lists token sequences."""
    return spell(entries(written, False))


def numbered_sequences(written: str) -> str:
    """The form of a dial that gives token sequences a number each."""
    return spell(entries(written, True))


def single_ids(written: str) -> str:
    """The form of a dial that lists single tokens."""
    for entry in entries(written, False):
        if len(entry.sequence) > 1:
            raise ValueError(f"{_spell(entry)!r} is a sequence: separate single tokens by commas")
    return sequences(written)


def with_ids(written: str, numbered: bool, resolve: Resolver) -> str:
    """The same list with every text turned into ids. Raises ValueError for text without ids."""
    found = []
    for entry in entries(written, numbered):
        if entry.text is not None:
            ids = tuple(int(token_id) for token_id in resolve(entry.text))
            if not ids:
                raise ValueError(f"{entry.text!r} has no tokens")
            entry = Entry(ids, None, entry.number)
        found.append(entry)
    return spell(found)


def twin(text: str) -> str:
    """The same word with a space before it, or without the one that it has."""
    return text.lstrip() if text[:1].isspace() else f" {text}"


def with_space_too(written: str, resolve: Resolver) -> str:
    """A list in ids, each text without and with a space before it, as vLLM reads bad_words.

    The second only where it begins with another token and is as long
    (``SamplingParams.update_from_tokenizer``).
    """
    found: list[Entry] = []
    for entry in entries(written, False):
        if entry.text is None:
            found.append(entry)
            continue
        word = entry.text.lstrip()
        bare, spaced = tuple(resolve(word)), tuple(resolve(f" {word}"))
        if not bare:
            raise ValueError(f"{entry.text!r} has no tokens")
        found.append(Entry(bare))
        if len(spaced) == len(bare) and spaced[0] != bare[0]:
            found.append(Entry(spaced))
    return spell(found)


def texts(written: str, numbered: bool) -> list[str]:
    """The texts of a list that are still to be tokenized."""
    return [entry.text for entry in entries(written, numbered) if entry.text is not None]


def _complete(entry: Entry, numbered: bool) -> bool:
    there = entry.text is not None or bool(entry.sequence)
    return there and (entry.number is not None) == numbered


def _token_id(text: str) -> int:
    value = int(text)
    if value > _MAX_ID:
        raise ValueError(f"{text} is no token id")
    return value


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None
    if math.isnan(value) or value == math.inf:
        raise ValueError(f"{text} is not allowed: a finite number, or -inf to forbid")
    return value


def _spell(entry: Entry) -> str:
    if entry.text is None:
        body = " ".join(map(str, entry.sequence))
    else:
        escaped = entry.text.replace("\\", "\\\\").replace("'", "\\'")
        body = "'" + escaped.replace("\n", "\\n").replace("\t", "\\t") + "'"
    return body if entry.number is None else f"{body}:{_spell_number(entry.number)}"


def _spell_number(number: float) -> str:
    short = f"{number:g}"
    return short if float(short) == number else repr(number)


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), text, flags=re.DOTALL)


def _example(numbered: bool) -> str:
    return "write ids or 'text', such as " + ("318:-1, 'New':+2" if numbered else "318 257, 'New'")
