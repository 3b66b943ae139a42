"""A step into rows of the tables ``step``, ``stage_result`` and ``candidate``."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.records.partial import Interval
from engine.records.step import SURVIVES, StepRecord
from engine.records.vocabulary import Token
from sessions.file.format import ROWS_A_STEP, STAGES_A_STEP
from sessions.rows import codec
from sessions.rows.columns import KNOWN_FIELDS, ChainOfSteps, Row, StageOfChain
from sessions.rows.levels import Level, RowsError, alive_at, divisor_of, pack_levels


@dataclass(frozen=True, slots=True)
class StepRows:
    """One step's rows, in the order of the column lists above."""

    step: Row
    stages: list[Row]
    candidates: list[Row]


def chain_of(step: StepRecord) -> ChainOfSteps:
    """The chain that ``step`` used."""
    return ChainOfSteps(
        step.chain_spec,
        step.preset,
        tuple(
            StageOfChain(one.name, one.label, one.params, one.off, divisor_of(one))
            for one in step.stages
        ),
    )


def pack_step(step: StepRecord, chain: int, key: Callable[[Token], int]) -> StepRows:
    """The rows of ``step``; ``key`` gives each token's key in the table ``token``.

    Raises RowsError for a step that the format cannot hold.
    """
    top, stages = step.top, step.stages
    if len(top.tokens) > ROWS_A_STEP or len(stages) >= STAGES_A_STEP:
        raise RowsError(f"{len(top.tokens)} candidates and {len(stages)} stages are too many")
    levels = pack_levels(top, stages)
    model = levels[0] if levels else Level(None)
    expected = top.raw_logits.astype(np.float64) - step.log_z_raw
    logprobs = None if np.array_equal(expected, top.raw_logprobs) else _float64(top.raw_logprobs)
    draw, timing, kv, stop = step.draw, step.timing, step.kv, step.stop
    row = (
        *(step.node, step.parent, step.position, key(step.token)),
        *(draw.how.value, draw.u, draw.low, draw.high, step.raw_logprob),
        *(step.final_prob, step.rank, step.entropy_raw, step.entropy_final, step.log_z_raw),
        *(step.varentropy_raw, model.weight_sum, logprobs, model.probs, chain, _seed(step.seed)),
        *(timing.forward_ms, timing.sample_ms, timing.detokenize_ms, timing.other_ms),
        *(timing.total_ms, timing.warmup, timing.reused, timing.reread),
        *(kv.seen, kv.stored, kv.nbytes, kv.computed, kv.cached, kv.block_size),
        *((stop.kind.value, stop.detail) if stop else (None, None)),
        _extra_of(step),
    )
    return StepRows(row, _stage_rows(step, levels), _candidate_rows(step, key))


def _stage_rows(step: StepRecord, levels: Sequence[Level]) -> list[Row]:
    rows: list[Row] = []
    before = step.entropy_raw
    # Level i + 1 is what stage i left; the last one is kept with the candidates.
    for index, trace in enumerate(step.stages):
        level = levels[index + 1] if index + 1 < len(levels) else Level(None)
        entropy_before = None if trace.entropy_before == before else trace.entropy_before
        before = trace.entropy
        at = step.node * STAGES_A_STEP + index
        figures = (
            int(trace.survivors),
            trace.mass_removed,
            entropy_before,
            trace.entropy,
            trace.log_z,
        )
        rows.append((at, *figures, level.weight_sum, level.logits, level.probs))
    return rows


def _candidate_rows(step: StepRecord, key: Callable[[Token], int]) -> list[Row]:
    top = step.top
    alive = alive_at(top.cut_by, len(step.stages))
    columns = zip(
        top.tokens,
        top.ids.tolist(),
        top.raw_logits.tolist(),
        top.probs[-1].tolist(),
        top.cut_by.tolist(),
        top.ranks.tolist(),
        alive.tolist(),
        strict=True,
    )
    rows: list[Row] = []
    first = step.node * ROWS_A_STEP
    for row, (token, token_id, logit, final, cut_by, rank, survives) in enumerate(columns):
        if token.id != token_id:
            raise RowsError(f"row {row} holds the token of id {token.id}, not {token_id}")
        rows.append(
            (
                first + row,
                key(token),
                None if logit == -np.inf else logit,
                final if survives else None,
                None if cut_by == SURVIVES else cut_by,
                None if rank == row + 1 else rank,
            )
        )
    return rows


def _seed(seed: int) -> int | str:
    return seed if -(1 << 63) <= seed < 1 << 63 else str(seed)


def _float64(values: NDArray[np.float64]) -> bytes:
    return values.astype("<f8").tobytes()


@functools.cache
def _unknown(cls: Any) -> tuple[dataclasses.Field[Any], ...]:
    known = next(KNOWN_FIELDS[base] for base in cls.__mro__ if base in KNOWN_FIELDS)
    return tuple(one for one in dataclasses.fields(cls) if one.name not in known)


def extra_fields(record: Any) -> dict[str, Any]:
    """The fields of ``record`` that have no column, where they are not at their default."""
    found = {}
    cls: Any = type(record)
    for one in _unknown(cls):
        value = codec.to_plain(getattr(record, one.name))
        if value != _default(one):
            found[one.name] = value
    return found


def _with_intervals(record: Any) -> dict[str, Any]:
    """Fields that have no column, and those whose column holds the middle of an interval."""
    values = {one.name: getattr(record, one.name) for one in dataclasses.fields(record)}
    intervals = {name: value for name, value in values.items() if isinstance(value, Interval)}
    return extra_fields(record) | {name: codec.to_plain(one) for name, one in intervals.items()}


def _default(one: dataclasses.Field[Any]) -> Any:
    if one.default_factory is not dataclasses.MISSING:
        return codec.to_plain(one.default_factory())
    return codec.to_plain(one.default) if one.default is not dataclasses.MISSING else None


def _extra_of(step: StepRecord) -> str | None:
    fields = extra_fields if step.top.slack is None else _with_intervals
    parts: dict[str, Any] = {
        "step": fields(step),
        "draw": fields(step.draw),
        "timing": extra_fields(step.timing),
        "kv": extra_fields(step.kv),
        "top": extra_fields(step.top),
        "stages": [fields(trace) for trace in step.stages],
    }
    if not any(parts["stages"]):
        del parts["stages"]
    kept = {name: part for name, part in parts.items() if part}
    return codec.dumps(kept) if kept else None
