"""The way to any node of a tree, and on from it, found without a walk where it was looked at last.

Between two looks a tree mostly grows at one end, and the cursor moves along one branch: that branch
is kept, and only what differs from it is walked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from engine.records.step import StepRecord
from engine.records.step_table import StepPath, StepTable, table_of
from inspector.state.token_line import Line

ROOT = 0


class Ways:
    """The branches of one tree. Tell it of every step, and of what is taken away or put back."""

    def __init__(self, steps: Mapping[int, StepRecord], children: dict[int, list[int]]) -> None:
        self.steps, self.children = steps, children
        self.table: StepTable = table_of(steps)
        self._line = Line(steps, self.table)
        # Nodes with several children, and perhaps some that had.
        self._forks = {node for node, after in children.items() if len(after) > 1}

    def added(self, step: StepRecord) -> None:
        """A step is in the tree now."""
        self.table.add(step)
        if len(self.children[step.parent]) > 1:
            self._forks.add(step.parent)

    def reshaped(self) -> None:
        """Not only were steps added: what was known of branches may be wrong."""
        self._line = Line(self.steps, self.table)
        self._forks = {node for node, after in self.children.items() if len(after) > 1}

    def path(self, node: int) -> StepPath:
        """The steps from the first token to ``node``; none where there is no such node."""
        line = self._through(node)
        return line.path(0, line.index.get(node, -1) + 1)

    def branch(self, node: int, visited: Mapping[int, int]) -> StepPath:
        """The steps of the whole branch that ``node`` lies on, which goes on as visited last."""
        line = self._through(node)
        at = line.index.get(node, -1)
        # Only where there is a choice can what was the way on before be another one now.
        for place, fork in sorted(self._turns()):
            taken = line.nodes[place + 1] if place + 1 < len(line) else None
            if place >= at and taken is not None and self.following(fork, visited) != taken:
                line = self._line = line.head(place + 1)
                break
        line.extend(self._on_from(line.nodes[-1] if len(line) else ROOT, visited))
        return line.path(0, len(line))

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
        return None if fork is None else (line.nodes[place + 1], self.children[fork])

    def nearest(self, node: int, nodes: Iterable[int]) -> int | None:
        """Of ``nodes`` the last one on the way to ``node``, or itself."""
        line = self._through(node)
        at = line.index.get(node, -1)
        places = (line.index.get(one, -1) for one in nodes)
        place = max((one for one in places if one <= at), default=-1)
        return line.nodes[place] if place >= 0 else None

    def _through(self, node: int) -> Line:
        """The line that was looked at last, made to hold ``node``, if there is such a node."""
        line, parents = self._line, self.table.parents
        missing: list[int] = []
        while node not in line.index and node in parents:
            missing.append(node)
            node = parents[node]
        keep = line.index.get(node, -1) + 1
        if missing and keep < len(line):
            line = line.head(keep)
        line.extend(reversed(missing))
        self._line = line
        return line

    def _on_from(self, node: int, visited: Mapping[int, int]) -> Iterator[int]:
        while (child := self.following(node, visited)) is not None:
            yield child
            node = child

    def _turns(self) -> Iterator[tuple[int, int]]:
        """The forks on the line, each with its place before it; the prompt's place is -1."""
        index = self._line.index
        for fork in self._forks:
            if fork in index or fork == ROOT:
                yield index.get(fork, -1), fork
