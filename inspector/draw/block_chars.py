"""Bars and small charts out of block characters: pure functions from numbers to strings.

Bars stand on zero, so that lengths compare as the numbers do. One column is one value; what is
not a finite number is left out of the scale and shown as ``×``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import accumulate

ACROSS = " ▏▎▍▌▋▊▉█"
AT_THE_END = "▕"
UP = " ▁▂▃▄▅▆▇█"
HALVES = "▄▀"
NOT_FINITE = "×"


def finite(values: Iterable[float | None]) -> tuple[list[float], int]:
    """The finite ones among ``values``, and how many were left out."""
    listed = list(values)
    kept = [value for value in listed if value is not None and math.isfinite(value)]
    return kept, len(listed) - len(kept)


def bar(share: float, width: int) -> str:
    """A bar that fills ``share`` (0..1) of ``width`` cells, to an eighth of a cell.

    Above zero it is never empty. Exactly ``width`` characters.
    """
    return placed(0.0, share, width)


def placed(start: float, end: float, width: int) -> str:
    """A bar from ``start`` to ``end`` (shares of the axis) on an axis of ``width`` cells.

    Block characters fill from the left only, so the start is rounded to a whole cell and the end
    to an eighth of one. A stretch too short to be seen is one thin line.
    """
    if width <= 0 or not (math.isfinite(start) and math.isfinite(end)) or end < start:
        return " " * max(0, width)
    start, end = (min(max(share, 0.0), 1.0) for share in (start, end))
    first = int(start * width + 0.5)
    if first >= width:
        return " " * (width - 1) + (AT_THE_END if end > start else " ")
    eighths = round(end * width * 8) - first * 8
    if eighths <= 0:
        eighths = 1 if end > start else 0
    body = ACROSS[-1] * (eighths // 8) + (ACROSS[eighths % 8] if eighths % 8 else "")
    return (" " * first + body).ljust(width)


def shares(parts: Sequence[float], total: float, width: int) -> list[int]:
    """Cells for each of ``parts`` on a bar where ``total`` is ``width`` cells.

    Ends are rounded, not lengths, so that the cells add up as the parts do.
    """
    if width <= 0 or not total > 0:
        return [0] * len(parts)
    ends = [min(width, round(end / total * width)) for end in accumulate(parts)]
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]


def spark(values: Sequence[float | None], high: float) -> str:
    """One character a value, from nothing at 0 to a full cell at ``high``; None is a space."""
    return chart(values, 1, high)[0]


def chart(values: Sequence[float | None], height: int, high: float) -> list[str]:
    """Columns ``height`` cells tall, one a value, top line first.

    A value above zero shows at least an eighth of a cell; one that is not finite is ``×`` at the
    bottom, None an empty column.
    """
    columns = [_column(value, height, high) for value in values]
    return ["".join(column[row] for column in columns) for row in range(height)]


def _column(value: float | None, height: int, high: float) -> str:
    if value is None:
        return " " * height
    if not math.isfinite(value):
        return NOT_FINITE.rjust(height)
    share = min(max(value / high, 0.0), 1.0) if high > 0 else 0.0
    eighths = max(round(share * height * 8), 1 if value > 0 else 0)
    full, rest = divmod(eighths, 8)
    return ((UP[rest] if rest else "") + UP[-1] * full).rjust(height)


def dots(values: Sequence[float | None], height: int, low: float, high: float) -> list[str]:
    """A dot at each value, one cell wide and half a cell high, top line first.

    A dot has no length to compare, so the axis need not begin at 0: it runs from ``low`` to
    ``high``. None and what is not finite are left empty.
    """
    levels = [_level(value, height * 2, low, high) for value in values]
    return [
        "".join(
            " " if level is None or level // 2 != height - 1 - row else HALVES[level % 2]
            for level in levels
        )
        for row in range(height)
    ]


def _level(value: float | None, steps: int, low: float, high: float) -> int | None:
    if value is None or not math.isfinite(value):
        return None
    share = min(max((value - low) / (high - low), 0.0), 1.0) if high > low else 0.5
    return min(int(share * steps), steps - 1)
