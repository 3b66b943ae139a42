"""Rows of the tables ``step``, ``stage_result`` and ``candidate`` into a step.

The rows come from a file that nobody vouches for. SQLite has checked their types and ranges against
the schema; what can still be wrong raises RowsError, CodecError, KeyError or ValueError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.records.arrays import DoubleArray, FloatArray
from engine.records.cache import KVState
from engine.records.step import (
    CUT_BY_MODEL,
    SURVIVES,
    Draw,
    How,
    StageTrace,
    StepTiming,
    Stop,
    StopKind,
    TopTable,
)
from engine.records.vocabulary import Token
from sessions.rows import codec
from sessions.rows.columns import STEP_COLUMNS, ChainOfSteps, Row
from sessions.rows.levels import Level, RowsError, unpack_levels

_AT = {name: index for index, name in enumerate(STEP_COLUMNS)}


class StepRow:
    """One row of ``step``, turned into records field by field when asked for."""

    __slots__ = ("_extra", "chain", "row", "token")

    def __init__(self, row: Row, token: Token, chain: ChainOfSteps) -> None:
        self.row = row
        self.token = token
        self.chain = chain
        self._extra: dict[str, Any] | None = None

    def columns(self, first: str, last: str) -> Row:
        """The values from column ``first`` to column ``last``."""
        return self.row[_AT[first] : _AT[last] + 1]

    def added(self, hints: Mapping[str, Any]) -> dict[str, Any]:
        """The step's own fields that have no column, where they are not at their default."""
        known = {name: value for name, value in self.part("step").items() if name in hints}
        return {name: codec.from_plain(hints[name], value) for name, value in known.items()}

    def part(self, name: str) -> Any:
        """The value of ``extra`` under ``name``; an empty object where it has none."""
        if self._extra is None:
            text = self.row[_AT["extra"]]
            self._extra = codec.loads(dict[str, Any], text) if text else {}
        return self._extra.get(name, {})

    def draw(self) -> Draw:
        how, u, low, high = self.columns("how", "high")
        known = {"token_id": self.token.id, "how": How(how), "u": u, "low": low, "high": high}
        return codec.build(Draw, self.part("draw"), **known)

    def timing(self) -> StepTiming:
        names = ("forward_ms", "sample_ms", "detokenize_ms", "other_ms", "total_ms")
        known = dict(zip(names, self.columns("forward_ms", "total_ms"), strict=True))
        flags = ("warmup", "reused", "reread")
        known.update(zip(flags, map(bool, self.columns("warmup", "reread")), strict=True))
        return codec.build(StepTiming, self.part("timing"), **known)

    def kv(self) -> KVState:
        names = ("seen", "stored", "nbytes", "computed", "cached", "block_size")
        known = dict(zip(names, self.columns("kv_seen", "kv_block_size"), strict=True))
        return codec.build(KVState, self.part("kv"), **known)

    def seed(self) -> int:
        return int(self.row[_AT["seed"]])

    def stop(self) -> Stop | None:
        kind, detail = self.columns("stop_kind", "stop_detail")
        return None if kind is None else Stop(StopKind(kind), detail or "")


def unpack_stages(row: StepRow, rows: Sequence[Row]) -> tuple[StageTrace, ...]:
    """The traces of a step from its rows of ``stage_result``, in order."""
    if len(rows) != len(row.chain.stages):
        raise RowsError(f"{len(row.chain.stages)} stages expected, {len(rows)} found")
    extras = row.part("stages") or [{}] * len(rows)
    before = row.row[_AT["entropy_raw"]]
    traces = []
    for one, kept, extra in zip(row.chain.stages, rows, extras, strict=True):
        _, survivors, mass_removed, entropy_before, entropy, log_z = kept[:6]
        known = {"name": one.name, "label": one.label, "params": dict(one.params), "off": one.off}
        traces.append(
            codec.build(
                StageTrace,
                extra,
                **known,
                survivors=survivors,
                mass_removed=mass_removed,
                entropy_before=before if entropy_before is None else entropy_before,
                entropy=entropy,
                log_z=log_z,
            )
        )
        before = entropy
    return tuple(traces)


def unpack_top(
    row: StepRow, stages: Sequence[Row], rows: Sequence[Row], tokens: tuple[Token, ...]
) -> TopTable:
    """The table of a step from its rows of ``stage_result`` and ``candidate``, and their tokens."""
    # NULL becomes NaN, which SQLite itself cannot hold.
    columns = np.array([*zip(*rows, strict=True)][2:], np.float64)
    for column, null in zip(columns, (-np.inf, 0.0, SURVIVES, 0), strict=True):
        column[np.isnan(column)] = null
    logits, finals, cuts, ranks = columns
    log_z = row.row[_AT["log_z_raw"]]
    weight_sum, raw_logprobs, raw_probs = row.columns("weight_sum", "raw_probs")
    with np.errstate(all="ignore"):
        raw = logits.astype(np.float32)
        cut_by = _cut_by(cuts, raw, len(stages))
        levels = [Level(weight_sum, None, raw_probs), *(Level(*one[6:9]) for one in stages)]
        divisors = [one.divisor for one in row.chain.stages]
        # The last level is the final probabilities, which are kept as they are.
        probs = unpack_levels(raw, cut_by, levels[:-1], divisors, [one[5] for one in stages])
    ids = [token.id for token in tokens]
    if len(set(ids)) != len(ids):
        raise RowsError(f"a candidate of node {row.row[0]} is there twice")
    if row.token.id not in ids:
        raise RowsError(f"the token of node {row.row[0]} is not among its candidates")
    probs = np.vstack((probs, finals))
    if not (probs.min() >= 0.0 and probs.max() <= 1.0 + 1e-9):
        raise RowsError("a probability is not between 0 and 1")
    top = codec.build(
        TopTable,
        row.part("top"),
        ids=np.array(ids, np.int32),
        raw_logits=raw,
        raw_logprobs=_logprobs(raw_logprobs, raw, log_z),
        probs=probs,
        cut_by=cut_by,
        ranks=np.where(ranks == 0, np.arange(1, len(rows) + 1), ranks).astype(np.int32),
        tokens=tokens,
    )
    slack = top.slack
    if slack is not None and not (slack.shape == probs.shape and (abs(slack) <= 1.0).all()):
        raise RowsError(f"the bounds of node {row.row[0]} do not fit its candidates")
    return top


def _cut_by(cut_by: DoubleArray, raw: FloatArray, stages: int) -> NDArray[np.int8]:
    if cut_by.min() < CUT_BY_MODEL or cut_by.max() >= stages:
        raise RowsError("a candidate was cut by a stage that there is not")
    if ((raw == -np.inf) & (cut_by != CUT_BY_MODEL)).any() or raw.max() == np.inf:
        raise RowsError("a candidate has no logit")
    return cut_by.astype(np.int8)


def _logprobs(kept: bytes | None, raw: FloatArray, log_z: float) -> DoubleArray:
    if kept is not None and len(kept) != 8 * raw.size:
        raise RowsError("as many log-probabilities expected as candidates")
    found = raw.astype(np.float64) - log_z if kept is None else np.frombuffer(kept, "<f8").copy()
    if not (found <= 1e-3).all():
        raise RowsError("a log-probability is above 0")
    return found
