"""Measured cost of passes by the number of their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.records.columns import PassRecord
from engine.records.step_table import StepPath, begins_burst, steady
from engine.timing import percentile

MOST_ROWS = 8


@dataclass(frozen=True, slots=True)
class RowsCost:
    """Passes of one number of rows: how many were timed, and their median in milliseconds."""

    rows: int
    count: int
    ms: float
    plain: bool = False
    """True for plain steps of the branch, where no pass of one row was timed."""

    @property
    def each_ms(self) -> float:
        """Milliseconds a token, where each row gives one."""
        return self.ms / self.rows


def costs(passes: Sequence[PassRecord], branch: StepPath) -> list[RowsCost]:
    """The cost by rows, the fewest first: passes that were not the first of their shape.

    Where columns shared no pass, as many passes ran as rows; such are left out. One row is what a
    plain step costs too.
    """
    by_rows: dict[int, list[float]] = {}
    for one in passes:
        if one.passes == 1 and not one.warmup and one.forward_ms > 0.0:
            by_rows.setdefault(one.rows, []).append(one.forward_ms)
    found = []
    if 1 not in by_rows and (plain := _plain_ms(passes, branch)).size:
        found.append(RowsCost(1, int(plain.size), percentile(plain, 0.5) or 0.0, plain=True))
    for rows in sorted(by_rows):
        if rows <= MOST_ROWS:
            times = by_rows[rows]
            found.append(RowsCost(rows, len(times), percentile(times, 0.5) or 0.0))
    return found


def _plain_ms(passes: Sequence[PassRecord], branch: StepPath) -> np.ndarray:
    """Times of the branch's plain decode steps, which no pass of columns made."""
    shared = np.array([node for one in passes for node in one.nodes], np.int64)
    figures = branch.figures[1:]
    wanted = steady(figures) & begins_burst(figures) & (figures["round"] == 0)
    wanted &= ~np.isin(figures["node"], shared)
    times: np.ndarray = figures["forward_ms"][wanted]
    return times[times > 0.0]
