"""The tree of a run: parents and children, paths, forks, deletion and undo, common ancestors.

Nodes are numbers, in the order in which they came; what a node stands for is kept elsewhere.
Between two looks a tree mostly grows at a few ends, and cursors move along a few branches: the
branches looked at last are kept in one piece each, and only what differs from them is walked.
"""

from __future__ import annotations

from bisect import insort
from collections import ChainMap
from collections.abc import Collection, Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from engine.records.events import BranchDeleted

Nodes = NDArray[np.int64]
"""Nodes one after the other; never changed once it is given out."""

ROOT = 0
"""The node that stands for the prompt."""

_LINES = 8
"""Branches that are kept: columns of a comparison are looked at in turn, at every frame."""


class Tree:
    """Nodes by number. Grows by ``add_node``; a deleted branch keeps its nodes until it is undone.

    ``children`` leads only to what is there. A path to a deleted node can still be asked for.
    """

    def __init__(self, parents: Mapping[int, int] | None = None, heads: Iterable[int] = ()) -> None:
        """``parents``: the parent of every node, parents first. ``heads``: the nodes that deleted
        branches begin with. Raises KeyError for a parent that is not there.
        """
        self.parents: dict[int, int] = {}
        """The parent of every node but the root, deleted ones included."""
        self.children: dict[int, list[int]] = {ROOT: []}
        """The children of every node, oldest first; none that begins a deleted branch."""
        self.heads = frozenset(heads)
        """The nodes that deleted branches begin with."""
        self.undoable: list[int] = []
        """Of these the ones deleted since the last new node, the last one last."""
        # The branch looked at last, and those looked at before it, the last one last.
        self._line = _Line()
        self._lines_before: list[_Line] = []
        for node, parent in (parents or {}).items():
            self.parents[node] = parent
            self.children[node] = []
            if node not in self.heads:
                self.children[parent].append(node)
        self.deleted = below(self.heads, self.parents)
        """All nodes of deleted branches; another object whenever they are others."""
        # Nodes with several children, and perhaps some that had.
        self._forks = self._all_forks()
        # Each node knows one far ancestor besides its parent, as in E. Myers, "An applicative
        # random-access stack" (1983): the steps to any ancestor are as many as the depth has
        # binary digits. Found out when they are asked for.
        self._depth = {ROOT: 0}
        self._far = {ROOT: ROOT}

    def __contains__(self, node: object) -> bool:
        """True if there is such a node, the root included, and it was not deleted."""
        return node in self.children and node not in self.deleted

    # --- growing and shrinking ----------------------------------------------------------------

    def add_node(self, node: int, parent: int) -> None:
        """Hang a new node under its parent. Raises KeyError where there is no such parent.

        What was deleted before stays so.
        """
        siblings = self.children[parent]
        self.parents[node] = parent
        self.children[node] = []
        siblings.append(node)
        if len(siblings) > 1:
            self._forks.add(parent)
        self.undoable.clear()

    def delete(self, node: int) -> list[int]:
        """Take ``node`` out with all that comes after it; the nodes that went, oldest first.

        None go where there is no such node, or it begins a deleted branch already.
        """
        if node not in self.parents or node in self.heads:
            return []
        gone = self.below(node)
        self.heads |= {node}
        self.deleted |= frozenset(gone)
        self.children[self.parents[node]].remove(node)
        self.undoable.append(node)
        self._reshaped()
        return gone

    def undelete(self, node: int) -> list[int]:
        """Put back the branch that begins with ``node``; the nodes that came back, oldest first.

        What was deleted of it on its own stays away, and all of it does while it lies on a branch
        that is deleted itself.
        """
        if node not in self.heads:
            return []
        if node in self.undoable:
            self.undoable.remove(node)
        self.heads -= {node}
        parent = self.parents.get(node)
        if parent is None:
            return []
        insort(self.children[parent], node)
        back = [] if parent in self.deleted else self.below(node)
        self.deleted -= frozenset(back)
        self._reshaped()
        return back

    def below(self, node: int) -> list[int]:
        """``node`` and all that comes after it, oldest first."""
        found = [node]
        for one in found:
            found.extend(self.children[one])
        return sorted(found)

    def _reshaped(self) -> None:
        """Not only were nodes added: forget what was known of branches."""
        self._line, self._lines_before = _Line(), []
        self._forks = self._all_forks()

    def _all_forks(self) -> set[int]:
        return {node for node, after in self.children.items() if len(after) > 1}

    # --- branches and their ends --------------------------------------------------------------

    @property
    def newest(self) -> int:
        """The node that was added last, of those that are there; the root where there is none."""
        return next((node for node in reversed(self.parents) if node not in self.deleted), ROOT)

    @property
    def tips(self) -> list[int]:
        """The last node of every branch that is there, oldest first."""
        return _ends({node for node in self.parents if node not in self.deleted}, self.parents)

    @property
    def branch_heads(self) -> list[int]:
        """The node that each branch begins with, in the order in which they were begun.

        There are as many as tips: at a fork the oldest child goes on with the branch it is on.
        """
        there = (node for node in self._forks if node not in self.deleted)
        forked = (child for node in there for child in self.children[node][1:])
        return sorted([*self.children[ROOT][:1], *forked])

    @property
    def deleted_tips(self) -> list[int]:
        """The last node of every branch that was deleted, oldest first."""
        return _ends(self.deleted, self.parents)

    # --- the path to a node, and on from it ---------------------------------------------------

    def path(self, node: int) -> Nodes:
        """The nodes from the first token to ``node``; none where there is no such node."""
        line = self._through(node)
        return line.nodes(line.index.get(node, -1) + 1)

    def branch(self, node: int, visited: Mapping[int, int]) -> Nodes:
        """The nodes of the whole branch that ``node`` lies on, which goes on as visited last."""
        line = self._through(node)
        at = line.index.get(node, -1)
        if line.order and line.order[-1] in self.deleted:
            # A path that was looked at for itself: nothing else leads there.
            line = self._line = line.head(at + 1)
        # Only where there is a choice can what was the way on before be another one now.
        for place, fork in sorted(self._turns()):
            taken = line.order[place + 1] if place + 1 < len(line.order) else None
            if place >= at and taken is not None and self.following(fork, visited) != taken:
                line = self._line = line.head(place + 1)
                break
        line.extend(self._on_from(line.order[-1] if line.order else ROOT, visited))
        return line.nodes(len(line.order))

    def following(self, node: int, visited: Mapping[int, int]) -> int | None:
        """The child that comes after ``node``: the one visited last, else the newest."""
        children = self.children.get(node)
        if not children:
            return None
        last = visited.get(node)
        return last if last in children else children[-1]

    def fork_above(self, node: int) -> tuple[int, list[int]] | None:
        """The nearest place above ``node`` with a choice: what was taken, and all there is.

        What was taken is not among the children where it has been deleted. None without a fork.
        """
        line = self._through(node)
        at = line.index.get(node, -1)
        turns = (one for one in self._turns() if one[0] < at and len(self.children[one[1]]) > 1)
        place, fork = max(turns, default=(at, None))
        return None if fork is None else (line.order[place + 1], self.children[fork])

    def nearest(self, node: int, nodes: Iterable[int]) -> int | None:
        """Of ``nodes`` the last one on the path to ``node``, or itself."""
        deepest = sorted(((self.depth(one) or 0, one) for one in nodes), reverse=True)
        found = (one for depth, one in deepest if depth and self.above(node, depth) == one)
        return next(found, None)

    def _through(self, node: int) -> _Line:
        """A branch that was looked at before, made to hold ``node``, if there is such a node."""
        lines = [self._line, *reversed(self._lines_before)]
        known = ChainMap(*(one.index for one in lines))
        missing = walk(self.parents, node, known) if node in self.parents else []
        last = self.parents[missing[0]] if missing else node
        line = next((one for one in lines if last in one.index), lines[0])
        keep = line.index.get(last, -1) + 1 if missing else len(line.order)
        if keep < len(line.order):
            line = line.head(keep)
        if line is not self._line:
            self._lines_before = [one for one in self._lines_before if one is not line]
            self._lines_before.append(self._line)
            del self._lines_before[: 1 - _LINES]
            self._line = line
        line.extend(missing)
        return line

    def _on_from(self, node: int, visited: Mapping[int, int]) -> Iterator[int]:
        while (child := self.following(node, visited)) is not None:
            yield child
            node = child

    def _turns(self) -> Iterator[tuple[int, int]]:
        """The forks on the branch looked at last, each with its place; the root's is -1."""
        index = self._line.index
        for fork in self._forks:
            if fork in index or fork == ROOT:
                yield index.get(fork, -1), fork

    # --- ancestors without a walk -------------------------------------------------------------

    def depth(self, node: int) -> int | None:
        """Number of tokens that lead to ``node``, itself included; None where it is not known."""
        if node not in self._depth:
            if node not in self.parents:
                return None
            for one in walk(self.parents, node, self._depth):
                parent = self.parents[one]
                far = self._far[parent]
                farther, depth = self._far[far], self._depth
                even = depth[parent] - depth[far] == depth[far] - depth[farther]
                self._depth[one] = depth[parent] + 1
                self._far[one] = farther if even else parent
        return self._depth[node]

    def above(self, node: int, depth: int) -> int | None:
        """The node at ``depth`` on the path to ``node``; None where there is none."""
        known = self.depth(node)
        if known is None or not 0 <= depth <= known:
            return None
        return self._climb(node, depth)

    def common(self, one: int, other: int) -> int | None:
        """The depth down to which the paths to both are the same; None for an unknown node."""
        depths = self.depth(one), self.depth(other)
        if depths[0] is None or depths[1] is None:
            return None
        depth = min(depths[0], depths[1])
        here, there = self._climb(one, depth), self._climb(other, depth)
        # At equal depths the far ancestors are at equal depths too.
        while here != there:
            apart = self._far[here] != self._far[there]
            up = self._far if apart else self.parents
            here, there = up[here], up[there]
        return self._depth[here]

    def _climb(self, node: int, depth: int) -> int:
        while self._depth[node] > depth:
            far = self._far[node]
            node = far if self._depth[far] >= depth else self.parents[node]
        return node


class _Line:
    """One branch from its first token on, so that every place on it is found without a walk.

    It grows at its end; another branch is another line.
    """

    def __init__(self, order: Iterable[int] = ()) -> None:
        self.order = list(order)
        self.index = {node: place for place, node in enumerate(self.order)}
        """Node -> its place, 0 the first token."""
        self._array = np.array([*self.order, *[0] * 64], np.int64)

    def extend(self, nodes: Iterable[int]) -> None:
        for node in nodes:
            place = self.index[node] = len(self.order)
            self.order.append(node)
            if place >= len(self._array):
                # Twice as large, so that a long run is not copied at every step.
                self._array = np.concatenate((self._array, np.zeros_like(self._array)))
            self._array[place] = node

    def head(self, length: int) -> _Line:
        """A new line of the first ``length`` nodes."""
        return _Line(self.order[:length])

    def nodes(self, length: int) -> Nodes:
        return self._array[:length]


def walk(parents: Mapping[int, int], node: int, known: Collection[int] = (ROOT,)) -> list[int]:
    """The path to ``node`` from the first one that is not ``known``, nor the root.

    Raises KeyError for a node without a parent.
    """
    found = []
    while node not in known and node != ROOT:
        found.append(node)
        node = parents[node]
    return found[::-1]


def deleted_heads(records: Iterable[BranchDeleted]) -> frozenset[int]:
    """The nodes that deleted branches begin with, after all these records in their order."""
    heads: set[int] = set()
    for one in records:
        (heads.discard if one.undone else heads.add)(one.node)
    return frozenset(heads)


def below(heads: Collection[int], parents: Mapping[int, int]) -> frozenset[int]:
    """These nodes, as far as there are such, and all that come after them.

    ``parents`` has every node's parent, whose number is always the smaller one.
    """
    found: set[int] = set()
    for node in sorted(parents) if heads else ():
        if node in heads or parents[node] in found:
            found.add(node)
    return frozenset(found)


def _ends(nodes: Collection[int], parents: Mapping[int, int]) -> list[int]:
    """Those of ``nodes`` that none of the others comes after, in order."""
    inner = {parents[node] for node in nodes}
    return sorted(node for node in nodes if node not in inner)
