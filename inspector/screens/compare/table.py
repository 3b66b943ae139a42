"""The columns' figures, a row each."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from textual.content import Content
from textual.geometry import Size

from engine.records.alone import ColumnAlone
from engine.text import visible
from inspector.draw.cells import clip
from inspector.draw.numbers import ALL_DERIVED, NOTHING, cut, muted, padded, three, with_marks
from inspector.state.columns import ComparedColumn
from inspector.state.view import View
from inspector.widgets.line_view import Pane
from inspector.widgets.picture import Picture
from sessions.compare.column_figures import RUNS_ON, ColumnCounter, ColumnFigures

_REST_S = 1.0
"""Least time between two sums while columns run: a sum is over all tokens."""
_HEADS = (
    ("tokens", 6, ""),
    ("alone", 6, "read by itself: = the same, (n) near-ties, ≈ parts by rounding, ≠ by a fault"),
    ("rounds", 6, "speculative ones"),
    ("accepted", 8, "share of what they drafted"),
    ("H model", 7, "mean entropy in nats"),
    ("H final", 7, "the same, of what the stages leave"),
    ("surprisal", 9, "mean −log p of the tokens that came"),
    ("d-1", 5, "different tokens over all"),
    ("d-2", 5, "different pairs over all"),
    ("repeat", 6, "longest stretch that comes twice"),
    ("left", 7, "tokens that the last stage leaves"),
    ("tok/s", 6, "a pass that columns share is waited for by all"),
    ("ended by", 10, ""),
)  # fmt: skip
"""Titles, cells and meanings; those that do not fit are left out from the end, but for the last."""
_OF_DRAFTS = ("rounds", "accepted")
_NAME = 3


@dataclass(frozen=True)
class TableRow:
    """A column by its letter, and its figures."""

    letter: str
    title: str
    figures: ColumnFigures
    chosen: bool = False
    alone: ColumnAlone | None = None
    """Result of reading its text alone, where it was."""


def draw(rows: Sequence[TableRow], size: Size) -> Picture:
    """The pane."""
    width = size.width
    heads = _fitting(width, rows)
    used = _NAME + sum(cells + 1 for _, cells, _ in heads)
    title = "".join(f" {name:>{cells}}" for name, cells, _ in heads)
    head = Content.styled(f"{'':{_NAME}}{title}  settings"[:width], "$title")
    lines = [cut(_line(row, heads, width - used), width) for row in rows]
    notes = "; ".join(f"{name}: {meaning}" for name, _, meaning in heads if meaning)
    shown = [*lines, Content(""), *muted(notes).wrap(max(8, width))]
    return Picture(shown, [head], subtitle=with_marks(f"means, {ALL_DERIVED}", width))


def _fitting(width: int, rows: Sequence[TableRow]) -> list[tuple[str, int, str]]:
    """The figures that there is room for, without those that no row has."""
    absent = set[str]() if any(row.alone is not None for row in rows) else {"alone"}
    absent |= set() if any(row.figures.rounds for row in rows) else {*_OF_DRAFTS}
    heads = [one for one in _HEADS if one[0] not in absent]
    while len(heads) > 2 and _NAME + sum(cells + 1 for _, cells, _ in heads) > width:
        # The end of a column is worth more than its speed.
        heads.pop(-2)
    return heads


def _line(row: TableRow, heads: Sequence[tuple[str, int, str]], room: int) -> Content:
    found = row.figures
    words = {
        "tokens": f"{found.tokens:,}",
        "H model": _number(found.entropy),
        "H final": _number(found.entropy_final),
        "surprisal": _number(found.surprisal),
        "d-1": _share(found.distinct_1),
        "d-2": _share(found.distinct_2),
        "repeat": f"{found.repetition:,}",
        "left": _number(found.survivors),
        "alone": _alone(row.alone),
        "rounds": f"{found.rounds:,}" if found.rounds else NOTHING,
        "accepted": NOTHING if found.accepted is None else f"{found.accepted:.0%}",
        "tok/s": _number(found.tps),
        "ended by": "" if found.ended_by == RUNS_ON else found.ended_by.replace("_", " "),
    }
    figures = "".join(f" {clip(words[name], cells):>{cells}}" for name, cells, _ in heads)
    letter = padded(Content.styled(f"{'▸' if row.chosen else ' '}{row.letter}", "bold"), _NAME)
    settings = muted(f"  {clip(visible(row.title), max(0, room - 2))}") if room > 4 else Content("")
    return letter + figures + settings


def _alone(found: ColumnAlone | None) -> str:
    """A sign for the result of reading a column alone."""
    if found is None or found.obstacle:
        return NOTHING
    if found.parting is not None:
        return f"{'≠' if found.fault else '≈'}{found.parting.position}"
    return f"= ({found.near_ties})" if found.near_ties else "="


def _number(value: float | None) -> str:
    return NOTHING if value is None else three(value)


def _share(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f}"


class FigureCache:
    """Figures of columns, told again where a column has grown, but not at every token."""

    def __init__(self) -> None:
        self._counters: dict[int, ColumnCounter] = {}
        self._known: dict[int, tuple[int, float, ColumnFigures]] = {}

    def of(self, column: ComparedColumn, *, running: bool) -> ColumnFigures:
        """The figures; while columns ``running`` perhaps those of a second ago."""
        tip, told, found = self._known.get(column.number, (-1, 0.0, None))
        now = time.monotonic()
        if found is None or (tip != column.tip and (not running or now - told > _REST_S)):
            log = column.log
            counter = self._counters.setdefault(column.number, ColumnCounter())
            found = counter.figures(log.path(column.tip), column.error, log.rounds)
            self._known[column.number] = (column.tip, now, found)
        return found


class FiguresPane(Pane):
    """The table of figures."""

    NAME = "Figures"
    HELP = """
A row a column, over all its tokens. **distinct-1** and **distinct-2** are different tokens and
pairs of tokens over all there are; **repeat** is the longest stretch of tokens that comes twice.
*left* is how many tokens the sampler leaves on average.

Once all columns have ended each is read once more, **alone**: **=** gives the same tokens, *(n)* of
them near-ties that another rounding may decide otherwise; **≈** parts at a position, by a drift of
the logits that is rounding; **≠** by more than that, which is a fault.
"""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._rows: Sequence[TableRow] = ()

    def show_rows(self, view: View, rows: Sequence[TableRow]) -> None:
        """Draw these from now on, where they are not what is drawn already."""
        if rows != self._rows:
            self._rows = rows
            self.show(view)

    def picture(self, view: View, size: Size) -> Picture:
        return draw(self._rows, size)
