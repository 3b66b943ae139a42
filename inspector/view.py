"""What the panes see: the records of a run so far, and the place the user looks at.

A ``RunLog`` collects records as they come, from an engine or from a file. A ``View`` is one look at
it, and at what another sampler chain would make of it: a pane is a pure function of a View (and of
its own width and height).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from engine.records import (
    BranchDeleted,
    BranchNamed,
    DenseLogits,
    EngineError,
    LoadProgress,
    ModelFacts,
    PrefillRecord,
    PromptRecord,
    Record,
    RunState,
    SettingsChanged,
    StateChanged,
    StepRecord,
    Tokenized,
    Vocabulary,
)
from engine.sampling.chain import Chain
from engine.timing import Speed, speed

ROOT = 0


@dataclass(eq=False)
class RunLog:
    """All records of one run, by kind. Grows by ``add``; no record in it is ever changed."""

    facts: ModelFacts | None = None
    prompt: PromptRecord | None = None
    prefill: PrefillRecord | None = None
    settings: SettingsChanged | None = None
    all_settings: dict[tuple[str, str], SettingsChanged] = field(default_factory=dict)
    """Every one there was, by preset and chain: the run may change them as it goes."""
    state: StateChanged = field(default_factory=lambda: StateChanged(RunState.STARTING))
    loading: LoadProgress | None = None
    error: EngineError | None = None
    vocabulary: Vocabulary | None = None
    dense: DenseLogits | None = None
    tokenized: Tokenized | None = None
    not_stored: str = ""
    """Why no whole logits can be had: the run is a recording without them."""
    unsaved: str = ""
    """Why the run is not being kept, although it was meant to be."""
    nodes: MutableMapping[int, StepRecord] = field(default_factory=dict)
    children: dict[int, list[int]] = field(default_factory=lambda: {ROOT: []})
    names: dict[int, str] = field(default_factory=dict)
    """What branches are called, by the node that each begins with."""
    hidden: frozenset[int] = frozenset()
    """Nodes of deleted branches: still among ``nodes``, but nothing leads to them."""
    _deleted: set[int] = field(default_factory=set)
    _path: list[StepRecord] = field(default_factory=list)

    def add(self, record: Record) -> None:
        """Take in one record. A new prompt begins a new, empty tree."""
        match record:
            case StepRecord():
                self.nodes[record.node] = record
                self.children.setdefault(record.node, [])
                self.children.setdefault(record.parent, []).append(record.node)
            case PromptRecord():
                self.prompt, self.prefill, self.dense = record, None, None
                self.nodes, self.children, self._path = {}, {ROOT: []}, []
                self.names, self.hidden, self._deleted = {}, frozenset(), set()
            case BranchNamed():
                self.names[record.node] = record.name
            case BranchDeleted():
                self._delete(record)
            case PrefillRecord():
                self.prefill = record
            case ModelFacts():
                self.facts, self.loading = record, None
            case SettingsChanged():
                self.settings = record
                self.all_settings[record.preset, record.chain_spec] = record
            case StateChanged():
                self.state = record
                if record.state in (RunState.PREFILL, RunState.RUNNING, RunState.LOADING):
                    self.error = None
            case LoadProgress():
                self.loading = record
            case DenseLogits():
                self.dense = record
            case Vocabulary():
                self.vocabulary = record
            case Tokenized():
                self.tokenized = record
            case EngineError():
                self.error = record

    def take_over(
        self, nodes: MutableMapping[int, StepRecord], children: dict[int, list[int]]
    ) -> None:
        """Have a recorded tree; of it stays hidden what the records before say is deleted."""
        self.nodes, self.children, self.hidden = nodes, children, frozenset()
        for node in sorted(self._deleted):
            self._unlink(node)

    def _delete(self, record: BranchDeleted) -> None:
        node = record.node
        if not record.undone:
            self._deleted.add(node)
            self._unlink(node)
        elif node in self._deleted:
            self._deleted.remove(node)
            if node not in self.nodes:
                return  # of a recording whose tree is still to come
            self.hidden -= self.below(node)
            insort(self.children[self.nodes[node].parent], node)

    def _unlink(self, node: int) -> None:
        step = self.nodes.get(node)
        if step is not None and node in self.children[step.parent]:
            self.children[step.parent].remove(node)
            self.hidden |= self.below(node)

    def below(self, node: int) -> frozenset[int]:
        """The node and all that comes after it."""
        found = [node]
        for one in found:
            found.extend(self.children[one])
        return frozenset(found)

    def path(self, node: int) -> Sequence[StepRecord]:
        """The records from the first token to ``node``: read them before the next call."""
        path = self._path
        step = self.nodes.get(node)
        if step is not None and (path[-1].node if path else ROOT) == step.parent:
            path.append(step)
        elif not (path and path[-1].node == node):
            path.clear()
            while step is not None:
                path.append(step)
                step = self.nodes.get(step.parent)
            path.reverse()
        return path

    def following(self, node: int, visited: Mapping[int, int]) -> int | None:
        """The child that comes after ``node``: the one visited last, else the newest."""
        children = self.children.get(node)
        if not children:
            return None
        last = visited.get(node)
        return last if last in children else children[-1]

    def tip(self, node: int, visited: Mapping[int, int]) -> int:
        """The node at the end of the branch that ``node`` lies on."""
        while (child := self.following(node, visited)) is not None:
            node = child
        return node

    def branch(self, node: int) -> int | None:
        """The node that ``node``'s branch begins with; None at the prompt.

        That is where the nearest fork above has a choice, or the first token where there is none.
        """
        first = None
        while (step := self.nodes.get(node)) is not None:
            first = node
            if len(self.children[step.parent]) > 1:
                break
            node = step.parent
        return first


@dataclass(frozen=True, eq=False)
class View:
    """One look at a run: everything a pane may draw from."""

    log: RunLog
    cursor: int = ROOT
    what_if: Chain | None = None
    """A chain to try on the cursor's distribution instead of the recorded one."""
    visited: Mapping[int, int] = field(default_factory=dict)
    """Node -> its child that was visited last, which its branch goes on with."""

    @property
    def facts(self) -> ModelFacts | None:
        return self.log.facts

    @property
    def prompt(self) -> PromptRecord | None:
        return self.log.prompt

    @property
    def prefill(self) -> PrefillRecord | None:
        return self.log.prefill

    @property
    def settings(self) -> SettingsChanged | None:
        return self.log.settings

    @property
    def step(self) -> StepRecord | None:
        """The record at the cursor; None at the root."""
        return self.log.nodes.get(self.cursor)

    @property
    def path(self) -> Sequence[StepRecord]:
        """The records from the first token to the cursor."""
        return self.log.path(self.cursor)

    @cached_property
    def ahead(self) -> Sequence[StepRecord]:
        """The records after the cursor on its branch."""
        found: list[StepRecord] = []
        node = self.log.following(self.cursor, self.visited)
        while node is not None:
            found.append(self.log.nodes[node])
            node = self.log.following(node, self.visited)
        return found

    @cached_property
    def speed(self) -> Speed:
        """TTFT, ITL and TPS of the path to the cursor."""
        return speed(self.prompt, self.prefill, self.path)

    @property
    def settled(self) -> bool:
        """Whether the engine stands still: while it runs flat out, nothing costly is computed."""
        return self.log.state.state not in (RunState.PREFILL, RunState.RUNNING)

    @property
    def dense(self) -> DenseLogits | None:
        """The whole logit vector of the cursor's step, if it has been fetched."""
        dense = self.log.dense
        return dense if dense is not None and dense.node == self.cursor else None
