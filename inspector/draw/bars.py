"""Probabilities as figures, and as stretches of the draw's cumulative bar."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

import numpy as np
from textual.content import Content

from engine.records.arrays import DoubleArray
from engine.records.partial import Interval
from engine.text import share as share
from inspector.draw.numbers import NOTHING

FIGURE = 5
"""Cells of a probability as ``share`` writes it."""

_SURVIVORS = ("▆", "▃")
"""Survivors' stretches take turns, so that each one's ends are seen without colour."""
_DRAWN = "█"
_WOULD = "▓"
_U = "▼"
_MANY = "░"
"""Several stretches in one cell, or survivors that are not known one by one."""


def about(probability: float) -> str:
    """A probability in ``FIGURE`` cells: as exact as it is known, and never more."""
    figure = share(probability)
    if len(figure) <= FIGURE or not isinstance(probability, Interval):
        return figure
    slack = (probability.high - probability.low) / 2
    if slack > 0.01:
        return NOTHING
    return f"~{probability * 100:.{0 if slack > 0.0005 or probability >= 0.0995 else 1}f}%"


@dataclass(frozen=True, eq=False)
class DrawLine:
    """Survivors' stretches side by side from 0 to 1.

    ``probs`` are those that are known, in the order of the draw. ``stretch`` is where the drawn
    token lies, None where that is not known; ``u`` is the number that was drawn, if one was.
    ``tried``: nothing was really drawn there.
    """

    probs: DoubleArray
    stretch: tuple[float, float] | None
    u: float | None
    tried: bool = False
    names: Sequence[str] = ()
    """Words for the first stretches, written where they fit; a cell a character."""

    def u_cell(self, cells: int) -> int | None:
        """The cell that ``u`` falls in."""
        return None if self.u is None else min(cells - 1, int(self.u * cells))

    def bar(self, cells: int, *, mark_u: bool = False) -> Content:
        """The bar in exactly ``cells`` cells; ``mark_u`` puts a mark for ``u`` into it."""
        if cells <= 0:
            return Content("")
        ends = np.cumsum(self.probs)
        middles = (np.arange(cells) + 0.5) / cells
        owners = np.searchsorted(ends, middles, side="right")
        wide = self.probs * cells >= 1.0
        glyphs = [
            _SURVIVORS[owner % 2] if owner < wide.size and wide[owner] else _MANY
            for owner in owners.tolist()
        ]
        if self.stretch is not None:
            low, high = self.stretch
            # At least one cell, and the one with u: the middle rule could leave it with none.
            first = self.u_cell(cells)
            first = min(cells - 1, int((low + high) / 2 * cells)) if first is None else first
            mine = {first, *np.flatnonzero((middles >= low) & (middles < high)).tolist()}
            for cell in mine:
                glyphs[cell] = _WOULD if self.tried else _DRAWN
        marked = self.u_cell(cells)
        if mark_u and marked is not None:
            glyphs[marked] = _U
        mine_style = "$estimated" if self.tried else "$bar-drawn"
        styles = [mine_style if glyph in (_DRAWN, _WOULD, _U) else "$bar" for glyph in glyphs]
        for owner, name in enumerate(self.names):
            own = np.flatnonzero(owners == owner).tolist()
            place = slice(own[0] + 1, own[0] + 1 + len(name)) if own else slice(0)
            if name and len(own) >= len(name) + 2 and _U not in glyphs[place]:
                glyphs[place] = name
                styles[place] = ["$foreground"] * len(name)
        groups = groupby(zip(styles, glyphs, strict=True), key=itemgetter(0))
        return Content.assemble(
            *(("".join(glyph for _, glyph in cells), style) for style, cells in groups)
        )
