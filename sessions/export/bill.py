"""The bill of a branch as plain values, and as rows and sentences of a report."""

from __future__ import annotations

from typing import Any

from engine.bill.account import Account, every_line
from engine.bill.bill import Bill, Line
from engine.bill.prices import Kind
from engine.records.figure import Figure, Source
from sessions.export.jsonl import number, plain

COLUMNS = ("tokens of", "count", "time", "bytes moved", "price")
_MARKS = {Source.MEASURED: "•", Source.DERIVED: "ƒ", Source.ESTIMATED: "~"}
_NOTHING = "—"
_SUM = "sum"


def bill_fields(found: Account) -> dict[str, Any]:
    """The bill as plain values; docs/timing.md defines the figures."""
    bill = found.bill
    thought = bill.line(Kind.THINKING)
    return {
        "currency": plain(bill.currency),
        "price_list": plain(bill.list_name),
        "lines": [{"kind": one.kind.value, **_fields(one)} for one in bill.lines],
        "total": _fields(bill.total),
        "thinking": {
            "tokens": thought.tokens if thought is not None else 0,
            "spans": found.spans,
            "forced": found.forced,
        },
        "questions": [
            {
                "question": one.question,
                "answer": _sentence(one.parts) or None,
                "figures": [
                    {
                        "value": plain(part.value),
                        "unit": part.unit,
                        "source": part.source.value,
                        "formula": part.formula,
                    }
                    for part in one.parts
                    if isinstance(part, Figure)
                ],
                **({"reason": one.reason} if one.reason else {}),
            }
            for one in found.answers
        ],
    }


def _fields(line: Line) -> dict[str, Any]:
    found: dict[str, Any] = {"tokens": line.tokens}
    for name, figure in (
        ("time_ms", line.time),
        ("bytes_moved", line.moved),
        ("price", line.price),
    ):
        number(found, name, figure.value, figure.reason)
        found[f"{name}_source"] = figure.source.value
    return found


def bill_rows(bill: Bill) -> list[tuple[str, ...]]:
    """A row a kind of tokens and the sum, each figure with its mark."""
    return [
        (
            _SUM if line is bill.total else line.name,
            f"{line.tokens:,}",
            *(_marked(one) for one in (line.time, line.moved, line.price)),
        )
        for line in every_line(bill)
    ]


def bill_pairs(found: Account) -> list[tuple[str, str]]:
    """The same as (name, value), and the answers."""
    rows = [
        (f"bill: {name}", f"{tokens} tokens, {time}, moved {moved}, {price}")
        for name, tokens, time, moved, price in bill_rows(found.bill)
    ]
    words = [("prices", prices_words(found.bill))]
    return [*rows, *words, *answer_texts(found)] if found.bill.lines else []


def prices_words(bill: Bill) -> str:
    """The list that the prices are of, and the meaning of the marks."""
    return (
        f"Prices are estimates by the list {bill.list_name or _NOTHING}. "
        "• measured, ƒ derived, ~ estimated."
    )


def answer_texts(found: Account) -> list[tuple[str, str]]:
    """(question, answer), or (question, why there is none)."""
    return [
        (one.question, _sentence(one.parts) or f"{_NOTHING} {one.reason}") for one in found.answers
    ]


def _sentence(parts: tuple[str | Figure, ...]) -> str:
    return "".join(part if isinstance(part, str) else _marked(part) for part in parts)


def _marked(figure: Figure) -> str:
    if figure.value is None:
        return _NOTHING
    return f"{_written(figure.value, figure.unit)} {_MARKS[figure.source]}"


def _written(value: float, unit: str) -> str:
    if unit == "B":
        for power, name in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
            if value >= 1 << power:
                return f"{_digits(value / (1 << power))} {name}"
    if unit == "share":
        return f"{value:.1%}"
    return f"{_digits(value)} {unit}".rstrip()


def _digits(value: float) -> str:
    """About three digits, never in exponent form."""
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.2f}" if value >= 0.1 else f"{value:.8f}".rstrip("0")
