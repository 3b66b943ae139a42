"""Figures of a branch's speculative rounds, as lines."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from textual.content import Content

from engine.acceptance import Acceptance, acceptance, break_even
from engine.records.round import RoundRecord
from engine.records.step_table import steady
from inspector.draw.numbers import (
    NOTHING,
    cut,
    derived,
    heading,
    measured,
    ms,
    muted,
    percent,
    plural,
    three,
)
from inspector.state.view import RunLog, View


@dataclass(frozen=True, eq=False)
class BranchRounds:
    """The rounds of a branch, and the time of its plain steps (None where it has none)."""

    rounds: tuple[RoundRecord, ...]
    found: Acceptance
    plain_ms: float | None


def rounds_of(view: View) -> BranchRounds:
    """The rounds that tokens up to the cursor came in."""
    return _rounds_of(view.log, view.cursor, len(view.log.nodes))


@lru_cache(maxsize=4)
def _rounds_of(log: RunLog, cursor: int, _: int) -> BranchRounds:
    figures = log.path(cursor).figures
    numbers = dict.fromkeys(figures["round"].tolist())
    rounds = tuple(log.rounds[one] for one in numbers if one in log.rounds)
    later = figures[1:]
    plain = later["total_ms"][steady(later) & (later["round"] == 0)]
    plain_ms = float(np.median(plain)) if plain.size else None
    return BranchRounds(rounds, acceptance(rounds), plain_ms)


def lines(found: BranchRounds, width: int) -> list[Content]:
    """The branch's figures."""
    stats = found.found
    if not stats.rounds:
        return []
    deviation = three(stats.expected_error or 0.0)
    expected = NOTHING if stats.expected is None else f"{three(stats.expected)} ± {deviation}"
    return [
        heading(f"This branch: {plural(stats.rounds, 'round')}", width),
        cut(
            Content(f" {stats.accepted:,} of {stats.drafted:,} accepted ")
            + derived(percent(stats.rate))
            + muted(" · by p and q ")
            + derived(expected)
            + muted(" · tokens a pass ")
            + derived(f"{stats.tokens_per_pass or 0.0:.2f}"),
            width,
        ),
        cut(_by_position(stats), width),
        cut(_times(stats), width),
        cut(_worth(found), width),
    ]


def _by_position(stats: Acceptance) -> Content:
    parts = [
        f"{index} {percent(one.accepted / stats.rounds)}"
        f" ({percent(one.accepted / one.reached) if one.reached else NOTHING})"
        for index, one in enumerate(stats.positions, start=1)
    ]
    return muted(" position, of all (of reached) ƒ ") + Content(" · ".join(parts))


def _times(stats: Acceptance) -> Content:
    spent = {"draft": stats.draft_ms, "verify": stats.verify_ms, "rest": stats.rest_ms}
    total = sum(spent.values()) or 1.0
    line = muted(" a round ") + measured(ms(total / stats.rounds)) + muted(": ")
    shares = [f"{name} {percent(one / total)}" for name, one in spent.items()]
    return line + Content(" · ".join(shares))


def _worth(found: BranchRounds) -> Content:
    """Time a token against the plain steps of this run, and the acceptance that would do."""
    stats = found.found
    spent = stats.draft_ms + stats.verify_ms + stats.rest_ms
    each = spent / (stats.rounds + stats.accepted)
    line = muted(" a token ") + derived(ms(each)) + muted(" · plain ")
    if found.plain_ms is None:
        return line + muted(f"{NOTHING} no plain step on this branch to compare with")
    drafts = max(1, round(stats.drafted / stats.rounds))
    even = break_even(spent / stats.rounds, found.plain_ms, drafts)
    pays = f"pays from {percent(even)} a draft on ƒ"
    speed = NOTHING if each <= 0 else f"{three(found.plain_ms / each)}×"
    return (
        line
        + measured(ms(found.plain_ms))
        + Content(" → ")
        + derived(speed, "bold")
        + muted(" · no acceptance would pay" if even is None else f" · {pays}")
    )
