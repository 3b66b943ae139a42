"""What the panes see: the records of a run so far, and the place the user looks at.

A ``RunLog`` collects records as they come, from an engine or from a file. A ``View`` is one look at
it: a pane is a pure function of a View (and of its own width and height).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.records import (
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
    Vocabulary,
)
from engine.timing import Speed, speed

ROOT = 0


@dataclass(eq=False)
class RunLog:
    """All records of one run, by kind. Grows by ``add``; nothing in it is ever changed."""

    facts: ModelFacts | None = None
    prompt: PromptRecord | None = None
    prefill: PrefillRecord | None = None
    settings: SettingsChanged | None = None
    state: StateChanged = field(default_factory=lambda: StateChanged(RunState.STARTING))
    loading: LoadProgress | None = None
    error: EngineError | None = None
    vocabulary: Vocabulary | None = None
    dense: DenseLogits | None = None
    nodes: dict[int, StepRecord] = field(default_factory=dict)
    children: dict[int, list[int]] = field(default_factory=lambda: {ROOT: []})
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
            case PrefillRecord():
                self.prefill = record
            case ModelFacts():
                self.facts, self.loading = record, None
            case SettingsChanged():
                self.settings = record
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
            case EngineError():
                self.error = record

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

    def tip(self, node: int) -> int:
        """The node at the end of the branch that ``node`` lies on, taking the newest child."""
        while self.children.get(node):
            node = self.children[node][-1]
        return node


@dataclass(frozen=True, eq=False)
class View:
    """One look at a run: everything a pane may draw from."""

    log: RunLog
    cursor: int = ROOT

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

    @property
    def ahead(self) -> Sequence[StepRecord]:
        """The records after the cursor on its branch, which goes on with the newest child."""
        found: list[StepRecord] = []
        node = self.cursor
        while following := self.log.children.get(node):
            node = following[-1]
            found.append(self.log.nodes[node])
        return found

    @property
    def speed(self) -> Speed:
        """TTFT, ITL and TPS of the path to the cursor."""
        return speed(self.prompt, self.prefill, self.path)

    @property
    def dense(self) -> DenseLogits | None:
        """The whole logit vector of the cursor's step, if it has been fetched."""
        dense = self.log.dense
        return dense if dense is not None and dense.node == self.cursor else None
