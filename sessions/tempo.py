"""Arrival time of each token of a recorded run, so that a replay can keep its tempo."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

from engine.records.columns import PassRecord
from engine.records.prompt import PrefillRecord, PromptRecord
from engine.records.step import StepRecord
from engine.records.step_table import figures_of


def arrivals_ms(
    prompt: PromptRecord | None,
    prefill: PrefillRecord | None,
    steps: Sequence[StepRecord],
    passes: Iterable[PassRecord] = (),
) -> list[float]:
    """Milliseconds from submitting the prompt to each token of the path.

    The user's pauses are not among them. With streaming off all of the text is shown at the last
    one: it arrives no sooner. A token of one of ``passes`` came when all of that pass did.
    """
    start = prompt.tokenize_ms if prompt else 0.0
    start += prefill.total_ms + (prefill.lookup_ms or 0.0) if prefill else 0.0
    figures = figures_of(steps)
    took = dict(zip(figures["node"].tolist(), figures["total_ms"].tolist(), strict=True))
    for one in passes:
        for column in one.columns:
            came = zip(column.nodes, (one.total_ms, *[0.0] * len(column.nodes)), strict=False)
            took |= {node: ms for node, ms in came if node in took}
    return [start + total for total in accumulate(took.values())]
