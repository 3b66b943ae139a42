"""Columns of a comparison: branches of one tree, each with settings and a cursor of its own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from engine.commands import Column, Settings
from engine.records.columns import ColumnState
from engine.records.events import SettingsChanged
from engine.records.step import StepRecord, Stop
from engine.records.step_table import StepPath
from engine.run.tree import ROOT
from inspector.state.cursor import Cursor
from inspector.state.view import RunLog, View

LETTERS = "ABCDEFGH"
MOST = len(LETTERS)
"""Columns that one comparison shows at most."""


@dataclass(frozen=True, eq=False)
class ColumnView(View):
    """A look at one column, whose branch ends at ``tip`` whatever else there is in the tree."""

    tip: int = ROOT
    chain: tuple[str, str] | None = None
    """Preset and order of the column's own settings, once they are known."""

    @property
    def settings(self) -> SettingsChanged | None:
        now = self.log.settings
        return now if self.chain is None else self.log.all_settings.get(self.chain, now)

    @cached_property
    def branch(self) -> StepPath:
        return self.log.path(self.tip)

    @property
    def following(self) -> StepRecord | None:
        ahead = self.ahead
        return ahead[0] if len(ahead) else None


class ComparedColumn:
    """One column. It begins behind ``start``, a node that it may share with others.

    Settings and seed that are None are the run's own.
    """

    def __init__(
        self,
        log: RunLog,
        number: int,
        start: int = ROOT,
        *,
        tip: int | None = None,
        settings: Settings | None = None,
        seed: int | None = None,
        title: str = "",
    ) -> None:
        self.number = number
        """Its name to the engine; never another column's."""
        self.start = start
        self.settings = settings
        self.seed = seed
        self.title = title
        self.paused = False
        self.error = ""
        """The reason for which it cannot go on."""
        self.known: ColumnState | None = None
        """Settings as the engine resolved them."""
        self.tip = start if tip is None else tip
        self.cursor = Cursor(log)
        self.cursor.node = self.tip
        self.ids: list[int] = log.path(self.tip).token_ids
        """Ids from the first token to its tip."""

    @property
    def log(self) -> RunLog:
        return self.cursor.log

    @property
    def view(self) -> ColumnView:
        """The column as seen from its cursor."""
        known = self.last or self.known
        chain = None if known is None else (known.preset, known.chain_spec)
        return ColumnView(self.log, self.cursor.node, tip=self.tip, chain=chain)

    @property
    def depth(self) -> int:
        """Tokens from the prompt to its tip."""
        return len(self.ids)

    @property
    def position(self) -> int:
        """Tokens from the prompt to its cursor."""
        return self.log.tree.depth(self.cursor.node) or 0

    @property
    def last(self) -> StepRecord | None:
        """The newest step of its own; None before there is one."""
        return self.log.nodes.get(self.tip) if self.tip != self.start else None

    @property
    def stop(self) -> Stop | None:
        """The end that its text has come to."""
        return self.last.stop if self.last is not None else None

    def state(self, number: int) -> ColumnState:
        """Settings and end of the column as they are now, under another number."""
        known, last = self.known or ColumnState(number, self.start), self.last
        if last is not None:
            spec, seed = last.chain_spec, last.seed
            known = replace(known, preset=last.preset, chain_spec=spec, seed=seed)
        return replace(known, column=number, title=self.title, error=self.error)

    @property
    def goes_on(self) -> bool:
        """True if a pass for all columns is one for this one too."""
        return not (self.paused or self.error or self.stop)

    @property
    def drafts(self) -> bool:
        """True if a pass may bring it several tokens, those of a speculative round."""
        if self.known is not None:
            return bool(self.known.draft.source)
        asked = None if self.settings is None else self.settings.draft
        return asked is not None and bool(asked.source)

    def order(self, *, held: bool) -> Column:
        """The command's part for its next token; ``held``: it is to have none now."""
        return Column(self.number, self.tip, self.settings, self.seed, title=self.title, held=held)

    def go_to(self, depth: int) -> None:
        """Move the cursor to the token at a depth, or as near to it as the column goes."""
        node = self.log.tree.above(self.tip, max(0, min(depth, self.depth)))
        if node is not None:
            self.cursor.node = node

    def arrive(self, nodes: Iterable[int]) -> None:
        """Take in new nodes behind the tip; a cursor that was at the tip follows."""
        follows = self.cursor.node == self.tip
        for node in nodes:
            self.ids.append(self.log.nodes[node].token.id)
            self.tip = node
        if follows:
            self.cursor.node = self.tip


def of_branch(log: RunLog, number: int, tip: int, title: str = "") -> ComparedColumn:
    """A column on a branch that is there; it goes on with what its last token was drawn with."""
    step = log.nodes.get(tip)
    if step is None:
        return ComparedColumn(log, number, title=title)
    settings = Settings(step.preset, spec=step.chain_spec)
    return ComparedColumn(
        log, number, tip=tip, settings=settings, seed=step.seed, title=title or step.chain_spec
    )


class Partings:
    """The first place at which each column's tokens differ from the first column's.

    What was compared once is not compared again: columns only grow.
    """

    def __init__(self) -> None:
        self._agreed: dict[tuple[int, int], int] = {}

    def between(self, one: ComparedColumn, other: ComparedColumn) -> int | None:
        """Number of tokens before the first that differs; None while there is none.

        Where one column ends, or is not as long yet, nothing differs.
        """
        key = one.number, other.number
        agreed, shorter = self._agreed.get(key, 0), min(one.depth, other.depth)
        while agreed < shorter and one.ids[agreed] == other.ids[agreed]:
            agreed += 1
        self._agreed[key] = agreed
        return agreed if agreed < shorter else None
