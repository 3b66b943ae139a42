"""The run as a tree of recorded steps: which follows which, and where the cursor is."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence

from engine.records import StepRecord

ROOT = 0
"""The node that stands for the prompt."""


class Tree:
    """All nodes of one run; every node but the root is one token behind its parent's."""

    def __init__(self, prompt_ids: Sequence[int] = ()) -> None:
        self.prompt_ids = tuple(prompt_ids)
        self.nodes: dict[int, StepRecord] = {}
        self.children: dict[int, list[int]] = {ROOT: []}
        self.cursor = ROOT
        self.next_node = 1
        """A number that no node has had yet."""
        # Branches that were deleted since the last new token, each oldest node first.
        self._deleted: list[list[StepRecord]] = []
        # The ids from the root to one node, mostly the tip: the common case needs no walk.
        self._path_node = ROOT
        self._path_ids = list(self.prompt_ids)

    def add(self, record: StepRecord) -> None:
        """Hang a new node under its parent, and go there."""
        ids = self.path_ids(record.parent)
        self.nodes[record.node] = record
        self.children[record.node] = []
        self.children[record.parent].append(record.node)
        # In place: a copy at every step would make long runs slow.
        ids.append(record.token.id)
        self._path_node = record.node
        self.next_node = max(self.next_node, record.node + 1)
        self.cursor = record.node

    def settle(self) -> None:
        """What was deleted before stays so."""
        self._deleted.clear()

    def delete(self, node: int) -> list[int]:
        """Take ``node`` out with all that comes after it; the nodes that went, oldest first."""
        parent = self.nodes[node].parent
        gone = [node]
        for one in gone:
            gone.extend(self.children[one])
        self.children[parent].remove(node)
        for one in gone:
            del self.children[one]
        gone.sort()
        self._deleted.append([self.nodes.pop(one) for one in gone])
        if self.cursor in gone:
            self.cursor = parent
        if self._path_node in gone:
            self._path_node, self._path_ids = ROOT, list(self.prompt_ids)
        return gone

    def undelete(self) -> int | None:
        """Put back what was deleted last; the node that it begins with, None if there is none."""
        if not self._deleted:
            return None
        records = self._deleted.pop()
        for record in records:
            self.nodes[record.node] = record
            self.children[record.node] = []
            insort(self.children[record.parent], record.node)
        return records[0].node

    def path(self, node: int) -> list[StepRecord]:
        """The records from the root's first child to ``node``."""
        found: list[StepRecord] = []
        while node != ROOT:
            found.append(self.nodes[node])
            node = self.nodes[node].parent
        return found[::-1]

    def path_ids(self, node: int) -> list[int]:
        """Token ids from the start of the prompt to ``node``, both included.

        Do not change it, nor keep it: it grows with the run.
        """
        if node != self._path_node:
            self._path_ids = [*self.prompt_ids, *(step.token.id for step in self.path(node))]
            self._path_node = node
        return self._path_ids
