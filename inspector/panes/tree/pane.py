"""The run's tree: one row a stretch of tokens, its forks drawn as lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.content import Content

from engine.run.tree import ROOT
from inspector.draw.numbers import muted, plural, wrapped
from inspector.messages import GoTo
from inspector.panes.tree.rows import details, heading, tree_rows
from inspector.state.branches import Branches
from inspector.state.view import View
from inspector.widgets.line_view import Pane, Rows

_HEADING_FROM, _DETAILS_FROM = 4, 7
"""Rows that the pane must have before the titles, and the selected row's details, get theirs."""
_DETAIL_LINES = 2


class TreePane(Pane):
    """A click or enter on a row goes to its first token; where that is, enter goes to its last."""

    NAME: ClassVar[str] = "Tree"
    SELECTABLE: ClassVar[bool] = True
    HELP = """
A row is a run of tokens between two forks. At a fork the tokens that leave the line come first; the
one with which the line itself goes on, below them, is as much a choice as they are. The heavy line
leads to the cursor (**●**). *prob* is the probability after the sampler, *how* the seed that drew
the token, or what chose it; **≠** there means other settings than the token before had.

**enter** goes to a row's first token, and from there to its last. **h** and **l** go from branch to
branch at the nearest fork above the cursor, **f** makes a new one, **m** names the selected branch,
**D** deletes it.
"""

    def __init__(self, *, id: str | None = None, number: int | None = None) -> None:
        super().__init__(id=id, number=number)
        self._branches = Branches()
        self._cursor_row: int | None = None

    def header(self, view: View, width: int) -> Sequence[Content]:
        chosen = self.head
        self._branches.update(view.log.tree)
        row = self._branches.row_of(view.cursor)
        # The selection goes with the cursor; while that rests, it stays on the row it was on.
        self.selected = row if row != self._cursor_row else self._branches.row_of(chosen)
        self._cursor_row = row
        if view.prompt is None or self.scrollable_content_region.height < _HEADING_FROM:
            return ()
        return [heading(view, self._branches, width)]

    def rows(self, view: View, width: int, height: int) -> Rows:
        if view.prompt is None:
            return [muted("no prompt yet")]
        return tree_rows(view, self._branches, width)

    def footer(self, view: View, width: int) -> Sequence[Content]:
        if view.prompt is None or self.scrollable_content_region.height < _DETAILS_FROM:
            return ()
        row = self._branches.rows[self.selected]
        return wrapped("", 1, width, details(view, self._branches, row))[:_DETAIL_LINES]

    def subtitle(self, view: View) -> Content:
        if view.prompt is None:
            return Content("")
        tips = sum(not row.forks for row in self._branches.rows)
        branches = "1 branch" if tips == 1 else f"{tips:,} branches"
        return Content(f"{branches} · {plural(self._branches.tokens, 'token')}")

    def follow(self, view: View) -> int | None:
        return self._cursor_row

    @property
    def head(self) -> int:
        """The node that the selected row begins with."""
        rows = self._branches.rows
        return rows[self.selected].head if self.selected < len(rows) else ROOT

    def clicked(self, row: int, x: int) -> None:
        self.select(row)
        self.post_message(GoTo(self.head))

    def action_choose(self) -> None:
        nodes = self._branches.stretch(self.head)
        self.post_message(GoTo(nodes[-1] if self.view.cursor == nodes[0] else nodes[0]))
