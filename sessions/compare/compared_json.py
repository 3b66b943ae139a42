"""A comparison as plain values: one object, or a line a column. Keys are added, never changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sessions.compare import column_figures, divergence
from sessions.compare.alone import alone_fields
from sessions.compare.compared import Batch, Compared, ComparedColumn
from sessions.compare.divergence import token_fields
from sessions.compare.tables import Bound
from sessions.compare.why_part import OtherDice
from sessions.export.jsonl import number, plain

SCHEMA = 1


def to_json(found: Compared) -> dict[str, Any]:
    """The whole comparison as one object."""
    return {
        "type": "comparison",
        "schema": SCHEMA,
        "model": plain(found.model),
        "dtype": plain(found.dtype),
        "prompt": plain(found.prompt),
        "columns": [column_fields(one) for one in found.columns],
        "divergence": divergence.to_json(found.divergence),
        "why_part": _why(found),
        "batch": _batch(found.batch),
    }


def lines(found: Compared) -> Iterator[dict[str, Any]]:
    """A ``comparison`` line, one ``column`` line a column, an ``end`` line with all else."""
    whole = to_json(found)
    columns = whole.pop("columns")
    rest = {name: whole.pop(name) for name in ("divergence", "why_part", "batch")}
    yield whole
    for one in columns:
        yield {"type": "column", **one}
    yield {"type": "end", **rest}


def column_fields(one: ComparedColumn) -> dict[str, Any]:
    """One column."""
    state, figures = one.state, one.figures
    return {
        "column": state.column,
        "title": plain(one.title),
        "settings": {
            name: {"value": plain(setting.value), "source": plain(setting.source)}
            for name, setting in one.dials.items()
        },
        "preset": plain(state.preset),
        "chain": plain(state.chain_spec),
        "draft": plain(state.draft.source) or None,
        "seed": state.seed,
        "token_ids": divergence.ids_of(one.steps),
        "text": plain(one.text),
        "node": one.steps[-1].node if one.steps else None,
        "figures": column_figures.to_json(figures),
        "near_tie": one.near_tie,
        "alone": alone_fields(one.alone),
        "error": plain(figures.ended_detail) if figures.ended_by == "error" else None,
    }


def _why(found: Compared) -> dict[str, Any] | None:
    if found.why is None:
        return None
    a, b, why = found.why
    return {
        "a": a,
        "b": b,
        "position": why.position,
        "token_a": token_fields(why.a),
        "token_b": token_fields(why.b),
        "settings": [
            {"name": one.name, "a": plain(one.a), "b": plain(one.b)} for one in why.settings
        ],
        "stage": None
        if why.stage is None
        else {
            "name": plain(why.stage.stage),
            "survivors_a": plain(why.stage.a),
            "survivors_b": plain(why.stage.b),
            "only_a": [token_fields(one) for one in why.stage.only_a],
            "only_b": [token_fields(one) for one in why.stage.only_b],
        },
        "kl": _bound(why.kl),
        "total_variation": plain(why.total_variation),
        "u_a": plain(why.u_a),
        "u_b": plain(why.u_b),
        "same_dice": why.same_dice,
        "drift": plain(why.drift),
        "a_with_dice_of_b": _dice(why.a_with_b),
        "b_with_dice_of_a": _dice(why.b_with_a),
    }


def _dice(found: OtherDice) -> dict[str, Any]:
    token = None if found.token is None else token_fields(found.token)
    return {"token": token, "why": plain(found.why) or None}


def _bound(bound: Bound) -> dict[str, Any]:
    high = None if bound.high is None else plain(bound.high)
    return {"low": plain(bound.low), "high": high, "exact": bound.exact, "reason": bound.why}


def _batch(found: Batch) -> dict[str, Any]:
    line: dict[str, Any] = {
        "passes": found.passes,
        "rows": found.rows,
        "tokens": found.tokens,
        "ms": plain(found.ms),
    }
    number(line, "alone_ms", found.alone_ms, "no pass had one row alone")
    number(line, "tokens_per_second", found.tokens_per_second, "nothing ran")
    line["by_rows"] = [
        {"rows": one.rows, "passes": one.passes, "forward_ms": plain(one.forward_ms)}
        for one in found.by_rows
    ]
    line["notes"] = [plain(one) for one in found.notes]
    return line
