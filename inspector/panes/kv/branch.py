"""Blocks of the pool that belong to the cursor's text, and owners of the others.

The engine says of each branch in its pool which node of the run's tree it ends at; how much of it
the cursor shares is then a matter of their lowest common ancestor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.records.cache import BranchState, PoolState
from engine.records.vocabulary import Token
from engine.run.step_tree import StepTree
from engine.run.tree import ROOT, Tree, walk
from inspector.state.view import View


class Place(NamedTuple):
    """A physical block: its group of layers and its number there."""

    group: int
    block: int


@dataclass(frozen=True, slots=True)
class Owner:
    """A branch that refers to a block, and the block's place in it."""

    branch: BranchState
    logical: int

    def positions(self, size: int) -> tuple[int, int]:
        """The positions that the block holds of the branch: the first, and one past the last."""
        start = self.logical * size
        return start, min(start + size, self.branch.length)


@dataclass(frozen=True, eq=False)
class CursorBranch:
    """Place in the pool of the positions that the cursor's token was drawn from.

    ``covered`` of the first ``wanted`` positions are there, as the first of ``branch``; the others
    belong to no branch.
    """

    wanted: int
    covered: int
    branch: BranchState | None

    def table(self, group: int, size: int) -> NDArray[np.int32]:
        """The physical block of each logical one, -1 for one that left the window."""
        if self.branch is None:
            return np.zeros(0, np.int32)
        return self.branch.tables[group][: -(-self.covered // size)]

    def newest(self, size: int) -> Place | None:
        """The block of the last position that is there."""
        table = self.table(0, size)
        return Place(0, int(table[-1])) if table.size and table[-1] >= 0 else None


class TextTree:
    """The tree of a run, where nodes that end the same text are one.

    The first of them that was asked for stands for all. It grows with the run, until the next
    prompt.
    """

    def __init__(self, nodes: StepTree) -> None:
        self.nodes = nodes
        self._tree = Tree()
        self._stands_for = {ROOT: ROOT}
        self._texts: dict[tuple[int, int], int] = {}

    def common(self, one: int, other: int) -> int | None:
        """The number of tokens that two nodes' texts begin with alike; None for an unknown node."""
        if one not in self.nodes.children or other not in self.nodes.children:
            return None
        return self._tree.common(self._known(one), self._known(other))

    def _known(self, node: int) -> int:
        parents, table = self.nodes.parents, self.nodes.table
        for one in walk(parents, node, self._stands_for):
            up, token = self._stands_for[parents[one]], table.token(table.row(one)).id
            same = self._stands_for[one] = self._texts.setdefault((up, token), one)
            if same == one:
                self._tree.add_node(one, up)
        return self._stands_for[node]


def cursor_branch(view: View, pool: PoolState, texts: TextTree) -> CursorBranch:
    """The branch that has most of what the cursor's token was drawn from.

    That is all before its position; at the root, what has been read of the prompt.
    The engine finds what it has by its tokens, and so does this: another node that ends the same
    text will do. Of equals the one that the engine goes on with, then one that is held, then the
    newest.
    """
    prompt = view.prompt_length
    read = view.prefill.kv.seen if view.prefill is not None else 0
    wanted = view.step.position if view.step is not None else min(prompt, read)
    best: tuple[tuple[int, bool, bool, int], BranchState | None] = ((0, False, False, -1), None)
    for branch in pool.branches:
        depth = texts.common(view.cursor, branch.node) if branch.node is not None else None
        if depth is None:
            continue
        covered = min(branch.length, prompt + depth, wanted)
        rank = (covered, branch.number == pool.branch, branch.held, branch.number)
        if covered > 0 and rank > best[0]:
            best = rank, branch
    return CursorBranch(wanted, best[0][0], best[1])


# --- a block of any branch ------------------------------------------------------------------


def owners(pool: PoolState, place: Place) -> list[Owner]:
    """All branches that refer to a block."""
    found = []
    for branch in pool.branches:
        at = np.flatnonzero(branch.tables[place.group] == place.block)
        if at.size:
            found.append(Owner(branch, int(at[0])))
    return found


def node_at(view: View, branch: BranchState, position: int) -> int | None:
    """The node that a position of a branch belongs to; None where the run has none for it."""
    if branch.node is None:
        return None
    depth = max(0, position + 1 - view.prompt_length)
    node = view.log.tree.above(branch.node, depth)
    return node if node in view.log.tree else None


def token_at(view: View, branch: BranchState, position: int) -> Token | None:
    """The token at a position of a branch; None where the run does not know it."""
    prompt = view.prompt_length
    node = node_at(view, branch, position)
    if node is None or view.prompt is None:
        return None
    if position < prompt:
        return view.prompt.tokens[position]
    table = view.log.tree.table
    return table.token(table.row(node)) if node != ROOT else None


def name_of(view: View, branch: BranchState) -> str:
    """The user's name for a branch: the nearest one above its end; "" if there is none."""
    return view.log.name_above(branch.node) if branch.node is not None else ""
