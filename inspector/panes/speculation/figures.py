"""Figures of a branch's speculative rounds, as lines."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from textual.content import Content

from engine.acceptance import Acceptance, acceptance
from engine.records.round import RoundRecord
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
from inspector.panes.speculation.worth import Plain, plain_step, rows_at_once, where, worth
from inspector.state.view import RunLog, View


@dataclass(frozen=True, eq=False)
class BranchRounds:
    """The rounds of a branch, and the time of a plain step, if it is known."""

    rounds: tuple[RoundRecord, ...]
    found: Acceptance
    timed: Acceptance
    """Of the rounds whose time counts: no first passes of a new shape."""
    plain: Plain | None
    starts: tuple[int, ...]
    """Position of each round's first token."""
    rows: Content | None
    """The dtype that would be best for passes over a few rows."""


def rounds_of(view: View) -> BranchRounds:
    """The rounds that tokens up to the cursor came in."""
    return _rounds_of(view.log, view.cursor, len(view.log.nodes))


@lru_cache(maxsize=4)
def _rounds_of(log: RunLog, cursor: int, _: int) -> BranchRounds:
    figures = log.path(cursor).figures
    numbers = dict.fromkeys(figures["round"].tolist())
    rounds = tuple(log.rounds[one] for one in numbers if one in log.rounds)
    timed = [one for one in rounds if not one.warmup] or rounds
    prompt = len(log.prompt.ids) if log.prompt is not None else 0
    at = {node: prompt + index for index, node in enumerate(figures["node"].tolist())}
    starts = tuple(at.get(one.node, 0) for one in rounds)
    return BranchRounds(
        rounds,
        acceptance(rounds),
        acceptance(timed),
        plain_step(log, figures),
        starts,
        rows_at_once(log.facts),
    )


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
        cut(_times(found.timed), width),
        cut(worth(found.timed, found.plain), width),
        *([where(found.rounds, found.starts, found.plain, width)] if found.plain else []),
        *([cut(found.rows, width)] if found.rows is not None else []),
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
