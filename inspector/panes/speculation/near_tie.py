"""A greedy token of a round that rounding may have chosen: the next one is as good as equal."""

from __future__ import annotations

import math

import numpy as np
from textual.content import Content

from engine.records.step import How, StepRecord
from inspector.draw.cells import token_text
from inspector.draw.numbers import cut
from inspector.state.view import View

_BITS = {"float16": 10, "bfloat16": 7, "float32": 23}
"""Bits of the fraction of a number in each dtype."""
_UNITS = 2
"""A logit's rounding in units of its last place: as the model puts it out, and what went before."""
OTHER_DTYPE = "weights in "
"""Beginning of the label of a drift that another dtype's weights make."""


def near_tie_lines(view: View, width: int) -> list[Content]:
    """A line where the cursor's token, drawn greedily in a round, is ahead by less than the drift.

    A pass over several positions rounds otherwise than one over a single one: without drafts the
    other token might have come.
    """
    step = view.step
    if step is None or not step.round or step.draw.how is not How.GREEDY:
        return []
    second = _second(step)
    if second is None:
        return []
    row, margin = second
    drift, mark = _drift(view, step)
    if drift is None or not margin <= drift < math.inf:
        return []
    line = Content.styled(f" ! near-tie: {margin:.4f} logits ahead of ", "$warning")
    told = f"; {'measured' if mark == '•' else 'estimated'} drift {drift:.4f} {mark}"
    words = f"{told}: a pass over one position may take it"
    return [cut(line + token_text(step.top.tokens[row]) + Content.styled(words, "$warning"), width)]


def _second(step: StepRecord) -> tuple[int, float] | None:
    """The row of the second most likely token as the model has it, and how far it is behind.

    None where the token that was taken is not the first.
    """
    ranks = step.top.ranks
    first, second = np.flatnonzero(ranks == 1), np.flatnonzero(ranks == 2)
    if step.rank != 1 or not first.size or not second.size:
        return None
    logits = step.top.raw_logits
    return int(second[0]), float(logits[first[0]]) - float(logits[second[0]])


def _drift(view: View, step: StepRecord) -> tuple[float | None, str]:
    """The largest drift measured in this run, else the rounding of a logit of that size."""
    found = [
        row.drift.max_abs
        for one in view.log.drifts.values()
        for row in one.rows
        if row.drift is not None and not row.label.startswith(OTHER_DTYPE)
    ]
    if found:
        return max(found), "•"
    bits = _BITS.get(view.facts.dtype.split()[0]) if view.facts is not None else None
    if bits is None:
        return None, ""
    largest = float(np.abs(step.top.raw_logits[step.top.ranks <= 2]).max())
    # The place of the last bit of a number of that size.
    unit = 2.0 ** (np.floor(np.log2(max(largest, 1e-30))) - bits)
    return _UNITS * float(unit), "~"
