"""The latency of each step as a small chart, for a terminal of any width."""

from __future__ import annotations

from collections.abc import Sequence

import plotext

from inspector.draw.block_chars import finite, spark
from inspector.draw.cells import clip
from inspector.draw.numbers import ms, plural, three
from inspector.draw.plots import bounds

LEAST_WIDTH = 40
"""Cells below which a chart has no room for its axes."""
HEIGHT = 10


def chart(steps: Sequence[tuple[int, float]], width: int) -> list[str]:
    """Lines of at most ``width`` cells: (step number, its ms) as a chart, or as one row of bars.

    What is not a finite number is left out, and said to be.
    """
    kept = [(step, value) for step, value in steps if finite([value])[0]]
    if len(kept) < 2 or width <= 0:
        return []
    out = len(steps) - len(kept)
    note = f"  {plural(out, 'step')} left out: no finite time" if out else ""
    values = [value for _, value in kept]
    title = clip(f"step latency {ms(min(values))} – {ms(max(values))} •{note}", width)
    if width < LEAST_WIDTH:
        return [title, spark(values[-width:], max(values))]
    return [title, *_drawn([step for step, _ in kept], values, width)]


def _drawn(steps: Sequence[int], values: Sequence[float], width: int) -> list[str]:
    low, high = bounds(min(values), max(values))
    if low == high:
        low, high = 0.0, 2 * high or 1.0
    ticks = [low, (low + high) / 2, high]
    plotext.clear_figure()
    plotext.limit_size(False, False)
    plotext.theme("clear")
    plotext.plot_size(width, HEIGHT)
    plotext.plot(list(steps), list(values), marker="braille")
    plotext.ylim(low, high)
    plotext.yticks(ticks, [three(tick) for tick in ticks])
    plotext.xticks([steps[0], steps[len(steps) // 2], steps[-1]])
    plotext.xlabel("step")
    plotext.ylabel("ms")
    return [line.rstrip() for line in plotext.uncolorize(plotext.build()).splitlines()]
