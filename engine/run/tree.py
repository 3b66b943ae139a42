"""The run as a tree of recorded steps: which follows which, and where the cursor is."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import overload

from engine.records.step import StepRecord, Stop
from engine.records.step_table import StepTable

ROOT = 0
"""The node that stands for the prompt."""


class Ids(Sequence[int]):
    """A stretch of a list that only grows, as it is now; the list is not copied."""

    def __init__(self, ids: list[int], start: int) -> None:
        self._ids, self._range = ids, range(start, len(ids))

    def __len__(self) -> int:
        return len(self._range)

    def __iter__(self) -> Iterator[int]:
        return islice(self._ids, self._range.start, self._range.stop)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[int, ...]: ...
    def __getitem__(self, index: int | slice) -> int | tuple[int, ...]:
        if isinstance(index, slice):
            return tuple(self._ids[place] for place in self._range[index])
        return self._ids[self._range[index]]


class Tree:
    """All nodes of one run; every node but the root is one token behind its parent's."""

    def __init__(self, prompt_ids: Sequence[int] = (), *, held: int | None = None) -> None:
        """``held``: of how many steps, the newest, the records stay here; None: of all.

        What stepping on from any node needs stays of every step.
        """
        self.prompt_ids = tuple(prompt_ids)
        self.held = held
        self.nodes: dict[int, StepRecord] = {}
        self.table = StepTable()
        self.stops: dict[int, Stop] = {}
        """Why a run ends at a node, where it does."""
        self.states: dict[int, Mapping[str, float]] = {}
        """What stages carry on after a node, where they do."""
        self.children: dict[int, list[int]] = {ROOT: []}
        self.cursor = ROOT
        self.next_node = 1
        """A number that no node has had yet."""
        # Branches that were deleted since the last new token, each oldest node first.
        self._deleted: list[list[tuple[int, StepRecord | None]]] = []
        # The ids from the root to one node, mostly the tip: the common case needs no walk.
        self._path_node = ROOT
        self._path_ids = list(self.prompt_ids)

    def add(self, record: StepRecord) -> None:
        """Hang a new node under its parent, and go there."""
        ids = self.path_ids(record.parent)
        self._hold(record)
        self.table.add(record)
        if record.stop is not None:
            self.stops[record.node] = record.stop
        if record.state:
            self.states[record.node] = record.state
        self.children[record.node] = []
        self.children[record.parent].append(record.node)
        # In place: a copy at every step would make long runs slow.
        ids.append(record.token.id)
        self._path_node = record.node
        self.next_node = max(self.next_node, record.node + 1)
        self.cursor = record.node

    def _hold(self, record: StepRecord) -> None:
        self.nodes[record.node] = record
        if self.held is not None and len(self.nodes) > self.held:
            del self.nodes[next(iter(self.nodes))]

    def parent(self, node: int) -> int:
        """The node before ``node``, which is not the root. Raises KeyError."""
        return self.table.parents[node]

    def settle(self) -> None:
        """What was deleted before stays so."""
        self._deleted.clear()

    def delete(self, node: int) -> list[int]:
        """Take ``node`` out with all that comes after it; the nodes that went, oldest first."""
        parent = self.parent(node)
        gone = [node]
        for one in gone:
            gone.extend(self.children[one])
        self.children[parent].remove(node)
        for one in gone:
            del self.children[one]
        gone.sort()
        self._deleted.append([(one, self.nodes.pop(one, None)) for one in gone])
        if self.cursor in gone:
            self.cursor = parent
        if self._path_node in gone:
            self._path_node, self._path_ids = ROOT, list(self.prompt_ids)
        return gone

    def undelete(self) -> int | None:
        """Put back what was deleted last; the node that it begins with, None if there is none."""
        if not self._deleted:
            return None
        back = self._deleted.pop()
        for node, record in back:
            if record is not None:
                self._hold(record)
            self.children[node] = []
            insort(self.children[self.parent(node)], node)
        return back[0][0]

    def path(self, node: int) -> list[StepRecord]:
        """The records from the root's first child to ``node``. Raises KeyError for one not held."""
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
            self._path_ids = [*self.prompt_ids, *self._token_ids(node)]
            self._path_node = node
        return self._path_ids

    def _token_ids(self, node: int) -> list[int]:
        found: list[int] = []
        while node != ROOT:
            found.append(self.table.token(self.table.row(node)).id)
            node = self.parent(node)
        return found[::-1]
