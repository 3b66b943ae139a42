"""Which blocks of the pool belong to the cursor's text, and whose the others are.

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
from inspector.state.ancestry import Ancestry
from inspector.state.view import ROOT, RunLog, View


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
    """Where the positions that the cursor's token was drawn from lie in the pool.

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


class Trees(NamedTuple):
    """The run's tree as it is, and with branches of the same text as one."""

    nodes: Ancestry
    texts: Ancestry


def trees_of(log: RunLog) -> Trees:
    """The trees of the run that ``log`` holds now; they grow with it until the next prompt."""
    table = log.table
    return Trees(
        Ancestry(table.parents),
        Ancestry(table.parents, lambda node: table.token(table.row(node)).id),
    )


def prompt_length(view: View) -> int:
    """How many tokens the prompt has."""
    return len(view.prompt.tokens) if view.prompt is not None else 0


def cursor_branch(view: View, pool: PoolState, texts: Ancestry) -> CursorBranch:
    """The branch that has most of what the cursor's token was drawn from.

    That is all before its position; at the root, what has been read of the prompt.
    The engine finds what it has by its tokens, and so does this: another node that ends the same
    text will do. Of equals the one that the engine goes on with, then one that is held, then the
    newest.
    """
    prompt = prompt_length(view)
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


def node_at(view: View, tree: Ancestry, branch: BranchState, position: int) -> int | None:
    """The node that a position of a branch belongs to; None where the run has none for it."""
    if branch.node is None:
        return None
    depth = max(0, position + 1 - prompt_length(view))
    node = tree.above(branch.node, depth)
    return None if node is None or node in view.log.hidden else node


def token_at(view: View, tree: Ancestry, branch: BranchState, position: int) -> Token | None:
    """The token at a position of a branch; None where the run does not know it."""
    prompt = prompt_length(view)
    node = node_at(view, tree, branch, position)
    if node is None or view.prompt is None:
        return None
    if position < prompt:
        return view.prompt.tokens[position]
    table = view.log.table
    return table.token(table.row(node)) if node != ROOT else None


def name_of(view: View, tree: Ancestry, branch: BranchState) -> str:
    """What the user calls a branch: the nearest name above its end; "" if there is none."""
    depth = tree.depth(branch.node) if branch.node is not None else None
    if depth is None or branch.node is None:
        return ""
    named = [
        (tree.depth(node) or 0, name)
        for node, name in view.log.names.items()
        if name and tree.above(branch.node, tree.depth(node) or 0) == node
    ]
    return max(named, default=(0, ""))[1]
