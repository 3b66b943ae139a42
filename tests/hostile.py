"""A text that a terminal would act on, put into every string of whatever comes from outside."""

from __future__ import annotations

import dataclasses
import re
import shutil
import sqlite3
import typing
import unicodedata
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from engine.records.events import Record
from engine.records.round import (
    Accept,
    Drafted,
    DraftVerdict,
    Residual,
    ResidualRow,
    RoundEnd,
    RoundRecord,
)
from engine.records.step import StepRecord
from engine.records.vocabulary import Token
from sessions.examples import example
from sessions.rows import codec

MARKER = "\x1b]52;c;evil\x1b\\\x07\x9b31m\x00\x7f\r\u202eevil\u2066"
"""Writes the clipboard, rings, colours and turns the line round; it can stand in a file's TEXT."""
LONE = MARKER + "\ud800\udc9b"
"""The same with lone surrogates, of which one would be the byte 9b."""

_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
"""Colours and cursor movements, which are all that our own output needs."""
_BIDI = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}


def acting(text: str, *, allowed: str = "\n\t") -> str:
    """The characters of ``text`` that no output may have: controls, bidi controls, surrogates."""
    return "".join(
        one
        for one in text
        if one not in allowed
        and (
            unicodedata.category(one) in ("Cc", "Cs")
            or unicodedata.bidirectional(one) in _BIDI
            or one in "\u061c\u200e\u200f\u2028\u2029"
        )
    )


A_ROUND = RoundRecord(
    node=1,
    parent=0,
    source="x",
    accept=Accept.EXACT,
    asked=1,
    drafted=(Drafted(Token(1, b"x"), 0.5, DraftVerdict.REJECTED, p=0.25, u=0.75),),
    added=1,
    end=RoundEnd.REJECTED,
    draft_ms=1.0,
    verify_ms=1.0,
    rest_ms=1.0,
    residual=Residual(0.5, (ResidualRow(Token(2, b"x"), 0.75, 0.5, 1.0),)),
)
"""Its figures must fit together, so that no example can be made of its types alone."""


def acting_apart_from_style(painted: str) -> str:
    """Characters of a terminal's output that act; it is one line after the other."""
    return acting(_CODES.sub("", painted), allowed="\n")


def marked(value: Any, but: frozenset[str] = frozenset()) -> Any:
    """``value`` with ``LONE`` before every string and token in it; not in the fields ``but``."""
    match value:
        case Enum():
            return value
        case str():
            return LONE + value
        case bytes():
            return MARKER.encode() + value
        case Mapping():
            return {marked(key, but): marked(item, but) for key, item in value.items()}
        case tuple():
            return tuple(marked(item, but) for item in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        # A step that is read from a file when it is looked at is a step all the same.
        kind = StepRecord if isinstance(value, StepRecord) else type(value)
        fields = {one.name: getattr(value, one.name) for one in dataclasses.fields(kind)}
        return kind(
            **{name: one if name in but else marked(one, but) for name, one in fields.items()}
        )
    return value


def example_of(hint: Any) -> Any:
    """The smallest value of a type in which every string that there can be is there."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    match hint:
        case _ if hint is str or hint is Any:
            return "x"
        case _ if hint in (int, float, bool, bytes):
            return hint(1) if hint is not bytes else b"x"
        case _ if isinstance(hint, type) and issubclass(hint, Enum):
            return next(iter(hint))
    if hint is RoundRecord:
        return A_ROUND
    if dataclasses.is_dataclass(hint):
        hints = codec.hints_of(hint)
        values = {field.name: example_of(hints[field.name]) for field in dataclasses.fields(hint)}
        return typing.cast(Any, hint)(**values)
    if origin is tuple:
        items = arguments[:1] if arguments[-1] is Ellipsis else arguments
        return tuple(example_of(item) for item in items)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {example_of(arguments[0]): example_of(arguments[1])}
    if arguments and origin is not None and "ndarray" not in str(origin):
        return example_of(next(one for one in arguments if one is not type(None)))
    import numpy as np

    return np.ones(1, np.float32)


def mark_text_columns(path: Path, *, only: tuple[str, str] | None = None) -> None:
    """Put the marker into every TEXT column of a session file whose words are free.

    ``only`` names one table and column, whatever it holds.
    """
    with sqlite3.connect(path) as database:
        for table, column in [only] if only else text_columns(path):
            if only or column not in JSON | FIXED:
                query = f'UPDATE "{table}" SET "{column}" = ? || "{column}"'
                database.execute(query, (MARKER,))
    database.close()


JSON = {"notes", "extra", "params", "body"}
"""Columns that hold JSON; their strings are marked by what reads them."""
FIXED = {"how", "origin", "kind", "stop_kind", "created", "closed", "seed"}
"""Columns whose words are a list of ours, a time or a number; another word there is damage."""


def text_columns(path: Path) -> list[tuple[str, str]]:
    """Every column of every table that can hold text: (table, column)."""
    database = sqlite3.connect(path)
    tables = [
        row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type='table'")
    ]
    found = [
        (table, row[1])
        for table in tables
        for row in database.execute(f'PRAGMA table_info("{table}")')
        if row[2] in ("TEXT", "ANY")
    ]
    database.close()
    return found


def mark_json(path: Path, but: frozenset[str] = frozenset()) -> None:
    """Put the marker into every string of the events, prompt notes and parameters of a session."""
    kinds = {one.__name__: one for one in typing.get_args(Record)}
    with sqlite3.connect(path) as database:
        for key, kind, body in database.execute("SELECT id, kind, body FROM event").fetchall():
            record = marked(codec.loads(kinds[kind], body), but)
            database.execute("UPDATE event SET body = ? WHERE id = ?", (codec.dumps(record), key))
        database.execute("UPDATE prompt SET notes = ?", (codec.dumps([LONE]),))
    database.close()


def hostile_session(path: Path, name: str = "capital") -> Path:
    """A session at ``path`` whose every free word acts."""
    shutil.copyfile(example(name), path)
    mark_json(path)
    mark_text_columns(path)
    return path


HOSTILE_NAME = MARKER.replace("\0", "")
"""Names of hostile files."""
