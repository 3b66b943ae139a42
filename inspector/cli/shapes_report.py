"""Requests side by side as one JSON object."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from inspector.state.shapes.carry_out import Answered, Carried, Failed
from inspector.state.shapes.serial_parallel import Way
from sessions.export.bill import bill_fields
from sessions.export.jsonl import number, plain

SCHEMA = 1


def report(found: Carried) -> dict[str, Any]:
    """Every figure; null with a ``_reason`` where there is none."""
    facts = found.facts
    assert facts is not None, "a model has answered"
    return {
        "type": "shapes",
        "schema": SCHEMA,
        "model": plain(facts.name),
        "dtype": plain(facts.dtype),
        "device": plain(facts.device),
        "device_name": plain(facts.device_name),
        "requests": [_fields(one) for one in found.done],
        "serial_parallel": [_way_fields(one) for one in found.ways],
    }


def _fields(one: Answered | Failed) -> dict[str, Any]:
    line: dict[str, Any] = {"name": one.shape.name, "what": one.shape.what}
    if isinstance(one, Failed):
        return line | {"error": plain(one.error)}
    number(line, "ttft_ms", one.speed.ttft_ms, "no token was drawn")
    line["warmup"] = one.warms_up
    number(line, "itl_ms", one.speed.itl_ms, "no step after the first counts")
    number(line, "tps", one.speed.tps, "no step after the first counts")
    line["total_ms"] = plain(one.total_ms)
    line["spent_ms"] = {str(kind): plain(spent) for kind, spent in one.spent.items()}
    line["text"] = plain(one.text)
    return line | {"bill": bill_fields(one.account)}


def _way_fields(one: Way) -> dict[str, Any]:
    votes = [{"answer": plain(answer), "rows": rows} for answer, rows in one.votes]
    return asdict(one) | {"tps": plain(one.per_second), "votes": votes}
