"""Columns and the passes over them as plain values: the ``columns`` and the ``pass`` line."""

from __future__ import annotations

from typing import Any

from engine.records.columns import ColumnsSet, PassRecord
from sessions.export.jsonl import number, plain


def columns_line(record: ColumnsSet) -> dict[str, Any]:
    """The line of a comparison's columns; it comes before the steps of any."""
    return {
        "type": "columns",
        "columns": [
            {
                "column": one.column,
                "parent": one.parent,
                "title": plain(one.title),
                "preset": plain(one.preset),
                "chain": plain(one.chain_spec),
                "seed": one.seed,
                "draft": plain(one.draft.source) or None,
                "error": plain(one.error) or None,
            }
            for one in record.columns
        ],
    }


def pass_line(record: PassRecord) -> dict[str, Any]:
    """The line of one pass over columns; it comes behind those of the tokens that it added."""
    line: dict[str, Any] = {
        "type": "pass",
        "columns": [
            {
                "column": one.column,
                "parent": one.parent,
                "part": one.part.value,
                "nodes": list(one.nodes),
                "error": plain(one.error) or None,
            }
            for one in record.columns
        ],
        "rows": record.rows,
        "passes": record.passes,
        "time_ms": {"forward": plain(record.forward_ms), "total": plain(record.total_ms)},
        "dtype": plain(record.dtype),
        "weight_bytes": record.weight_bytes,
    }
    number(line, "kv_bytes", record.kv_bytes, "where K and V lie is not known here")
    line["shared_kv_bytes"] = record.shared_kv_bytes
    number(line, "tokens_per_pass", record.tokens_per_pass, "no pass was shared")
    return line | {
        "copied_blocks": record.copied_blocks,
        "evicted_blocks": record.evicted_blocks,
        "warmup": record.warmup,
        "note": plain(record.note),
    }
