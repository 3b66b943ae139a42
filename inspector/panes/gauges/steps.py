"""The newest steps as a table: what each one cost, and how sure the model was.

Steps that are in no average carry a letter: ``w`` warm-up, the first of its shape; ``r`` reused
logits, ran no pass; ``b`` had to read its branch again.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from textual.content import Content

from engine.records.step import StepRecord, StepTiming
from engine.records.step_table import Figures, steady
from engine.text import visible_bytes
from inspector.draw.numbers import MUTED, NOTHING, cut, heading, ms, muted, right

COLUMNS = (
    ("step", 6),
    ("total", 9),
    ("forward", 9),
    ("sample", 9),
    ("other", 9),
    ("entropy", 9),
    ("final", 7),
)
KINDS = {"warmup": "w", "reused": "r", "reread": "b"}
"""Reasons for which a step is in no average, by its timing's fields: the first that holds."""
TOKEN = 12
"""Cells that a token's text must have to be shown at all."""


def step_table(path: Sequence[StepRecord], width: int, height: int) -> list[Content]:
    """The newest steps of ``path``, with a title and column names, in ``height`` lines."""
    rows = height - 2
    widths = [cells for _, cells in COLUMNS]
    columns = sum(end <= width for end in accumulate(widths))
    if rows < 1 or not path or columns < 2:
        return []
    token = width - sum(widths) >= TOKEN
    names = Content("").join(right(muted(name), cells) for name, cells in COLUMNS[:columns])
    lines = [
        heading("Steps: times •, entropy in nats ƒ", width),
        cut(names + muted("    token") if token else names, width),
    ]
    first = max(0, len(path) - rows)
    for number, step in enumerate(path[first:], start=first + 1):
        texts = _texts(number, step)[:columns]
        cells = [right(Content(text), wide) for text, wide in zip(texts, widths, strict=False)]
        line = Content.assemble(*cells, (f"{letter(step.timing):>3}", MUTED))
        lines.append(cut(line + f" {visible_bytes(step.token.bytes)}" if token else line, width))
    return lines


def _texts(number: int, step: StepRecord) -> tuple[str, ...]:
    t = step.timing
    return (
        f"{number:,}",
        ms(t.total_ms),
        forward(step),
        ms(t.sample_ms),
        ms(t.detokenize_ms + t.other_ms),
        f"{step.entropy_raw:.2f}",
        f"{step.entropy_final:.2f}",
    )


def letter(timing: StepTiming) -> str:
    """The reason for which a step is in no average, as one letter; empty for one that is."""
    return next((one for name, one in KINDS.items() if getattr(timing, name)), "")


def letters(figures: Figures) -> dict[int, str]:
    """The letters of the steps that are in no average, by their place among these."""
    left_out = np.flatnonzero(~steady(figures)).tolist()
    kinds = zip(*(figures[name][left_out].tolist() for name in KINDS), strict=True)
    return {
        at: next(one for one, is_so in zip(KINDS.values(), kind, strict=True) if is_so)
        for at, kind in zip(left_out, kinds, strict=True)
    }


def forward(step: StepRecord) -> str:
    """The time of the step's own pass; none for the first token, whose pass was the prefill."""
    return ms(step.timing.forward_ms) if step.timing.forward_ms else NOTHING
