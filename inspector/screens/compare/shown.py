"""A comparison as its panes are to show it: each column's state, the pair, the table, the plots."""

from __future__ import annotations

from inspector.screens.compare.column import ColumnUI
from inspector.screens.compare.sweep import SweepPoint, numbers_of
from inspector.screens.compare.table import FigureCache, TableRow
from inspector.screens.compare.why import Pair, pair_of
from inspector.state.columns import LETTERS, ComparedColumn
from inspector.state.comparison import Comparison


def column_ui(comparison: Comparison, column: ComparedColumn, *, aligned: bool) -> ColumnUI:
    """State of a column beside its text."""
    first, goes_on = comparison.columns[0], comparison.extends(column)
    return ColumnUI(
        title=column.title,
        parting=comparison.parting(column),
        other=first.ids if column is not first else (),
        paused=column.paused and not goes_on,
        waiting=goes_on,
        error=column.error,
        chosen=column is comparison.column,
        aligned=aligned,
    )


def pair(comparison: Comparison) -> Pair | None:
    """The focused column and the one that it is compared with; None where there is no other."""
    column, other = comparison.column, comparison.other
    if other is column:
        return None
    return pair_of(
        (comparison.letter(column), column),
        (comparison.letter(other), other),
        comparison.parting_of_pair(),
    )


def table_rows(comparison: Comparison, figures: FigureCache) -> list[TableRow]:
    """A row a column."""
    return [
        TableRow(
            letter,
            column.title,
            figures.of(column, running=comparison.running),
            chosen=column is comparison.column,
            alone=comparison.read_alone(column),
        )
        for letter, column in zip(LETTERS, comparison.columns, strict=False)
    ]


def sweep_points(comparison: Comparison, figures: FigureCache) -> list[SweepPoint]:
    """A point a column."""
    return [
        SweepPoint(
            letter,
            numbers_of(column),
            figures.of(column, running=comparison.running),
            None if column is comparison.columns[0] else comparison.parting(column),
        )
        for letter, column in zip(LETTERS, comparison.columns, strict=False)
    ]
