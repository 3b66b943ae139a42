"""A whole comparison out of a run's records: columns, figures, why they part, the bill."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from engine.records.alone import ColumnAlone
from engine.records.columns import ColumnState, Part, PassRecord
from engine.records.events import Setting
from engine.records.step import StepRecord, StopKind
from engine.records.step_table import StepPath
from engine.run.tree import ROOT
from engine.timing import percentile
from sessions.compare.column_figures import ColumnFigures, column_figures
from sessions.compare.divergence import Divergence, divergence
from sessions.compare.why_part import WhyPart, why_part
from sessions.export.source import Source
from sessions.export.words import output_text


@dataclass(frozen=True, eq=False)
class ComparedColumn:
    """One column to its end, with the dials that its settings come to."""

    state: ColumnState
    steps: Sequence[StepRecord]
    figures: ColumnFigures
    dials: dict[str, Setting]
    alone: ColumnAlone | None
    """Result of reading its text alone; None where it was not, or has grown since."""

    @property
    def near_tie(self) -> bool | None:
        """True if rounding has decided a token of it, or may; None where that was not measured."""
        if self.alone is None or self.alone.obstacle:
            return None
        return self.alone.near_ties > 0 and not self.alone.fault

    @property
    def text(self) -> str:
        """The text that was drawn, without a token that stopped it."""
        stopped = self.figures.ended_by == StopKind.STOP_TOKEN.value
        return output_text(self.steps[:-1] if stopped else self.steps)

    @property
    def title(self) -> str:
        return self.state.title or self.state.chain_spec or f"column {self.state.column}"


@dataclass(frozen=True, slots=True)
class RowsCost:
    """Passes with so many rows: how many there were, and their median time."""

    rows: int
    passes: int
    forward_ms: float


@dataclass(frozen=True, slots=True)
class Batch:
    """The passes of a comparison together.

    ``tokens`` are those of all columns, ``rows`` what the passes computed for them. ``ms`` is the
    time of all steps, ``alone_ms`` what the same tokens would take in columns one after the other:
    as long as the median of steps with one row, None where there was none.
    """

    passes: int
    rows: int
    tokens: int
    ms: float
    alone_ms: float | None
    by_rows: tuple[RowsCost, ...]
    notes: tuple[str, ...]

    @property
    def tokens_per_second(self) -> float | None:
        return self.tokens / self.ms * 1000 if self.ms > 0 else None


@dataclass(frozen=True, eq=False)
class Compared:
    """A comparison; ``why`` is the first place at which two columns part, by their numbers."""

    title: str
    prompt: str
    model: str
    dtype: str
    columns: tuple[ComparedColumn, ...]
    divergence: Divergence
    why: tuple[int, int, WhyPart] | None
    batch: Batch


def compared(source: Source, chosen: Iterable[tuple[ColumnState, int]] | None = None) -> Compared:
    """The comparison that a run's records hold; one without columns has none.

    ``chosen`` are columns with their newest nodes, and passes are those that gave them a token;
    default: all that passes told of.
    """
    dials = {(one.preset, one.chain_spec): one.dials for one in source.told}
    columns = []
    for state, tip in _recorded(source) if chosen is None else chosen:
        steps = source.branch(tip) if tip in source.tree and tip != ROOT else ()
        figures = column_figures(steps, state.error, source.rounds)
        own = dials.get((state.preset, state.chain_spec), {})
        alone = source.alone.get(state.column)
        alone = alone if alone is not None and alone.node == tip else None
        columns.append(ComparedColumn(state, steps, figures, own, alone))
    passes = source.passes
    if chosen is not None:
        nodes = {
            node for one in columns if isinstance(one.steps, StepPath) for node in one.steps.nodes
        }
        passes = [one for one in passes if not nodes.isdisjoint(one.nodes)]
    parts = divergence([one.steps for one in columns])
    return Compared(
        title=source.title,
        prompt=source.prompt.text if source.prompt is not None else "",
        model=source.facts.name if source.facts is not None else "",
        dtype=source.facts.dtype if source.facts is not None else "",
        columns=tuple(columns),
        divergence=parts,
        why=_why(columns, parts),
        batch=_batch(passes),
    )


def _recorded(source: Source) -> Iterator[tuple[ColumnState, int]]:
    """The columns that passes told of, with their newest nodes and why they failed."""
    parts = [one for part in source.passes for one in part.columns]
    tips = {one.column: one.nodes[-1] for one in parts if one.nodes}
    errors = {one.column: one.error for one in parts if one.part is Part.FAILED}
    for state in source.columns.columns:
        error = state.error or errors.get(state.column, "")
        yield replace(state, error=error), tips.get(state.column, ROOT)


def _why(columns: Sequence[ComparedColumn], parts: Divergence) -> tuple[int, int, WhyPart] | None:
    if parts.index is None:
        return None
    first = next(one for one in parts.pairs if one.index == parts.index)
    a, b = columns[first.a], columns[first.b]
    found = why_part(a.steps[parts.index], b.steps[parts.index])
    return a.state.column, b.state.column, found


def _batch(passes: Sequence[PassRecord]) -> Batch:
    read = sorted((one for one in passes if one.passes), key=lambda one: one.rows)
    steady = [one for one in read if not one.warmup]
    costs = []
    for rows, group in groupby(steady, key=lambda one: one.rows):
        times = [one.forward_ms for one in group]
        costs.append(RowsCost(rows, len(times), percentile(times, 0.5) or 0.0))
    tokens = sum(len(one.nodes) for one in passes)
    single = next((one.forward_ms for one in costs if one.rows == 1), None)
    notes = dict.fromkeys(note for one in passes if (note := one.note))
    return Batch(
        passes=sum(one.passes for one in passes),
        rows=sum(one.rows for one in passes),
        tokens=tokens,
        ms=sum(one.total_ms for one in passes),
        alone_ms=None if single is None else single * tokens,
        by_rows=tuple(costs),
        notes=tuple(notes),
    )
