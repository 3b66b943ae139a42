"""Passes of a run as points on a roofline: what each had to move and to compute, and its time.

The roofline model (Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009): a pass of
intensity I = operations / bytes can reach at most min(rate, bandwidth x I) operations a second.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from engine.records.columns import Part, PassRecord
from engine.records.measured import Ceilings
from engine.records.model import ModelFacts
from engine.records.prompt import PrefillRecord
from engine.records.round import RoundRecord
from engine.records.step import StepRecord
from engine.records.step_table import StepPath, steady
from engine.roofline import step_bytes, utilisation

NEWEST = 200
"""Passes of a kind that are looked at: the newest."""


class PassKind(StrEnum):
    """Kind of a forward pass of the model."""

    PREFILL = "prefill"
    DECODE = "decode"
    ROUND = "round"
    """One that verifies the drafts of a speculative round."""
    BATCH = "batch"
    """One for several branches at once."""


class Roof(StrEnum):
    """The ceiling that a pass comes to first."""

    BANDWIDTH = "bandwidth"
    RATE = "arithmetic"


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass of the model over ``tokens`` positions.

    ``context`` counts the positions that its last one saw, itself included. ``nbytes`` is the
    least that it had to move, ``flops`` what it had to compute; ``plain_bytes`` what plain decode
    steps would have moved for the same tokens. ``warmup``: the first of its shape.
    """

    kind: PassKind
    tokens: int
    context: int
    ms: float
    nbytes: float
    flops: float
    plain_bytes: float = 0.0
    warmup: bool = False

    @property
    def intensity(self) -> float:
        """Operations for each byte that is moved."""
        return self.flops / self.nbytes

    @property
    def flops_per_second(self) -> float:
        return self.flops / self.ms * 1000


# --- the roof -------------------------------------------------------------------------------


def ridge(ceilings: Ceilings) -> float:
    """The intensity where the two roofs meet: ``rate / bandwidth``, operations a byte."""
    return ceilings.flops_per_second / ceilings.read_bytes_per_second


def roof(ceilings: Ceilings, intensity: float) -> float:
    """The most operations a second at an intensity: ``min(rate, bandwidth x intensity)``."""
    return min(ceilings.flops_per_second, ceilings.read_bytes_per_second * intensity)


def bound_by(ceilings: Ceilings, intensity: float) -> Roof:
    """The ceiling that a pass of this intensity comes to first."""
    return Roof.BANDWIDTH if intensity < ridge(ceilings) else Roof.RATE


# --- what a pass needs ----------------------------------------------------------------------


def pass_flops(facts: ModelFacts, start: int, counts: Sequence[int], heads: int = 1) -> float:
    """Operations of a pass whose rows read ``counts`` positions each, behind ``start`` others.

    ``2 (N - V h) t + 2 V h heads + 4 L H d x`` with t positions in all, x pairs of a position and
    one that it sees, and the output head (V x h weights) at ``heads`` positions: see
    ``roofline.step_flops``, which is this for one position. Where the input embedding is a matrix
    of its own, it is counted although it is only looked up.
    """
    head = facts.vocab_size * facts.hidden_size
    head = head if head <= facts.parameters else 0
    tokens = sum(counts)
    pairs = sum(count * start + count * (count + 1) / 2 for count in counts)
    weights = 2.0 * (facts.parameters - head) * tokens + 2.0 * head * heads
    return weights + 4.0 * facts.layers * facts.query_heads * facts.head_dim * pairs


# --- passes of a run ------------------------------------------------------------------------


def why_none(facts: ModelFacts | None, kv_bytes: float | None) -> str:
    """A reason for which passes have no place on a roofline; empty where they have."""
    if facts is None:
        return "no model is loaded yet"
    if not facts.parameters or not facts.weight_bytes:
        return f"backend {facts.backend} has no weights that could be counted"
    if kv_bytes is None:
        return f"bytes of K and V are not known: {facts.kv_note or 'nothing was read yet'}"
    return ""


def prefill_passes(facts: ModelFacts, prefill: PrefillRecord | None) -> list[Pass]:
    """A pass for each chunk of the reading, in order; none where sizes are not known."""
    if prefill is None or prefill.kv.nbytes is None or not prefill.kv.seen:
        return []
    each = prefill.kv.nbytes / prefill.kv.seen
    return [
        Pass(
            PassKind.PREFILL,
            tokens=one.count,
            context=one.start + one.count,
            ms=one.ms,
            nbytes=step_bytes(facts.weight_bytes, each * (one.start + one.count)),
            flops=pass_flops(facts, one.start, [one.count]),
            warmup=one.warmup,
        )
        for one in prefill.chunks[-NEWEST:]
        if one.ms > 0
    ]


def decode_passes(
    facts: ModelFacts, path: StepPath, prompt: int, shared: Collection[int] = ()
) -> list[Pass]:
    """A pass for each steady plain step after the first token; ``prompt`` is its length.

    ``shared`` are nodes of batched passes, which are no plain steps. Without a cache a step reads
    all positions again.
    """
    figures = path.figures
    plain = steady(figures) & (figures["round"] == 0) & (figures["forward_ms"] > 0)
    plain &= np.isfinite(figures["kv_bytes"])
    plain &= ~np.isin(figures["node"], list(shared))
    plain[:1] = False
    found = []
    for at in np.flatnonzero(plain)[-NEWEST:].tolist():
        seen = prompt + at
        count = 1 if facts.keeps_cache else seen
        nbytes = step_bytes(facts.weight_bytes, float(figures["kv_bytes"][at]))
        flops = pass_flops(facts, seen - count, [count])
        ms = float(figures["forward_ms"][at])
        found.append(Pass(PassKind.DECODE, count, seen, ms, nbytes, flops, plain_bytes=nbytes))
    return found


def round_passes(
    facts: ModelFacts, path: StepPath, prompt: int, rounds: Mapping[int, RoundRecord]
) -> list[Pass]:
    """The target's pass of each speculative round on ``path``; drafting is not in it."""
    figures = path.figures
    begins = (figures["round"] > 0) & (figures["round"] == figures["node"])
    begins &= np.isfinite(figures["kv_bytes"])
    found = []
    for at in np.flatnonzero(begins)[-NEWEST:].tolist():
        record = rounds.get(int(figures["node"][at]))
        if record is None or not record.written or record.verify_ms <= 0:
            continue
        # Tokens of the text before the round, and all that was drafted behind them.
        context = prompt + at + len(record.drafted)
        each = float(figures["kv_bytes"][at]) / max(1, prompt + at)
        start = context - record.written
        before = [prompt + at + index for index in range(record.added)]
        found.append(
            Pass(
                PassKind.ROUND,
                tokens=record.written,
                context=context,
                ms=record.verify_ms,
                nbytes=step_bytes(facts.weight_bytes, each * context),
                flops=pass_flops(facts, start, [record.written], heads=record.written),
                plain_bytes=sum(step_bytes(facts.weight_bytes, each * seen) for seen in before),
                warmup=record.warmup,
            )
        )
    return found


def in_one_pass(record: PassRecord) -> bool:
    """True if several rows went through the model together."""
    return record.rows > 1 and record.passes == 1 and record.forward_ms > 0


def batch_passes(
    facts: ModelFacts, records: Sequence[PassRecord], steps: Mapping[int, StepRecord]
) -> list[Pass]:
    """The newest passes over several rows, a token each; ``steps`` has their nodes."""
    found = []
    for record in [one for one in records if in_one_pass(one)][-NEWEST:]:
        rows = [one for one in record.columns if one.part is Part.ROW and one.nodes]
        own = [steps[one.nodes[0]] for one in rows if one.nodes[0] in steps]
        alone = [one.kv.nbytes for one in own if one.kv.nbytes is not None]
        if record.kv_bytes is None or not alone or len(alone) < len(rows):
            continue
        seen = [one.position for one in own]
        found.append(
            Pass(
                PassKind.BATCH,
                tokens=record.rows,
                context=max(seen),
                ms=record.forward_ms,
                nbytes=step_bytes(facts.weight_bytes, record.kv_bytes),
                flops=sum(pass_flops(facts, at - 1, [1]) for at in seen),
                plain_bytes=sum(step_bytes(facts.weight_bytes, one) for one in alone),
                warmup=record.warmup,
            )
        )
    return found


# --- figures of several ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PassFigures:
    """Passes of one kind together. ``mbu`` and ``mfu`` are shares of the machine's ceilings.

    None where there are no ceilings, and ``mbu`` too where it came out above 1: memory does not
    give more than it can, so that bytes stayed in a cache, or the ceilings were measured while
    something else ran. ``plain_mbu`` is the share that plain decode steps would have had to reach
    for the same tokens in the same time; it has no upper end.
    """

    kind: PassKind
    count: int
    tokens: float
    ms: float
    intensity: float
    flops_per_second: float
    mbu: float | None
    mfu: float | None
    plain_mbu: float | None
    roof: Roof | None
    warmup: bool
    """True if all of them were the first of their shape; else those are left out."""
    too_fast: bool = False


def figures_of_kind(passes: Sequence[Pass], ceilings: Ceilings | None) -> PassFigures | None:
    """The figures of passes of one kind: medians, and sums over sums for the shares."""
    steadied = [one for one in passes if not one.warmup]
    used = steadied or list(passes)
    if not used:
        return None
    took = sum(one.ms for one in used)
    nbytes, flops = sum(one.nbytes for one in used), sum(one.flops for one in used)
    mbu = mfu = plain = found = None
    if ceilings is not None:
        mbu = utilisation(nbytes, took, ceilings.read_bytes_per_second)
        mfu = utilisation(flops, took, ceilings.flops_per_second)
        plain = utilisation(
            sum(one.plain_bytes for one in used), took, ceilings.read_bytes_per_second
        )
        found = bound_by(ceilings, flops / nbytes)
    too_fast = mbu is not None and mbu > 1
    return PassFigures(
        kind=used[0].kind,
        count=len(used),
        tokens=statistics.mean(one.tokens for one in used),
        ms=statistics.median(one.ms for one in used),
        intensity=flops / nbytes,
        flops_per_second=flops / took * 1000,
        mbu=None if too_fast else mbu,
        mfu=mfu,
        plain_mbu=plain,
        roof=found,
        warmup=not steadied,
        too_fast=too_fast,
    )


def by_kind(passes: Iterable[Pass]) -> dict[PassKind, list[Pass]]:
    """The passes, sorted by their kind; kinds without any are left out."""
    found: dict[PassKind, list[Pass]] = {}
    for one in passes:
        found.setdefault(one.kind, []).append(one)
    return {kind: found[kind] for kind in PassKind if kind in found}
