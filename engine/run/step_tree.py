"""A tree of recorded steps, and the one that a run in this process goes on in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from functools import cached_property
from itertools import islice
from typing import overload

from engine.records.columns import MOST_COLUMNS
from engine.records.round import RoundRecord
from engine.records.step import StepRecord, Stop
from engine.records.step_table import StepPath, StepTable, table_of
from engine.run.tree import ROOT, Nodes, Tree


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


class StepTree(Tree):
    """A tree with the record and the figures of every node but the root."""

    def __init__(
        self, steps: MutableMapping[int, StepRecord] | None = None, tree: Tree | None = None
    ) -> None:
        """``steps``: where the records are and new ones are put; ``tree``: their tree, copied."""
        super().__init__(*((tree.parents, tree.heads) if tree is not None else ()))
        self.steps: MutableMapping[int, StepRecord] = {} if steps is None else steps

    def copy(self) -> StepTree:
        """This tree as it is now, over the same records, for who reads it while the run goes on."""
        found = StepTree(self.steps, self)
        found.table = self.table
        return found

    @cached_property
    def table(self) -> StepTable:
        """The figures of all steps, deleted ones included."""
        return table_of(self.steps)

    def add_step(self, step: StepRecord) -> None:
        """Hang a new step under its parent. Raises KeyError where there is no such parent."""
        table = self.table  # made of the steps before
        self.add_node(step.node, step.parent)
        table.add_row(step)
        self.steps[step.node] = step

    def along(self, nodes: Nodes) -> StepPath:
        """The steps of these nodes, each read when it is asked for."""
        return StepPath(self.steps, self.table, self.table.rows(nodes))


_LISTS = MOST_COLUMNS
"""Nodes whose ids are at hand: the tips of all columns."""


class LiveTree(StepTree):
    """The tree of a run that goes on in this process, and where in it the cursor is.

    What stepping on from any node needs stays of every step, also where its record does not.
    """

    def __init__(self, prompt_ids: Sequence[int] = (), *, held: int | None = None) -> None:
        """``held``: of how many steps, the newest, the records stay here; None: of all."""
        super().__init__()
        self.prompt_ids = tuple(prompt_ids)
        self.held = held
        self.stops: dict[int, Stop] = {}
        """Reason for which a run ends at a node, where it does."""
        self.states: dict[int, Mapping[str, float]] = {}
        """State of the stages after a node, where they have any."""
        self.rounds: dict[int, RoundRecord] = {}
        """Speculative rounds by the node of their first token, the newest where some are held."""
        self.cursor = ROOT
        self.next_node = 1
        """A number that no node has had yet."""
        # Records of deleted branches that can still be brought back.
        self._deleted_steps: dict[int, StepRecord] = {}
        # The ids from the root to some nodes, mostly tips: the common case needs no walk.
        self._lists = {ROOT: list(self.prompt_ids)}

    def add_step(self, step: StepRecord) -> None:
        """Hang a new step under its parent, and go there. What was deleted before stays so."""
        ids = self.path_ids(step.parent)
        super().add_step(step)
        self._drop_oldest()
        self._deleted_steps.clear()
        if step.stop is not None:
            self.stops[step.node] = step.stop
        if step.state:
            self.states[step.node] = step.state
        # In place: a copy at every step would make long runs slow.
        ids.append(step.token.id)
        self._lists[step.node] = self._lists.pop(step.parent)
        self.next_node = max(self.next_node, step.node + 1)
        self.cursor = step.node

    def add_round(self, record: RoundRecord, steps: Sequence[StepRecord]) -> None:
        """Add the steps of a speculative round, and the round."""
        for step in steps:
            self.add_step(step)
        self.rounds[record.node] = record
        if self.held is not None and len(self.rounds) > self.held:
            del self.rounds[next(iter(self.rounds))]

    def delete(self, node: int) -> list[int]:
        """Take ``node`` out with all that comes after it; the nodes that went, oldest first."""
        gone = super().delete(node)
        held = (one for one in gone if one in self.steps)
        self._deleted_steps.update({one: self.steps.pop(one) for one in held})
        if self.cursor in self.deleted:
            self.cursor = self.parents[node]
        return gone

    def undelete(self, node: int) -> list[int]:
        """Put back the branch that begins with ``node``; the nodes that came back, oldest first."""
        back = super().undelete(node)
        for one in back:
            if one in self._deleted_steps:
                self.steps[one] = self._deleted_steps.pop(one)
        self._drop_oldest()
        return back

    def path_ids(self, node: int) -> list[int]:
        """Token ids from the start of the prompt to ``node``, both included.

        Do not change it, nor keep it: it grows with the run. Raises KeyError for no such node.
        """
        if node not in self._lists:
            if node not in self.children:
                raise KeyError(node)
            while len(self._lists) >= _LISTS:
                del self._lists[next(iter(self._lists))]
            self._lists[node] = [*self.prompt_ids, *self.along(self.path(node)).token_ids]
        return self._lists[node]

    def _drop_oldest(self) -> None:
        while self.held is not None and len(self.steps) > self.held:
            del self.steps[next(iter(self.steps))]
