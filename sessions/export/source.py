"""Source of an export: a saved session, or the records of a run that is still going on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from engine.bill.account import Account, account
from engine.bill.prices import PriceList, example
from engine.records.alone import AloneMeasured, ColumnAlone
from engine.records.columns import ColumnsSet, PassRecord
from engine.records.events import BranchNamed, SettingsChanged
from engine.records.model import ModelFacts
from engine.records.prompt import PrefillRecord, PromptRecord
from engine.records.round import RoundRecord
from engine.records.step import StepRecord
from engine.records.step_table import StepPath
from engine.records.thinking import ThinkingSettings
from engine.run.step_tree import StepTree
from engine.timing import Speed, speed
from sessions.reader import Session


class Log(Protocol):
    """The part of a live run's log that is exported (``inspector.state.view.RunLog`` has it)."""

    facts: ModelFacts | None
    prompt: PromptRecord | None
    prefill: PrefillRecord | None
    settings: SettingsChanged | None
    all_settings: dict[tuple[str, str], SettingsChanged]
    tree: StepTree
    rounds: MutableMapping[int, RoundRecord]
    names: dict[int, str]
    prices: PriceList
    columns: ColumnsSet
    passes: list[PassRecord]
    alone: dict[int, ColumnAlone]


@dataclass(frozen=True, eq=False)
class Source:
    """A run's records and the branch that the export follows."""

    title: str
    facts: ModelFacts | None
    prompt: PromptRecord | None
    prefill: PrefillRecord | None
    told: tuple[SettingsChanged, ...]
    """All settings that any step was drawn with, the run's own last."""
    tree: StepTree
    """A tree of its own, as the run may go on meanwhile. None of its deleted nodes is exported."""
    tip: int
    rounds: Mapping[int, RoundRecord] = field(default_factory=dict)
    """Speculative rounds by the node of their first token."""
    names: Mapping[int, str] = field(default_factory=dict)
    """Names of branches, by the node that each begins with."""
    prices: PriceList = field(default_factory=example)
    """The price list of the bill."""
    columns: ColumnsSet = field(default_factory=ColumnsSet)
    """The columns of a comparison, as they were told of last."""
    passes: Sequence[PassRecord] = ()
    """All passes over columns."""
    alone: Mapping[int, ColumnAlone] = field(default_factory=dict)
    """Columns held against their text read alone, as measured last."""

    @classmethod
    def of_session(cls, session: Session, tip: int | None = None) -> Source:
        """A session, along the branch to ``tip`` (default: the one extended last)."""
        events = [one for _, one in session.events]
        columns = [one for one in events if isinstance(one, ColumnsSet)]
        return cls(
            title=session.title or session.path.stem,
            facts=session.facts,
            prompt=session.prompt,
            prefill=session.prefill,
            told=tuple(one for one in events if isinstance(one, SettingsChanged)),
            tree=StepTree(session.steps, session.tree),
            tip=session.tip if tip is None else tip,
            rounds=session.rounds,
            names={one.node: one.name for one in events if isinstance(one, BranchNamed)},
            columns=columns[-1] if columns else ColumnsSet(),
            passes=[one for one in events if isinstance(one, PassRecord)],
            alone={
                one.column: one
                for told in events
                if isinstance(told, AloneMeasured)
                for one in told.columns
            },
        )

    @classmethod
    def of_log(cls, log: Log, tip: int, title: str = "") -> Source:
        prompt = log.prompt
        return cls(
            title=title or (prompt.text if prompt else ""),
            facts=log.facts,
            prompt=prompt,
            prefill=log.prefill,
            told=(*log.all_settings.values(), *([log.settings] if log.settings else [])),
            tree=log.tree.copy(),
            tip=tip,
            rounds=log.rounds,
            names=dict(log.names),
            prices=log.prices,
            columns=log.columns,
            passes=tuple(log.passes),
            alone=dict(log.alone),
        )

    @property
    def settings(self) -> SettingsChanged | None:
        """The settings that the branch's last step was drawn with; the run's where none are known.

        Branches of one run may differ in them.
        """
        step = self.tree.steps.get(self.tip)
        chain = (step.preset, step.chain_spec) if step is not None else None
        same = (one for one in reversed(self.told) if (one.preset, one.chain_spec) == chain)
        return next(same, self.told[-1] if self.told else None)

    def steps(self) -> Iterator[StepRecord]:
        """Every step of every branch that is there, in the order they were made."""
        tree = self.tree
        return (tree.steps[node] for node in sorted(tree.parents) if node in tree)

    def branch(self, tip: int | None = None) -> StepPath:
        """The steps from the first token to ``tip`` (default: the branch that is followed).

        None of them is read for it: a branch of a file may be long.
        """
        return self.tree.along(self.tree.path(self.tip if tip is None else tip))

    def branch_rounds(self) -> list[RoundRecord]:
        """The rounds that tokens of the branch that is followed came in."""
        numbers = dict.fromkeys(self.branch().figures["round"].tolist())
        return [self.rounds[one] for one in numbers if one in self.rounds]

    def tips(self) -> list[int]:
        """The ends of all branches that are there: the one that is followed, then the newest."""
        return [self.tip, *(node for node in reversed(self.tree.tips) if node != self.tip)]

    def name(self, tip: int | None = None) -> str:
        """The name of the branch that ends at ``tip``: the nearest above it; "" if there is none.

        Default: the branch that is followed.
        """
        named = (node for node, name in self.names.items() if name)
        node = self.tree.nearest(self.tip if tip is None else tip, named)
        return self.names.get(node, "") if node is not None else ""

    def branch_title(self, tip: int) -> str:
        """Title of a branch in a report: its name, if it has one, and its last node."""
        name = self.name(tip)
        return f'branch "{name}" to node {tip}' if name else f"branch to node {tip}"

    @property
    def deleted(self) -> int:
        return len(self.tree.deleted_tips)

    def account(self) -> Account:
        """The bill of the branch that is followed."""
        tags = self.told[-1].thinking if self.told else ThinkingSettings()
        path = self.branch()
        return account(self.facts, self.prompt, self.prefill, path, self.rounds, tags, self.prices)

    def speed(self) -> Speed:
        """TTFT, ITL and TPS of the branch that is followed."""
        return speed(self.prompt, self.prefill, self.branch())
