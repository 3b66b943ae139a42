"""Arrival time of each token of a recorded run, so that a replay can keep its tempo."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from engine.records.prompt import PrefillRecord, PromptRecord
from engine.records.step import StepRecord
from engine.records.step_table import figures_of


def arrivals_ms(
    prompt: PromptRecord | None, prefill: PrefillRecord | None, steps: Sequence[StepRecord]
) -> list[float]:
    """Milliseconds from submitting the prompt to each token of the path.

    The user's pauses are not among them. With streaming off all of the text is shown at the last
    one: it arrives no sooner.
    """
    start = prompt.tokenize_ms if prompt else 0.0
    start += prefill.total_ms + (prefill.lookup_ms or 0.0) if prefill else 0.0
    return [start + total for total in accumulate(figures_of(steps)["total_ms"].tolist())]
