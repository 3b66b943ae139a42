"""The run's tree with its runs of single children folded: what the tree pane has a row for.

A *stretch* is a row of nodes without a choice between them: it begins after a fork (or after the
prompt) and ends at the next one, or at a tip. The prompt is a stretch by itself.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import islice

from engine.run.tree import ROOT, Tree
from inspector.state.view import View


@dataclass(frozen=True, slots=True)
class Row:
    """One stretch and its place in the picture."""

    head: int
    """Its first node."""
    depth: int
    """The column of its line."""
    side: bool
    """True if it leaves the line of the stretch before, one column to the left, or goes on in it.

    The line goes on, below all that leaves it, with the part of the tree that has most tips. So
    each column to the right has at most half as many, and a thousand branches need ten columns.
    """
    forks: int
    """Number of stretches that come after it."""


class Branches:
    """The stretches of one log at a time, kept up to date as the log grows."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        """In the order in which they are drawn: parents first."""
        self.depth = 0
        """The rightmost column."""
        self._nodes: dict[int, list[int]] = {ROOT: [ROOT]}
        self._head_of: dict[int, int] = {ROOT: ROOT}
        self._row_of: dict[int, int] = {}
        self._tree = Tree()
        self._deleted = self._tree.deleted
        self._count = 0

    def update(self, tree: Tree) -> None:
        """Take in what has changed; quick where nodes have only been added."""
        if tree is not self._tree or tree.deleted is not self._deleted:
            self._begin(tree)
        else:
            before = len(self._nodes)
            new = list(islice(reversed(tree.parents), len(tree.parents) - self._count))
            for node in reversed(new):
                self._add(node)
            if len(self._nodes) != before:
                self._draw()
        self._count = len(tree.parents)

    @property
    def tokens(self) -> int:
        """Number of tokens on all branches together."""
        return len(self._head_of) - 1

    def stretch(self, head: int) -> list[int]:
        """The nodes of a stretch. Do not change it."""
        return self._nodes[head]

    def head(self, node: int) -> int:
        """The first node of the stretch that holds ``node``; the prompt for one that is gone."""
        return self._head_of.get(node, ROOT)

    def row_of(self, node: int) -> int:
        return self._row_of[self.head(node)]

    def path(self, node: int) -> list[int]:
        """The rows from the prompt to the one that holds ``node``."""
        rows = [self.row_of(node)]
        while (head := self.rows[rows[-1]].head) != ROOT:
            rows.append(self.row_of(self._tree.parents[head]))
        return rows[::-1]

    def _begin(self, tree: Tree) -> None:
        self._tree, self._deleted = tree, tree.deleted
        self._nodes, self._head_of = {ROOT: [ROOT]}, {ROOT: ROOT}
        for node in tree.parents:
            if node not in tree.deleted:
                self._add(node)
        self._draw()

    def _add(self, node: int) -> None:
        parent = self._tree.parents[node]
        head = self._head_of[parent]
        nodes = self._nodes[head]
        if parent != ROOT and nodes[-1] != parent:
            self._split(nodes, parent)
        if parent != ROOT and len(self._tree.children[parent]) == 1:
            nodes.append(node)
            self._head_of[node] = head
        else:
            self._nodes[node] = [node]
            self._head_of[node] = node

    def _split(self, nodes: list[int], last: int) -> None:
        """End a stretch with the node ``last``; what came after it is one of its own."""
        at = nodes.index(last) + 1
        rest = nodes[at:]
        del nodes[at:]
        self._nodes[rest[0]] = rest
        self._head_of.update((node, rest[0]) for node in rest)

    def _draw(self) -> None:
        tips = self._tips()
        self.rows = []
        waiting = [(ROOT, 0, False)]
        while waiting:
            head, depth, side = waiting.pop()
            following = self._tree.children[self._nodes[head][-1]]
            self.rows.append(Row(head, depth, side, len(following)))
            if following:
                # Of equals the oldest, so that the picture stays as it was when one is added.
                line = max(following, key=lambda child: (tips[child], -child))
                waiting.append((line, depth, False))
                sides = [child for child in reversed(following) if child != line]
                waiting.extend((child, depth + 1, True) for child in sides)
        self.depth = max(row.depth for row in self.rows)
        self._row_of = {row.head: index for index, row in enumerate(self.rows)}

    def _tips(self) -> dict[int, int]:
        """Number of tips below each head, itself included."""
        order = [ROOT]
        for head in order:
            order.extend(self._tree.children[self._nodes[head][-1]])
        tips: dict[int, int] = {}
        for head in reversed(order):
            following = self._tree.children[self._nodes[head][-1]]
            tips[head] = sum(tips[child] for child in following) or 1
        return tips


class Graph:
    """The lines before the rows, heavy on the ``path`` to the cursor: no colour needed."""

    def __init__(self, branches: Branches, path: list[int]) -> None:
        self._rows = branches.rows
        self._path = path

    def line(self, index: int) -> str:
        """The lines of one row, two cells a column."""
        row = self._rows[index]
        at = bisect_left(self._path, index)
        on_path = at < len(self._path) and self._path[at] == index
        ends = at == len(self._path) - 1
        columns = ["│ "] * row.depth
        if row.side:
            columns[-1] = "├─"
        if on_path:
            if row.side:
                columns[-1] = "┡━"
            return "".join(columns) + _heavy(row, ends=ends)
        if 0 < at < len(self._path):
            # Between two rows of the path, which goes down in the column of the upper one.
            column = self._rows[self._path[at - 1]].depth
            columns[column] = {"│ ": "┃ ", "├─": "┠─"}[columns[column]]
        return "".join(columns) + _light(row)


def _light(row: Row) -> str:
    if row.head == ROOT:
        return "┌╴" if row.forks else "╶╴"
    if row.side:
        return "┬╴" if row.forks else "─╴"
    return "├╴" if row.forks else "└╴"


def _heavy(row: Row, *, ends: bool) -> str:
    """``ends``: the cursor is in this row, and what comes after it is not on the path."""
    if row.head == ROOT:
        return ("┍╸" if ends else "┏╸") if row.forks else "╺╸"
    if row.side:
        return ("┯╸" if ends else "┳╸") if row.forks else "━╸"
    return ("┡╸" if ends else "┣╸") if row.forks else "┗╸"


@dataclass(frozen=True, slots=True)
class Place:
    """The cursor's place among the branches."""

    number: int
    """Number of the cursor's branch, 1 the one that was begun first."""
    of: int
    """Number of branches of the whole tree, which is that of its tips."""
    name: str
    """Name of the nearest branch that has one."""


def place(view: View) -> Place:
    """The cursor's place: its branch to the end, among all there are, and the nearest name."""
    log = view.log
    heads = log.tree.branch_heads
    node = log.tip(view.cursor, view.visited) if len(heads) > 1 else ROOT
    number = 1
    while (fork := log.tree.fork_above(node)) is not None:
        head, siblings = fork
        if head in siblings[1:]:
            number = heads.index(head) + 1
            break
        node = log.tree.parents[head]
    return Place(number, max(1, len(heads)), log.name_above(view.cursor))
