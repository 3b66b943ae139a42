"""Rounds against plain steps: the speed-up, the acceptance that it takes, and where it pays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from textual.content import Content

from engine.acceptance import Acceptance, break_even, speed_up, stretches
from engine.records.model import FEW_ROWS, ModelFacts, best_of_rows
from engine.records.round import RoundRecord
from engine.records.step_table import Figures, steady
from engine.run.tree import ROOT
from inspector.draw.block_chars import UP
from inspector.draw.numbers import NOTHING, derived, fit, measured, ms, muted, percent, three
from inspector.state.view import RunLog

_CELLS = 24
SLOWER = "·"


@dataclass(frozen=True, slots=True)
class Plain:
    """Time of a plain step in ms, and in words whose it is: "" for this branch's own."""

    ms: float
    whose: str


def plain_step(log: RunLog, branch: Figures) -> Plain | None:
    """The median plain step of the branch; else of the whole run, else as timed at load."""
    table = log.tree.table
    every = table.figures(np.arange(len(table)))
    # The first token comes with the reading of the prompt.
    for steps, whose in (
        (branch[1:], ""),
        (every[every["parent"] != ROOT], "of this run"),
    ):
        times = steps["total_ms"][steady(steps) & (steps["round"] == 0)]
        if times.size and float(np.median(times)) > 0:
            return Plain(float(np.median(times)), whose)
    facts = log.facts
    for trial in facts.dtype_trials if facts is not None else ():
        if facts is not None and trial.dtype == facts.dtype and trial.step_ms:
            return Plain(trial.step_ms, "at load")
    return None


def worth(timed: Acceptance, plain: Plain | None) -> Content:
    """Time a token against a plain step, and the acceptance from which it would be less."""
    spent = timed.draft_ms + timed.verify_ms + timed.rest_ms
    each = spent / (timed.rounds + timed.accepted)
    line = muted(" a token ") + derived(ms(each)) + muted(" · plain ")
    if plain is None:
        return line + muted(f"{NOTHING} no plain step in this run to compare with")
    drafts = max(1, round(timed.drafted / timed.rounds))
    even = break_even(spent / timed.rounds, plain.ms, drafts)
    pays = f"pays from {percent(even)} a draft on ƒ" if even is not None else ""
    speed = NOTHING if each <= 0 else f"{three(plain.ms / each)}×"
    return (
        line
        + measured(ms(plain.ms))
        + muted(f" {plain.whose}" if plain.whose else "")
        + Content(" → ")
        + derived(speed, "bold")
        + muted(f" · {pays or 'no acceptance would pay'}")
    )


def rows_at_once(facts: ModelFacts | None) -> Content | None:
    """The dtype that is fastest for a pass over a few rows, as timed at load; None if none was."""
    best = best_of_rows(facts.dtype_trials) if facts is not None else None
    if facts is None or best is None:
        return None
    timed = [one for one in facts.dtype_trials if one.rows_ms is not None]
    figures = ", ".join(f"{one.dtype} {ms(one.rows_ms or 0.0)}" for one in timed)
    here = facts.dtype.split()[0]
    then = "" if best.dtype == here else f"; this run is in {here}: try --dtype {best.dtype}"
    return (
        muted(f" {FEW_ROWS} rows a pass, at load •: {best.dtype} is fastest")
        + Content.styled(then, "$warning")
        + muted(f" ({figures})")
    )


def where(
    rounds: Sequence[RoundRecord], starts: Sequence[int], plain: Plain, width: int
) -> Content:
    """Along the text, how much faster than plain steps the rounds were; ``·`` where slower."""
    speeds = [speed_up([one], plain.ms) for one in rounds]
    known = [
        (speed, start) for speed, start in zip(speeds, starts, strict=True) if speed is not None
    ]
    if not known:
        return muted(f" where it pays {NOTHING}")
    best, at = max(known)
    paid = sum(speed > 1 for speed, _ in known)
    groups = [speed_up(one, plain.ms) or 0.0 for one in stretches(rounds, _CELLS)]
    top = max(*groups, 1.0)
    cells = "".join(SLOWER if one <= 1 else UP[max(1, round(one / top * 8))] for one in groups)
    head = muted(" where it pays ") + Content.styled(cells, "$bar")
    of = f" ƒ {paid:,} of {len(known):,} rounds"
    most = f", most at position {at:,}: {three(best)}×" if paid else ""
    return fit(width, head + muted(of + most), head + muted(of), head)
