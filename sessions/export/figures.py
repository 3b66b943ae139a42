"""A run's figures as CSV: one row a token of every branch."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

from engine.records.step import StepRecord
from sessions.export.jsonl import plain
from sessions.export.source import Source

COLUMNS = (
    *("node", "parent", "position", "token_id", "token_bytes", "text", "how", "u"),
    *("raw_logprob", "final_prob", "rank", "entropy_raw", "entropy_final", "survivors"),
    *("forward_ms", "sample_ms", "detokenize_ms", "other_ms", "total_ms"),
    *("warmup", "reused", "reread", "kv_stored", "kv_bytes", "kv_computed", "kv_cached"),
    *("chain", "seed", "stop"),
)


def csv_lines(source: Source) -> Iterator[str]:
    """A line of column names, then a line a step. What has no number is an empty field."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    for row in (COLUMNS, *map(_row, source.steps())):
        writer.writerow(row)
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()


def _row(step: StepRecord) -> list[Any]:
    timing, kv = step.timing, step.kv
    figures = (
        *(step.draw.u, step.raw_logprob, step.final_prob, step.rank),
        *(step.entropy_raw, step.entropy_final, step.stages[-1].survivors if step.stages else None),
        *(timing.forward_ms, timing.sample_ms, timing.detokenize_ms, timing.other_ms),
        *(timing.total_ms, int(timing.warmup), int(timing.reused), int(timing.reread)),
        *(kv.stored, kv.nbytes, kv.computed, kv.cached),
    )
    return [
        *(step.node, step.parent, step.position, step.token.id, step.token.bytes.hex()),
        _quoted(step.token.bytes.decode("utf-8", "replace")),
        step.draw.how.value,
        *("" if plain(one) is None else plain(one) for one in figures),
        _quoted(step.chain_spec),
        step.seed,
        _quoted(step.stop.detail) if step.stop else "",
    ]


def _quoted(text: str) -> str:
    """A JSON string: it is one line, and its quote keeps a spreadsheet from running ``=1+1``."""
    return json.dumps(plain(text))
