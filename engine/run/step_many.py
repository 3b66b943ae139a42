"""One step of several columns of a run: branches of its tree, each with settings of its own.

Columns that are one token away from their next distribution share a pass. One that drafts runs its
speculative round by itself: a round has a pass of its own over several positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.backends.base import BackendError
from engine.records.columns import Part, PassColumn, PassRecord
from engine.records.step import StepRecord, StepTiming
from engine.run.checks import StepperError
from engine.run.distribution import Distribution
from engine.run.speculation import Speculation
from engine.run.stepper import Stepper
from engine.run.together import Text, Together, read_together
from engine.run.tree import ROOT
from engine.sampling.candidates import SamplingError
from engine.sampling.chain import Effective
from engine.timing import now_ms

_EXPECTED = (BackendError, SamplingError, StepperError)
_ROUNDS = "speculative rounds run by themselves, outside the shared pass"


@dataclass(frozen=True, eq=False)
class ColumnStep:
    """A column's next step: behind ``parent``, with settings and seed of its own if it has any."""

    column: int
    parent: int
    settings: Effective | None = None
    seed: int | None = None
    force: int | None = None
    speculation: Speculation | None = None
    error: str = ""
    """The reason for which it cannot be taken."""


@dataclass(frozen=True, eq=False)
class Pass:
    """A pass and the steps that it added, parents first."""

    record: PassRecord
    steps: tuple[StepRecord, ...]


def step_many(stepper: Stepper, columns: Sequence[ColumnStep]) -> Pass:
    """Take one step in each of ``columns``. A column that errs has its reason; the others go on.

    The prompt has been read. The cursor is at the last new node then.
    """
    started = now_ms()
    columns = [_within_budget(stepper, one) for one in columns]
    told: dict[int, PassColumn] = {}
    for index, one in enumerate(columns):
        error = one.error or _obstacle(stepper, one)
        if error:
            told[index] = PassColumn(one.column, one.parent, Part.FAILED, error=error)
    drafting = [
        index
        for index, one in enumerate(columns)
        if one.speculation is not None and one.force is None and one.parent != ROOT
    ]
    steps: dict[int, tuple[StepRecord, ...]] = {}
    for index in drafting:
        if index not in told:
            told[index], steps[index] = _round(stepper, columns[index])
    together = _share(stepper, columns, told, steps, started)
    found = sorted((one for own in steps.values() for one in own), key=lambda one: one.node)
    notes = (together.note, _ROUNDS if drafting else "")
    facts = stepper.backend.facts
    record = PassRecord(
        columns=tuple(told[index] for index in range(len(columns))),
        rows=together.rows,
        passes=together.passes,
        forward_ms=together.forward_ms,
        total_ms=now_ms() - started,
        dtype=facts.dtype,
        weight_bytes=facts.weight_bytes,
        kv_bytes=together.kv_bytes,
        shared_kv_bytes=together.shared_kv_bytes,
        copied_blocks=together.copied_blocks,
        evicted_blocks=together.evicted_blocks,
        warmup=together.warmup,
        note="; ".join(filter(None, notes)),
    )
    return Pass(record, tuple(found))


def _within_budget(stepper: Stepper, column: ColumnStep) -> ColumnStep:
    """The step with the id that a thinking budget forces now, and no draft shortly before that."""
    known = column.parent == ROOT or column.parent in stepper.tree
    if column.error or column.force is not None or not known:
        return column
    limit = stepper.thinking.at(stepper.prompt, stepper.tree, column.parent)
    return replace(column, force=limit.force, speculation=None) if limit.plain else column


def going_on(
    stepper: Stepper, columns: Sequence[ColumnStep], record: PassRecord
) -> list[ColumnStep]:
    """The columns behind what a pass has added to them, without those that failed or have ended."""
    return [
        replace(column, parent=told.nodes[-1], force=None)
        for column, told in zip(columns, record.columns, strict=True)
        if told.nodes and told.nodes[-1] not in stepper.tree.stops
    ]


def _obstacle(stepper: Stepper, column: ColumnStep) -> str:
    try:
        stepper.check_extend(column.parent, column.force)
    except StepperError as error:
        return str(error)
    return ""


def _round(stepper: Stepper, column: ColumnStep) -> tuple[PassColumn, tuple[StepRecord, ...]]:
    """A speculative round of one column, or one token where nothing was drafted."""
    own, stepper.speculation = stepper.speculation, column.speculation
    try:
        steps = tuple(stepper.grow(column.parent, seed=column.seed, settings=column.settings))
    except _EXPECTED as error:
        return PassColumn(column.column, column.parent, Part.FAILED, error=str(error)), ()
    finally:
        stepper.speculation = own
    nodes = tuple(step.node for step in steps)
    return PassColumn(column.column, column.parent, Part.ALONE, nodes), steps


def _share(
    stepper: Stepper,
    columns: Sequence[ColumnStep],
    told: dict[int, PassColumn],
    steps: dict[int, tuple[StepRecord, ...]],
    started: float,
) -> Together:
    """Read what the columns not yet ``told`` need, in one pass, and draw a token in each."""
    indices = [index for index in range(len(columns)) if index not in told]
    parents = [columns[index].parent for index in indices]
    new = not stepper.children[ROOT]
    first = parents.index(ROOT) if new and ROOT in parents else None
    above = stepper.tree.parents
    texts = [
        Text(one, above.get(one, ROOT), stepper.path_ids(one), at == first)
        for at, one in enumerate(parents)
    ]
    together = read_together(stepper.reading, texts)
    node = stepper.tree.next_node
    for index, found, part in zip(indices, together.found, together.parts, strict=True):
        one = columns[index]
        try:
            if isinstance(found, BackendError):
                raise found
            step = _draw(stepper, one, found, node)
        except _EXPECTED as error:
            told[index] = PassColumn(one.column, one.parent, Part.FAILED, error=str(error))
            continue
        node += 1
        steps[index] = (step,)
        told[index] = PassColumn(one.column, one.parent, part, (step.node,))
    total = now_ms() - started
    for index in indices:
        for step in steps.get(index, ()):
            if told[index].part is not Part.KNOWN:
                step = replace(step, timing=_waited(step.timing, total))
                steps[index] = (step,)
            stepper.tree.add_step(step)
    return together


def _draw(stepper: Stepper, column: ColumnStep, found: Distribution, node: int) -> StepRecord:
    wanted, context = stepper.plan(column.parent, column.force, column.seed, column.settings)
    return stepper.drawing.step(replace(wanted, node=node), found, context, now_ms())


def _waited(timing: StepTiming, total_ms: float) -> StepTiming:
    """The same for a column that waited for the whole pass, other columns' sampling included."""
    known = timing.forward_ms + timing.sample_ms + timing.detokenize_ms
    return replace(timing, total_ms=max(known, total_ms), other_ms=max(0.0, total_ms - known))
