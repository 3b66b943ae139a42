"""What an export is made of: a saved session, or the records of a run that is still going on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from engine.records.events import SettingsChanged
from engine.records.model import ModelFacts
from engine.records.prompt import PrefillRecord, PromptRecord
from engine.records.step import StepRecord
from engine.records.step_table import StepPath, StepTable, table_of
from engine.timing import Speed, speed
from sessions import deleted as pruned
from sessions.reader import ROOT, Session


class Log(Protocol):
    """What a live run's log offers (``inspector.state.view.RunLog`` does)."""

    facts: ModelFacts | None
    prompt: PromptRecord | None
    prefill: PrefillRecord | None
    settings: SettingsChanged | None
    hidden: frozenset[int]

    @property
    def nodes(self) -> Mapping[int, StepRecord]: ...
    @property
    def parents(self) -> Mapping[int, int]: ...


@dataclass(frozen=True, eq=False)
class Source:
    """A run's records and the branch that the export follows."""

    title: str
    facts: ModelFacts | None
    prompt: PromptRecord | None
    prefill: PrefillRecord | None
    settings: SettingsChanged | None
    nodes: Mapping[int, StepRecord]
    parents: Mapping[int, int]
    """The parent of every node."""
    hidden: frozenset[int]
    """Nodes of deleted branches: none of them is exported."""
    tip: int

    @classmethod
    def of_session(cls, session: Session, tip: int | None = None) -> Source:
        """A session, along the branch to ``tip`` (default: the one extended last)."""
        return cls(
            title=session.title or session.path.stem,
            facts=session.facts,
            prompt=session.prompt,
            prefill=session.prefill,
            settings=session.settings,
            nodes=session.steps,
            parents=session.parent_of,
            hidden=session.hidden,
            tip=session.tip if tip is None else tip,
        )

    @classmethod
    def of_log(cls, log: Log, tip: int, title: str = "") -> Source:
        """A live run, along the branch to ``tip``."""
        prompt = log.prompt
        return cls(
            title=title or (prompt.text if prompt else ""),
            facts=log.facts,
            prompt=prompt,
            prefill=log.prefill,
            settings=log.settings,
            nodes=log.nodes,
            parents=log.parents,
            hidden=log.hidden,
            tip=tip,
        )

    def steps(self) -> Iterator[StepRecord]:
        """Every step of every branch that is there, in the order they were made."""
        return (self.nodes[node] for node in sorted(self.parents) if node not in self.hidden)

    def branch(self, tip: int | None = None) -> StepPath:
        """The steps from the first token to ``tip`` (default: the branch that is followed).

        None of them is read for it: a branch of a file may be long.
        """
        node = self.tip if tip is None else tip
        rows = []
        while node != ROOT:
            rows.append(self._table.row(node))
            node = self.parents[node]
        return StepPath(self.nodes, self._table, np.array(rows[::-1], np.intp))

    @cached_property
    def _table(self) -> StepTable:
        return table_of(self.nodes)

    def tips(self) -> list[int]:
        """The ends of all branches that are there: the one that is followed, then the newest."""
        return [self.tip, *(node for node in reversed(self.ends()) if node != self.tip)]

    def ends(self) -> list[int]:
        """The last node of every branch that is there, oldest first."""
        return pruned.tips(self.parents, self.hidden)

    @property
    def deleted(self) -> int:
        """How many branches were deleted."""
        return len(pruned.deleted_tips(self.parents, self.hidden))

    def speed(self) -> Speed:
        """TTFT, ITL and TPS of the branch that is followed."""
        return speed(self.prompt, self.prefill, self.branch())
