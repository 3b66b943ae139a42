"""The records of a run so far, and a view of them at one cursor.

A ``RunLog`` collects records as they come, from an engine or from a file. A ``View`` is one look at
it, and at what another sampler chain would make of it: a pane is a pure function of a View (and of
its own width and height).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import cached_property

from engine.bill.prices import PriceList, example
from engine.records.alone import AloneMeasured, ColumnAlone
from engine.records.cache import PoolState
from engine.records.columns import ColumnsSet, PassRecord
from engine.records.events import (
    BranchDeleted,
    BranchNamed,
    DenseLogits,
    EngineError,
    LoadProgress,
    Record,
    RunState,
    SettingsChanged,
    StateChanged,
    Tokenized,
)
from engine.records.measured import CacheCurves, DriftMeasured, Measured, ModulesTimed
from engine.records.model import ModelFacts
from engine.records.prompt import PrefillRecord, PromptRecord
from engine.records.round import RoundRecord
from engine.records.sampler_check import SamplerCheck
from engine.records.step import StepRecord
from engine.records.step_table import StepPath
from engine.records.upcoming import Upcoming
from engine.records.vocabulary import Vocabulary
from engine.run.step_tree import StepTree
from engine.run.tree import ROOT, Tree
from engine.sampling.chain import Chain
from engine.timing import Speed, speed
from inspector.state.ceilings import Known


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
    asked: str = ""
    """Text of the prompt as it was given, before there is any model to make tokens of it."""
    loading: LoadProgress | None = None
    load_steps: dict[tuple[str, str], LoadProgress] = field(default_factory=dict)
    """The phases of loading a model so far, each as it was told of last."""
    error: EngineError | None = None
    pool: PoolState | None = None
    """State of the pool as the engine said last; None where there is no pool of blocks."""
    upcoming: dict[tuple[str, str] | None, Upcoming] = field(default_factory=dict)
    """The next token's distribution, by the settings tried; None: the run's own."""
    vocabulary: Vocabulary | None = None
    dense: DenseLogits | None = None
    tokenized: Tokenized | None = None
    drifts: dict[int, DriftMeasured] = field(default_factory=dict)
    """Measured drift, by the node whose logits were compared."""
    checks: dict[int, SamplerCheck] = field(default_factory=dict)
    """Our preset against the engine's own sampler, by node."""
    curves: CacheCurves | None = None
    """Cost of a token with a cache and without, as measured last."""
    modules: ModulesTimed | None = None
    """Times by module, as measured last."""
    measured: Measured | None = None
    """Ceilings of this machine, where they were measured in this run."""
    ceilings: Known | None = None
    """The ceilings beside which the run's speed is shown."""
    can_measure: bool = False
    """True if there is an engine that could measure them."""
    queued: int = 0
    """Steps that were asked for, and wait for the model or for the pass that runs now."""
    ceilings_awaited: bool = False
    """True if that is to be measured as soon as nothing runs."""
    not_stored: str = ""
    """The reason for which whole logits cannot be had: the run is a recording without them."""
    unsaved: str = ""
    """The reason for which the run is not being saved, although it was meant to be."""
    new_nodes: Callable[[], MutableMapping[int, StepRecord]] = dict
    """Makes what a new tree's steps are kept in."""
    tree: StepTree = field(default_factory=StepTree)
    rounds: MutableMapping[int, RoundRecord] = field(default_factory=dict)
    """Speculative rounds by the node of their first token."""
    prices: PriceList = field(default_factory=example)
    """The list that the bill's prices are of."""
    names: dict[int, str] = field(default_factory=dict)
    """Names of branches, by the node that each begins with."""
    columns: ColumnsSet = field(default_factory=ColumnsSet)
    """The columns of a comparison, as they were told of last."""
    passes: list[PassRecord] = field(default_factory=list)
    """All passes over columns."""
    alone: dict[int, ColumnAlone] = field(default_factory=dict)
    """Columns held against their text read alone, as measured last."""

    def add(self, record: Record) -> None:
        """Take in one record. A new prompt begins a new, empty tree."""
        match record:
            case StepRecord():
                self.tree.add_step(record)
            case PromptRecord():
                self.prompt, self.prefill, self.dense, self.upcoming = record, None, None, {}
                # What is in the pool now belongs to nodes of the run before.
                self.pool = None if self.pool is None else self.pool.at_nodes({})
                self.tree = StepTree(self.new_nodes())
                self.names, self.drifts, self.curves, self.modules = {}, {}, None, None
                self.rounds, self.columns, self.passes, self.alone = {}, ColumnsSet(), [], {}
            case Upcoming():
                # Of the run's own settings, and of those tried last.
                own = self.upcoming.get(None)
                self.upcoming = {record.tried: record}
                if own is not None and own.parent == record.parent:
                    self.upcoming.setdefault(None, own)
            case ColumnsSet():
                self.columns = record
            case PassRecord():
                self.passes.append(record)
            case RoundRecord():
                self.rounds[record.node] = record
            case BranchNamed():
                self.names[record.node] = record.name
            case BranchDeleted():
                (self.tree.undelete if record.undone else self.tree.delete)(record.node)
            case PrefillRecord():
                self.prefill = record
            case ModelFacts():
                self.facts, self.loading, self.pool, self.upcoming = record, None, None, {}
                if not record.tells_all:
                    self.not_stored = f"{record.backend} gives the {record.top} likeliest, no more"
            case SettingsChanged():
                self.settings, self.upcoming = record, {}
                self.all_settings[record.preset, record.chain_spec] = record
            case StateChanged():
                self.state = record
                if record.state is RunState.LOADING:
                    self.load_steps.clear()
                if record.state in (RunState.PREFILL, RunState.RUNNING, RunState.LOADING):
                    self.error = None
            case LoadProgress():
                # What is done beside a loaded model is no longer on the way.
                ended = record.fraction == 1.0 and self.facts is not None
                self.loading = None if ended else record
                if self.facts is None:
                    self.load_steps[record.step] = record
            case PoolState():
                self.pool = record
            case DenseLogits():
                self.dense = record
            case Vocabulary():
                self.vocabulary = record
            case Tokenized():
                self.tokenized = record
            case DriftMeasured():
                self.drifts[record.node], self.loading = record, None
            case AloneMeasured():
                self.alone.update({one.column: one for one in record.columns})
                self.loading = None
            case SamplerCheck():
                self.checks[record.node] = record
            case CacheCurves():
                self.curves, self.loading = record, None
            case Measured():
                self.measured, self.loading = record, None
            case ModulesTimed():
                self.modules, self.loading = record, None
            case EngineError():
                self.error, self.loading = record, None

    def take_over(
        self,
        nodes: MutableMapping[int, StepRecord],
        tree: Tree,
        rounds: MutableMapping[int, RoundRecord] | None = None,
    ) -> None:
        """Have a recorded tree, a copy of ``tree``; what is new goes in with the old."""
        self.tree, self.rounds = StepTree(nodes, tree), {} if rounds is None else rounds

    # --- the tree -------------------------------------------------------------------------------

    @property
    def nodes(self) -> MutableMapping[int, StepRecord]:
        """Every step, deleted ones included."""
        return self.tree.steps

    def path(self, node: int) -> StepPath:
        """The records from the first token to ``node``, read when they are asked for."""
        return self.tree.along(self.tree.path(node))

    def branch_path(self, node: int, visited: Mapping[int, int]) -> StepPath:
        """The records of the whole branch that ``node`` lies on, which goes on as visited last."""
        return self.tree.along(self.tree.branch(node, visited))

    def name_above(self, node: int) -> str:
        """The name of the nearest named branch that ``node`` is on; "" if there is none."""
        named = self.tree.nearest(node, (one for one, name in self.names.items() if name))
        return self.names[named] if named is not None else ""

    def tip(self, node: int, visited: Mapping[int, int]) -> int:
        """The node at the end of the branch that ``node`` lies on."""
        branch = self.tree.branch(node, visited)
        return int(branch[-1]) if len(branch) else ROOT

    def branch(self, node: int) -> int | None:
        """The node that ``node``'s branch begins with; None at the prompt.

        That is where the nearest fork above has a choice, or the first token where there is none.
        """
        fork = self.tree.fork_above(node)
        return fork[0] if fork is not None else self.tree.above(node, 1)


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
    def prompt_length(self) -> int:
        return len(self.prompt.tokens) if self.prompt is not None else 0

    @property
    def vocab_size(self) -> int | None:
        return self.facts.vocab_size if self.facts is not None else None

    @property
    def prefill(self) -> PrefillRecord | None:
        return self.log.prefill

    @property
    def pool(self) -> PoolState | None:
        return self.log.pool

    @property
    def settings(self) -> SettingsChanged | None:
        return self.log.settings

    @property
    def step(self) -> StepRecord | None:
        """The record at the cursor; None at the root."""
        return self.log.nodes.get(self.cursor)

    @property
    def following(self) -> StepRecord | None:
        """The record of the token after the cursor, on its branch; None at a tip."""
        node = self.log.tree.following(self.cursor, self.visited)
        return None if node is None else self.log.nodes.get(node)

    def upcoming(self, tried: Chain | None = None) -> Upcoming | None:
        """The distribution of the token after the cursor, where it is known before any draw."""
        found = self.log.upcoming.get(None if tried is None else (tried.preset, tried.spec))
        return found if found is not None and found.parent == self.cursor else None

    @cached_property
    def path(self) -> StepPath:
        """The records from the first token to the cursor."""
        return self.log.path(self.cursor)

    @cached_property
    def branch(self) -> StepPath:
        """The records of the cursor's whole branch: ``path`` and ``ahead``."""
        return self.log.branch_path(self.cursor, self.visited)

    @property
    def ahead(self) -> StepPath:
        """The records after the cursor on its branch."""
        return self.branch[len(self.path) :]

    @cached_property
    def speed(self) -> Speed:
        """TTFT, ITL and TPS of the path to the cursor."""
        return speed(self.prompt, self.prefill, self.path)

    @property
    def settled(self) -> bool:
        """True if the engine stands still: while it runs flat out, nothing costly is computed."""
        return self.log.state.state not in (RunState.PREFILL, RunState.RUNNING)

    @property
    def dense(self) -> DenseLogits | None:
        """The whole logit vector of the cursor's step, if it has been fetched."""
        dense = self.log.dense
        return dense if dense is not None and dense.node == self.cursor else None
