"""The output of ``sample --format json``: one vector through a chain, as plain values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from engine.records.step import CUT_BY_MODEL, SURVIVES
from engine.records.vocabulary import Token
from engine.sampling.ladder import Ladder
from engine.sampling.logits_file import LogitsFile
from engine.sampling.presets import PRESETS
from engine.sampling.settings import Effective
from engine.sampling.stages import StageContext

SCHEMA = 1


def sample_report(
    settings: Effective,
    read: LogitsFile,
    context: StageContext,
    *,
    count: int = 20,
    token: Callable[[int], Token] | None = None,
) -> dict[str, Any]:
    """Run ``read`` through the chain and return plain values.

    Keys as in a run file's step: ``stages``, ``top``, and ``kept_ids``; plus
    the settings, the draw at ``context``'s seed, and what is not known.

    No NaN or infinity: null, and a ``..._reason`` beside it. Raises SamplingError.
    """
    chain = settings.chain
    ladder = chain.run(read.logits, context)
    drawn = chain.choose(ladder, context)
    report: dict[str, Any] = {
        "type": "sample",
        "schema": SCHEMA,
        "source": read.source,
        "vocab_size": ladder.model.vocab_size,
        "known": read.known,
        "missing_mass": read.missing_mass,
        "preset": chain.preset,
        "stack": PRESETS[chain.preset].stack,
        "chain": chain.spec,
        "settings": {
            name: {"value": one.value, "source": one.source} for name, one in settings.dials.items()
        },
        "notes": notes(settings, read),
        "entropy_raw": ladder.model.entropy,
        "entropy_final": ladder.final.entropy,
        "stages": [
            {
                "name": one.name,
                "params": one.params,
                "off": one.off,
                "survivors": one.survivors,
                "mass_removed": one.mass_removed,
                "entropy": one.entropy,
                "derived": one.derived,
            }
            for one in ladder.traces
        ],
        "top": _top(ladder, count, drawn.token_id, token),
        "kept_ids": ladder.final.ids.tolist(),
        "token_id": drawn.token_id,
        "how": drawn.how.value,
        "seed": context.seed,
        "u": drawn.u,
        "low": drawn.low,
        "high": drawn.high,
    }
    if drawn.u is None:
        report["u_reason"] = f"no randomness was used: {drawn.how.value}"
    return report


def notes(settings: Effective, read: LogitsFile) -> list[str]:
    """Notes on the stack, and on a vector that is not whole."""
    found = list(settings.notes)
    if read.missing_mass > 0.0:
        found.append(
            f"{read.known:,} tokens are known; the rest, of probability {read.missing_mass:.3g}, "
            "is left out, and every probability is of the known ones alone."
        )
    elif read.partial:
        found.append(f"{read.known:,} tokens are known; all others are taken as impossible.")
    return found


def _top(
    ladder: Ladder, count: int, chosen: int, token: Callable[[int], Token] | None
) -> list[dict[str, Any]]:
    table = ladder.table(count, token or _nameless, also=(chosen,))
    rows = []
    for row, token_id in enumerate(table.ids.tolist()):
        line: dict[str, Any] = {"id": token_id}
        if token is not None:
            line["token_bytes"] = table.tokens[row].bytes.hex()
        logprob = float(table.raw_logprobs[row])
        line["raw_logprob"] = logprob if math.isfinite(logprob) else None
        if line["raw_logprob"] is None:
            line["raw_logprob_reason"] = "the model's logit is minus infinity"
        line["final_prob"] = float(table.probs[-1, row])
        line["cut_by"] = _cut_by(ladder, int(table.cut_by[row]))
        line["rank"] = int(table.ranks[row])
        rows.append(line)
    return rows


def _cut_by(ladder: Ladder, stage: int) -> str | None:
    if stage == SURVIVES:
        return None
    return "model" if stage == CUT_BY_MODEL else ladder.traces[stage].name


def _nameless(token_id: int) -> Token:
    return Token(token_id, b"")
