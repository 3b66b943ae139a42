"""When each token of a recorded run arrived, so that a replay can keep its tempo."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    start += prefill.total_ms if prefill else 0.0
    return [start + total for total in accumulate(figures_of(steps)["total_ms"].tolist())]


def delays_s(arrivals: Sequence[float], speed: float = 1.0) -> Iterator[float]:
    """Seconds to wait before each token, at ``speed`` times the recorded tempo.

    Raises ValueError for a speed that is not above 0.
    """
    if not speed > 0.0:
        raise ValueError(f"a speed is above 0, not {speed:g}")
    before = 0.0
    for arrival in arrivals:
        yield (arrival - before) / 1000.0 / speed
        before = arrival
