"""The run's tree: one row a stretch of tokens, its forks drawn as lines."""

from __future__ import annotations

from dataclasses import dataclass, field

from textual.geometry import Size

from engine.run.tree import ROOT
from inspector.draw.numbers import PERCENT, plural, wrapped
from inspector.messages import GoTo
from inspector.panes.tree.rows import details, heading, tree_rows
from inspector.panes.waiting import about
from inspector.state.branches import Branches
from inspector.state.view import View
from inspector.widgets.line_view import Pane
from inspector.widgets.picture import Picture

_HEADING_FROM, _DETAILS_FROM = 4, 7
"""Rows that the pane must have before the titles, and the selected row's details, get theirs."""
_DETAIL_LINES = 2


@dataclass(frozen=True, eq=False)
class TreeUI:
    """State of the pane."""

    head: int = ROOT
    """The first node of the selected row."""
    before: int | None = None
    """The cursor's row in the picture before. The selection goes with it when it is another."""
    branches: Branches = field(default_factory=Branches)
    """Memo of the tree's stretches."""


def draw(view: View, size: Size, ui: TreeUI | None = None) -> Picture:
    """The pane."""
    ui, width = ui or TreeUI(), size.width
    branches = ui.branches
    branches.update(view.log.tree)
    cursor = branches.row_of(view.cursor)
    if view.prompt is None:
        text = "The branches of this run will be here, as a tree."
        return Picture(about(text, width), select=0, follow=cursor)
    select = cursor if cursor != ui.before else branches.row_of(ui.head)
    footer = []
    if size.height >= _DETAILS_FROM:
        footer = wrapped("", 1, width, details(view, branches, branches.rows[select]))
    tips = sum(not row.forks for row in branches.rows)
    ends = "1 branch" if tips == 1 else f"{tips:,} branches"
    return Picture(
        tree_rows(view, branches, width),
        [heading(view, branches, width)] if size.height >= _HEADING_FROM else [],
        footer[:_DETAIL_LINES],
        subtitle=f"{ends} · {plural(branches.tokens, 'token')} · {PERCENT}",
        select=select,
        follow=cursor,
    )


class TreePane(Pane):
    """A click or enter on a row goes to its first token; where that is, enter goes to its last."""

    NAME = "Tree"
    SELECTABLE = True
    HELP = """
A row is a run of tokens between two forks. At a fork the tokens that leave the line come first; the
one with which the line itself goes on, below them, is as much a choice as they are. The heavy line
leads to the cursor (**●**). *prob* is the probability after the sampler, *how* the seed that drew
the token, or what chose it; **≠** there means other settings than the token before had.

**enter** goes to a row's first token, and from there to its last. **h** and **l** go from branch to
branch at the nearest fork above the cursor, **f** makes a new one, **m** names the selected branch,
**D** deletes it.
"""

    def __init__(self, *, id: str | None = None, number: int | str | None = None) -> None:
        super().__init__(id=id, number=number)
        self._branches = Branches()

    def picture(self, view: View, size: Size) -> Picture:
        return draw(view, size, TreeUI(self.head, self.drawn.follow, self._branches))

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
