"""The bill of one branch: tokens by kind, each with the time and the bytes that they took.

Every time is a sum of durations that were measured; where one pass served several kinds, as in a
speculative round, its time is divided by positions, and the figure is derived. Bytes are what the
passes had to move at least: the weights once a pass, and K and V as far as they went. The lines'
times add up to the prefill and all steps of the branch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.bill.prices import Kind, PriceList
from engine.records.figure import Figure, Source
from engine.records.model import ModelFacts
from engine.records.prompt import PrefillRecord
from engine.records.round import RoundRecord
from engine.records.step_table import Figures
from engine.roofline import step_bytes

NAMES = {
    Kind.PROMPT: "prompt computed",
    Kind.CACHED: "prompt cached",
    Kind.OUTPUT: "output",
    Kind.THINKING: "thinking",
    Kind.DISCARDED: "drafted, thrown away",
}
NO_PASS = "no pass was run for them"
NO_SIZE = "the cache's size is not known"
NO_PRICE = "the price list has none for them"
_PRICED = "tokens x price of a million"
_SPLIT = "of a round's time, the share of the positions that were thrown away is theirs"


@dataclass(frozen=True, slots=True)
class Line:
    """One kind of tokens."""

    kind: Kind
    tokens: int
    time: Figure
    moved: Figure
    price: Figure

    @property
    def name(self) -> str:
        return NAMES[self.kind]


@dataclass(frozen=True, slots=True)
class Bill:
    """All kinds that there were, and their sums. ``currency`` and ``list_name`` are the list's."""

    lines: tuple[Line, ...]
    total: Line
    currency: str
    list_name: str

    def line(self, kind: Kind) -> Line | None:
        """The line of a kind, if there were such tokens."""
        return next((one for one in self.lines if one.kind is kind), None)


@dataclass(frozen=True, slots=True)
class Shares:
    """Time and bytes of each output token, and of the drafts thrown away on the way to them."""

    ms: NDArray[np.float64]
    nbytes: NDArray[np.float64]
    """Not a number where the cache's size is not known."""
    lost: int
    lost_ms: float
    lost_bytes: float


def shares(facts: ModelFacts | None, figures: Figures, rounds: Mapping[int, RoundRecord]) -> Shares:
    """Divide the steps of a path, one row of ``figures`` each, among its tokens.

    A round's pass read its drafts and one position more. Of its time and bytes the drafts thrown
    away have their positions' share, and the tokens that it added the rest, evenly.
    """
    weights = facts.weight_bytes if facts is not None else 0
    ms = figures["total_ms"].astype(np.float64)
    nbytes = weights + figures["kv_bytes"].astype(np.float64)
    nbytes[figures["reused"]] = 0.0
    # The first token's pass was the prefill.
    nbytes[:1] = 0.0
    lost, lost_ms, lost_bytes = 0, 0.0, 0.0
    for number in np.unique(figures["round"][figures["round"] != 0]).tolist():
        record, own = rounds.get(number), np.flatnonzero(figures["round"] == number)
        spent, moved = float(ms[own].sum()), float(nbytes[own[0]])
        thrown = 0 if record is None else len(record.drafted) - record.accepted
        share = 0.0 if record is None else thrown / (len(record.drafted) + 1)
        ms[own] = spent * (1 - share) / len(own)
        nbytes[own] = moved * (1 - share) / len(own)
        lost, lost_ms, lost_bytes = (
            lost + thrown,
            lost_ms + spent * share,
            lost_bytes + moved * share,
        )
    return Shares(ms, nbytes, lost, lost_ms, lost_bytes)


def prefill_bytes(facts: ModelFacts | None, prefill: PrefillRecord) -> float | None:
    """Bytes that reading the prompt moved: the weights once a chunk, and K and V up to its end."""
    held, seen = prefill.kv.nbytes, prefill.kv.seen
    if facts is None or held is None or not seen:
        return None
    ends = [chunk.start + chunk.count for chunk in prefill.chunks]
    return sum(step_bytes(facts.weight_bytes, held * end / seen) for end in ends)


def bill_of(
    facts: ModelFacts | None,
    prefill: PrefillRecord | None,
    figures: Figures,
    split: Shares,
    thinking: NDArray[np.bool_],
    prices: PriceList,
) -> Bill:
    """The bill of a path: ``figures`` a row a step, ``thinking`` a truth value a step."""
    bursts = bool(figures["round"].any())
    lines = []
    if prefill is not None:
        moved = prefill_bytes(facts, prefill)
        if prefill.computed:
            time = _time(prefill.total_ms, split=False)
            lines.append(_line(Kind.PROMPT, prefill.computed, time, moved, prices))
        if prefill.cached:
            none = Figure("time", None, "ms", Source.MEASURED, "", NO_PASS)
            lines.append(_line(Kind.CACHED, prefill.cached, none, None, prices, NO_PASS))
    for kind, mask in ((Kind.THINKING, thinking), (Kind.OUTPUT, ~thinking)):
        if mask.any():
            time = _time(float(split.ms[mask].sum()), split=bursts)
            moved = float(split.nbytes[mask].sum())
            lines.append(_line(kind, int(mask.sum()), time, moved, prices))
    if split.lost:
        time = _time(split.lost_ms, split=True)
        lines.append(_line(Kind.DISCARDED, split.lost, time, split.lost_bytes, prices))
    return Bill(tuple(lines), _total(lines), prices.currency, prices.name)


def _time(ms: float, *, split: bool) -> Figure:
    source = Source.DERIVED if split else Source.MEASURED
    return Figure("time", ms, "ms", source, _SPLIT if split else "sum of the passes' times")


def _line(
    kind: Kind,
    tokens: int,
    time: Figure,
    moved: float | None,
    prices: PriceList,
    why: str = NO_SIZE,
) -> Line:
    there = moved is not None and np.isfinite(moved)
    nbytes = Figure(
        "moved",
        moved if there else None,
        "B",
        Source.DERIVED,
        "weights + K/V so far, once a pass",
        "" if there else why,
    )
    price = prices.price(kind, tokens)
    cost = Figure(
        "price",
        price,
        prices.currency,
        Source.ESTIMATED,
        _PRICED,
        "" if price is not None else NO_PRICE,
    )
    return Line(kind, tokens, time, nbytes, cost)


def _total(lines: list[Line]) -> Line:
    """The sums of what is known; None where nothing is."""

    def added(name: str, unit: str) -> Figure:
        figures = [getattr(one, name) for one in lines]
        known = [one.value for one in figures if one.value is not None]
        sources = {one.source for one in figures if one.value is not None}
        source = Source.MEASURED if sources == {Source.MEASURED} else Source.DERIVED
        if name == "price":
            source = Source.ESTIMATED
        reason = next((one.reason for one in figures if one.reason), "nothing was done yet")
        if not known:
            return Figure(name, None, unit, source, "sum of the lines", reason)
        return Figure(name, sum(known), unit, source, "sum of the lines")

    currency = lines[0].price.unit if lines else ""
    tokens = sum(one.tokens for one in lines)
    return Line(
        Kind.OUTPUT, tokens, added("time", "ms"), added("moved", "B"), added("price", currency)
    )
