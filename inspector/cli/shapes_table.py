"""Requests side by side, as a table for people and as one JSON object."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from textual.content import Content

from engine.bill.account import Account
from engine.bill.prices import Kind
from engine.records.model import ModelFacts
from engine.text import visible
from inspector.cli.serial_parallel import Way, way_fields, way_lines
from inspector.cli.shapes_requests import Answered
from inspector.draw.numbers import (
    count,
    cut,
    derived,
    heading,
    legend,
    ms,
    muted,
    padded,
    percent,
    right,
    wrapped,
)
from inspector.panes.bill.pane import money
from sessions.export.bill import bill_fields
from sessions.export.jsonl import number, plain

SCHEMA = 1
_NAME = 22
_LEAST = 40
_GLYPHS = {Kind.PROMPT: "▒", Kind.THINKING: "▓", Kind.OUTPUT: "█", Kind.DISCARDED: "░"}
_KEYS = {
    Kind.PROMPT: "reading",
    Kind.CACHED: "cached",
    Kind.THINKING: "thinking",
    Kind.OUTPUT: "answer",
    Kind.DISCARDED: "thrown away",
}
_COLUMNS = (
    ("computed", 9),
    ("cached", 7),
    ("output", 7),
    ("TTFT", 11),
    ("a token", 11),
    ("total", 11),
)


def lines(
    facts: ModelFacts, found: Sequence[Answered], ways: Sequence[Way], width: int
) -> Iterator[Content]:
    """The table: tokens and times, where the time goes, where the bill goes."""
    width = max(_LEAST, width)
    yield from wrapped("", 0, width, visible(f"{facts.name}, {facts.dtype} on {facts.device_name}"))
    yield Content("")
    columns = _fitting(width)
    head = padded(muted("request"), _NAME)
    for title, cells in columns:
        head += right(muted(title if cells < 10 else f"{title}  "), cells)
    yield cut(head, width)
    for one in found:
        yield cut(_row(one, len(columns)), width)
    yield Content("")
    yield heading("Where the time goes", width)
    yield from _bars(found, width)
    yield Content("")
    yield heading("Where the bill goes", width)
    for one in found:
        yield cut(padded(Content(one.shape.name), _NAME) + _bill_words(one.account), width)
    if ways:
        yield Content("")
        yield heading("One long thought, or several short ones", width)
        yield from way_lines(ways, width)
    yield Content("")
    for one in found:
        yield from wrapped(one.shape.name, _NAME, width, one.shape.what)
        if one.error:
            yield from wrapped("", _NAME, width, f"— {visible(one.error)}")
    yield legend(width)


def _fitting(width: int) -> list[tuple[str, int]]:
    """The columns that there is room for, from the left."""
    shown, used = [], _NAME
    for title, cells in _COLUMNS:
        used += cells
        if used <= width:
            shown.append((title, cells))
    return shown


def _row(one: Answered, columns: int) -> Content:
    line = padded(Content(one.shape.name), _NAME)
    if one.account is None or one.speed is None:
        return line + muted("— see below")
    tokens = {line.kind: line.tokens for line in one.account.bill.lines}
    output = tokens.get(Kind.OUTPUT, 0) + tokens.get(Kind.THINKING, 0)
    cells = (
        Content(count(tokens.get(Kind.PROMPT, 0))),
        Content(count(tokens.get(Kind.CACHED, 0))),
        Content(count(output)),
        derived(ms(one.speed.ttft_ms)),
        derived(ms(one.speed.itl_ms)),
        derived(ms(one.total_ms)),
    )
    for cell, (_, room) in zip(cells[:columns], _COLUMNS, strict=False):
        line += right(cell, room)
    return line


def _bars(found: Sequence[Answered], width: int) -> Iterator[Content]:
    """A bar a request, all on one scale; each part has a sign of its own."""
    longest = max((one.total_ms for one in found), default=0.0)
    room = width - _NAME - 12
    used = dict.fromkeys(_GLYPHS, False)
    for one in found:
        if one.account is None or not longest or room < 4:
            continue
        bar, at = "", 0.0
        for kind, glyph in _GLYPHS.items():
            part = one.account.bill.line(kind)
            spent = part.time.value if part is not None else None
            if not spent:
                continue
            used[kind] = True
            at += spent
            # Rounded where it ends, so that the parts' rounding does not add up.
            bar += glyph * (round(at / longest * room) - len(bar))
        line = padded(Content(one.shape.name), _NAME) + padded(Content(bar), room + 1)
        yield cut(line + derived(ms(one.total_ms)), width)
    keys = "   ".join(f"{_GLYPHS[kind]} {_KEYS[kind]}" for kind, there in used.items() if there)
    if keys:
        yield cut(padded(Content(""), _NAME) + muted(keys), width)


def _bill_words(account: Account | None) -> Content:
    """The price, and the share of each kind that has one."""
    if account is None:
        return muted("—")
    bill, total = account.bill, account.bill.total.price.value
    shares = [
        f"{_KEYS[one.kind]} {percent((one.price.value or 0.0) / total)}"
        for one in bill.lines
        if total and one.price.value
    ]
    return right(money(bill.total.price), 14) + muted(f"   {', '.join(shares)}")


# --- for programs ---------------------------------------------------------------------------


def report(
    facts: ModelFacts, found: Sequence[Answered], ways: Sequence[Way] = ()
) -> dict[str, Any]:
    """Every figure; null with a ``_reason`` where there is none."""
    return {
        "type": "shapes",
        "schema": SCHEMA,
        "model": plain(facts.name),
        "dtype": plain(facts.dtype),
        "device": plain(facts.device),
        "device_name": plain(facts.device_name),
        "requests": [_fields(one) for one in found],
        "serial_parallel": [way_fields(one) for one in ways],
    }


def _fields(one: Answered) -> dict[str, Any]:
    line: dict[str, Any] = {"name": one.shape.name, "what": one.shape.what}
    if one.account is None or one.speed is None:
        return line | {"error": plain(one.error)}
    number(line, "ttft_ms", one.speed.ttft_ms, "no token was drawn")
    number(line, "itl_ms", one.speed.itl_ms, "no step after the first counts")
    number(line, "tps", one.speed.tps, "no step after the first counts")
    line["total_ms"] = plain(one.total_ms)
    line["text"] = plain(one.text)
    return line | {"bill": bill_fields(one.account)}
