"""Speculative rounds as plain values: the ``round`` line, and what many rounds came to."""

from __future__ import annotations

from typing import Any

from engine.acceptance import Acceptance
from engine.records.round import RoundRecord
from sessions.export.jsonl import number, plain


def round_line(record: RoundRecord) -> dict[str, Any]:
    """The line of one speculative round; it comes before those of the tokens that it added.

    ``round`` is the node of the first of them, by which their own lines name it.
    """
    left = record.residual
    return {
        "type": "round",
        "round": record.node,
        "parent": record.parent,
        "nodes": list(record.nodes),
        "source": plain(record.source),
        "accept": record.accept.value,
        "lossy": record.accept.lossy,
        "asked": record.asked,
        "drafted": [
            {
                "id": one.token.id,
                "token_bytes": one.token.bytes.hex(),
                "q": plain(one.q),
                "p": plain(one.p),
                "accept_prob": plain(one.chance),
                "expected": plain(one.expected),
                "draft_u": plain(one.draft_u),
                "u": plain(one.u),
                "verdict": one.verdict.value,
            }
            for one in record.drafted
        ],
        "accepted": record.accepted,
        "added": record.added,
        "end": record.end.value,
        "residual": None
        if left is None
        else {
            "mass": plain(left.mass),
            "top": [
                {
                    "id": row.token.id,
                    "token_bytes": row.token.bytes.hex(),
                    "p": plain(row.p),
                    "q": plain(row.q),
                    "residual": plain(row.left),
                }
                for row in left.rows
            ],
        },
        "time_ms": {
            "draft": plain(record.draft_ms),
            "verify": plain(record.verify_ms),
            "rest": plain(record.rest_ms),
            "total": plain(record.total_ms),
        },
        "warmup": record.warmup,
        "kv": {
            "written": record.written,
            "taken_back": record.taken_back,
            "draft_written": record.draft_written,
            "draft_taken_back": record.draft_taken_back,
        },
    }


def acceptance_fields(found: Acceptance) -> dict[str, Any]:
    """The figures of many rounds; docs/sessions.md defines them."""
    line: dict[str, Any] = {
        "rounds": found.rounds,
        "drafted": found.drafted,
        "accepted": found.accepted,
        "lossy": found.lossy,
    }
    number(line, "acceptance", found.rate, "nothing was drafted")
    number(line, "tokens_per_pass", found.tokens_per_pass, "there was no round")
    line["by_position"] = [
        {
            "position": index + 1,
            "accepted": one.accepted,
            "reached": one.reached,
            "unconditional": plain(one.accepted / found.rounds),
            "conditional": plain(one.accepted / one.reached) if one.reached else None,
        }
        for index, one in enumerate(found.positions)
    ]
    number(line, "expected_accepted", found.expected, "no draft was looked at")
    line["time_ms"] = {
        "draft": plain(found.draft_ms),
        "verify": plain(found.verify_ms),
        "rest": plain(found.rest_ms),
    }
    return line
