"""Bars of several parts behind each other, each with a sign of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence

from textual.content import Content

from inspector.draw.block_chars import shares

Part = tuple[str, str, float]
"""(sign, style, value)"""


def stacked(parts: Sequence[Part], total: float, width: int, *, least: bool = False) -> Content:
    """The parts on a bar where ``total`` is ``width`` cells; ``least``: no part is without a cell.

    Empty where there is no total, or no room for that.
    """
    if not 0 < total < math.inf or width <= 0 or (least and width < 2 * len(parts)):
        return Content("")
    cells = shares([value for _, _, value in parts], total, width)
    if least:
        for at, (_, _, value) in enumerate(parts):
            if value > 0 and not cells[at]:
                cells[cells.index(max(cells))] -= 1
                cells[at] = 1
    drawn = zip(parts, cells, strict=True)
    return Content.assemble(*((sign * count, style) for (sign, style, _), count in drawn))
