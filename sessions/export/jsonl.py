"""A run as JSON lines: one ``run`` object, one ``step`` object a token, one ``end`` object.

This is a contract that other programs rely on (schema 1): keys are added, never changed. A figure
of a backend that knows only the leading candidates is a number, or ``[low, high]``. The same
functions serve ``llm-inspect run --format jsonl`` and the export of a saved session. Numbers that
JSON cannot hold become null, and a field of the same name with ``_reason`` says why.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from engine.records.cache import KVState
from engine.records.events import SettingsChanged
from engine.records.model import KVStorage, ModelFacts
from engine.records.partial import Interval
from engine.records.prompt import PrefillRecord, PromptRecord
from engine.records.step import (
    CUT_BY_MODEL,
    SURVIVES,
    StageTrace,
    StepRecord,
    StepTiming,
    StopKind,
    TopTable,
)
from engine.text import IncrementalDecoder
from engine.timing import Speed

SCHEMA = 1
_NO_LOGIT = "the model gave this token a logit of minus infinity"
_PART_OF_CHARACTER = "part of a character; token_bytes has its bytes"
_NO_GAP = "no step after the first, warm-up left out"
_END_REASONS: dict[str, str] = {StopKind.CONTEXT.value: "length"}
_FACTS = ("identity", "architecture", "backend", "device", "dtype", "vocab_size", "context_length")
_STAGE = ("name", "params", "off", "survivors", "mass_removed", "entropy", "derived")


def dumps(line: Mapping[str, Any]) -> str:
    """One object as one line, without its newline. Only ASCII, so that any pipe carries it."""
    text = json.dumps(line, allow_nan=False)
    if "\\ud" in text:  # a pair, as in an emoji, or a lone surrogate, which others refuse to read
        text = json.dumps(plain(line), allow_nan=False)
    return text.replace("\x7f", "\\u007f")


def run_line(
    facts: ModelFacts | None, prompt: PromptRecord, settings: SettingsChanged | None
) -> dict[str, Any]:
    """The first line: what runs, on what, with which settings."""
    line: dict[str, Any] = {
        "type": "run",
        "schema": SCHEMA,
        "model": facts.name if facts else None,
        "prompt": plain(prompt.text),
        "prompt_ids": list(prompt.ids),
        "prompt_bytes": [token.bytes.hex() for token in prompt.tokens],
        "chat": prompt.chat,
        "notes": [plain(note) for note in prompt.notes],
        "settings": {},
        "preset": None,
        "chain": None,
        "seed": None,
    }
    if facts is None:
        line["model_reason"] = "not recorded"
    else:
        line |= {name: getattr(facts, name) for name in _FACTS}
        line.update(
            load_ms=plain(facts.load_ms),
            kv_cache=kv_storage(facts.kv_storage),
            stop_ids={str(token_id): who for token_id, who in facts.stop_ids.items()},
            versions=dict(facts.versions),
        )
    if settings is not None:
        line.update(
            settings={
                name: {"value": plain(setting.value), "source": setting.source}
                for name, setting in settings.dials.items()
            },
            preset=settings.preset,
            chain=settings.chain_spec,
            seed=settings.seed,
        )
    return line


def step_line(step: StepRecord, *, text: str | None = None) -> dict[str, Any]:
    """The line of one token.

    A candidate's logit is its ``raw_logprob`` plus ``log_z_raw``.

    ``text`` is what the token added to the text; who follows a run with an ``IncrementalDecoder``
    passes it. Without it, a token that is only a piece of a character has null.
    """
    line: dict[str, Any] = {
        "type": "step",
        "node": step.node,
        "parent": step.parent,
        "position": step.position,
        "token_id": step.token.id,
        "token_bytes": step.token.bytes.hex(),
        "kind": step.token.kind.value,
    }
    if text is None:
        text = whole_text(step.token.bytes)
    line["text"] = None if text is None else plain(text)
    if text is None:
        line["text_reason"] = _PART_OF_CHARACTER
    number(line, "raw_logprob", step.raw_logprob, _NO_LOGIT)
    line.update(
        final_prob=plain(step.final_prob),
        rank=plain(step.rank),
        entropy_raw=plain(step.entropy_raw),
        entropy_final=plain(step.entropy_final),
        log_z_raw=plain(step.log_z_raw),
        how=step.draw.how.value,
    )
    number(line, "u", step.draw.u, f"no randomness was used: {step.draw.how.value}")
    line.update(
        low=plain(step.draw.low),
        high=plain(step.draw.high),
        seed=step.seed,
        preset=step.preset,
        chain=step.chain_spec,
        stages=stage_list(step.stages),
        top=top_list(step.top, step.stages),
        time_ms=_time(step.timing),
        warmup=step.timing.warmup,
        reused=step.timing.reused,
        reread=step.timing.reread,
        kv=_kv(step.kv),
        stop=None
        if step.stop is None
        else {"kind": step.stop.kind.value, "detail": plain(step.stop.detail)},
    )
    if step.round:
        line.update(came=step.came.value, round=step.round, drawn_on=step.draw.on.value)
    return line


def end_line(
    reason: str, detail: str, speed: Speed, tokens: int, *, prefill: PrefillRecord | None = None
) -> dict[str, Any]:
    """The last line: why the run ended and how fast it was.

    ``reason`` is ``stop_token``, ``length``, ``breakpoint``, ``error`` or, of a saved run that was
    left, ``interrupted``; ``detail`` says it in words. ``tokens`` counts the tokens drawn on the
    path that ``speed`` belongs to. A full context is a ``length``.
    """
    line: dict[str, Any] = {
        "type": "end",
        "reason": _END_REASONS.get(reason, reason),
        "detail": plain(detail),
        "tokens": tokens,
    }
    number(line, "ttft_ms", speed.ttft_ms, "no token was drawn")
    number(line, "itl_ms", speed.itl_ms, _NO_GAP)
    number(line, "tps", speed.tps, _NO_GAP)
    number(line, "prefill_tps", speed.prefill_tps, "the prompt was not read")
    line["warmup_steps"] = speed.warmup_steps
    if prefill is not None:
        line["prompt_computed"], line["prompt_cached"] = prefill.computed, prefill.cached
    return line


def end_reason(last: StepRecord | None) -> str:
    """The reason of an ``end_line`` for a saved run whose last step is ``last``.

    ``interrupted`` is a run that was left before it came to an end by itself.
    """
    return "interrupted" if last is None or last.stop is None else last.stop.kind.value


def stage_list(stages: Iterable[StageTrace]) -> list[dict[str, Any]]:
    """The effect of each stage, as plain values."""
    return [{name: plain(getattr(one, name)) for name in _STAGE} for one in stages]


def top_list(top: TopTable, stages: Sequence[StageTrace]) -> list[dict[str, Any]]:
    """The leading candidates, as plain values; ``cut_by`` names the stage, or ``model``."""
    rows = []
    for row, token in enumerate(top.tokens):
        line: dict[str, Any] = {"id": token.id, "token_bytes": token.bytes.hex()}
        number(line, "raw_logprob", top.raw_logprob(row), _NO_LOGIT)
        line["final_prob"] = plain(top.prob(-1, row))
        line["cut_by"] = cut_name(int(top.cut_by[row]), stages)
        line["rank"] = plain(top.rank(row))
        rows.append(line)
    return rows


def cut_name(cut_by: int, stages: Sequence[StageTrace]) -> str | None:
    """The name of the stage that ``cut_by`` points to, ``model``, or None for a survivor."""
    if cut_by == SURVIVES:
        return None
    return "model" if cut_by == CUT_BY_MODEL else stages[cut_by].name


def texts(steps: Iterable[StepRecord]) -> Iterator[tuple[StepRecord, str]]:
    """Each step with the text that its token completed on its own branch.

    Parents must come before children. Joined along any branch the texts are the branch's text,
    but for a character that its end leaves open.
    """
    pending: dict[int, bytes] = {}
    for step in steps:
        decoder = IncrementalDecoder()
        decoder.feed(pending.get(step.parent, b""))
        text = decoder.feed(step.token.bytes)
        pending[step.node] = decoder.pending
        yield step, text


def whole_text(data: bytes) -> str | None:
    """``data`` as text; None where it is not whole characters."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def plain(value: Any) -> Any:
    """``value`` in what JSON can hold: NaN and infinities null, an interval a list of its ends."""
    match value:
        case None | bool() | int():
            return value
        case str():
            # A lone surrogate would make a line that other programs refuse to read.
            return value.encode("utf-8", "replace").decode()
        case np.generic():
            return plain(value.item())
        case Interval():
            return [plain(value.low), plain(value.high)]
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset() | np.ndarray():
            return [plain(item) for item in value]
        case bytes():
            return value.hex()
    return str(value)


def number(line: dict[str, Any], name: str, value: float | None, reason: str) -> None:
    """Set ``line[name]``, and ``reason`` beside it where the value is no number."""
    line[name] = plain(value)
    if line[name] is None:
        line[f"{name}_reason"] = reason


def kv_storage(kept: KVStorage | None) -> dict[str, Any] | None:
    """Storage of K and V, as plain values; null where that is not recorded."""
    if kept is None:
        return None
    line: dict[str, Any] = plain(asdict(kept))
    return line | {"dtype": kept.dtype or None}


def _time(timing: StepTiming) -> dict[str, Any]:
    phases = ("forward", "sample", "detokenize", "other", "total")
    return {phase: plain(getattr(timing, f"{phase}_ms")) for phase in phases}


def _kv(kv: KVState) -> dict[str, Any]:
    line: dict[str, Any] = {"seen": kv.seen, "stored": kv.stored}
    number(line, "bytes", kv.nbytes, "this model has no such cache")
    line.update(computed=kv.computed, cached=kv.cached, block_size=kv.block_size)
    return line
