"""Carrying the ready requests out, one after another, and telling how far that has come."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from engine.bill.account import Account
from engine.bill.prices import PriceList
from engine.commands import Configure, Open, Step, Submit
from engine.records.events import LoadProgress, Record, SettingsChanged
from engine.records.model import ModelFacts
from engine.records.prompt import PrefillChunk, PrefillRecord, PromptRecord
from engine.records.step import StepRecord
from engine.records.step_table import StepPath
from engine.records.thinking import ThinkingSettings
from engine.run.tree import ROOT
from engine.text import plural
from engine.timing import PhaseKind, Speed, phases, speed
from inspector.state.account import account_of
from inspector.state.answers import Answers, EngineFailedError
from inspector.state.shapes.requests import WARM_UP, Shape, requests
from inspector.state.shapes.serial_parallel import Way, both_ways
from inspector.state.view import RunLog
from sessions.export.words import output_text

SERIAL_PARALLEL = "serial and parallel"


@dataclass(frozen=True, slots=True)
class Sizes:
    """Words of the long document, tokens of each answer and of thinking, rows that think at once.

    With one row nothing is held against it.
    """

    words: int = 600
    output: int = 24
    budget: int = 24
    rows: int = 4


class Spent(StrEnum):
    """Uses of a request's time beside the phases before the first token."""

    THINKING = "thinking"
    DECODE = "decode"
    OTHER = "other"
    """Detokenizing, and what lies between the passes."""


@dataclass(frozen=True, eq=False)
class Answered:
    """A request that was carried out."""

    shape: Shape
    account: Account
    speed: Speed
    spent: Mapping[PhaseKind | Spent, float]
    """Milliseconds in parts, in order: the phases to the first token, then what came behind it."""
    chunks: tuple[PrefillChunk, ...] = ()
    """Passes that the prompt was read in."""
    text: str = ""
    records: tuple[Record, ...] = ()
    """Those of its run, as a session keeps them."""

    @property
    def warms_up(self) -> bool:
        """True if a pass of the reading was the first of its shape."""
        return any(chunk.warmup for chunk in self.chunks)

    @property
    def total_ms(self) -> float:
        """Tokenizing, lookup, reading and all steps."""
        return sum(self.spent.values())


@dataclass(frozen=True, eq=False)
class Failed:
    """A request that the engine could not carry out, such as one that is too long for it."""

    shape: Shape
    error: str


@dataclass(frozen=True, eq=False)
class Carried:
    """Progress of the requests; ``now`` names the current one, ``share`` (0..1) is that one's."""

    shapes: tuple[Shape, ...]
    facts: ModelFacts | None = None
    done: tuple[Answered | Failed, ...] = ()
    ways: tuple[Way, ...] = ()
    now: str = ""
    share: float | None = None
    detail: str = ""
    error: str = ""
    """The error that ended it early."""
    opened: Answered | None = None
    """The request whose run is to be looked at next."""

    @property
    def answered(self) -> list[Answered]:
        return [one for one in self.done if isinstance(one, Answered)]

    @property
    def ended(self) -> bool:
        return not self.now

    @property
    def whole_share(self) -> float:
        """The share of all requests, and of the thinking in both ways behind them."""
        return (len(self.done) + (self.share or 0.0)) / (len(self.shapes) + 1)


def carry_out(
    answers: Answers,
    command: Open,
    sizes: Sizes,
    prices: PriceList,
    tell: Callable[[Carried], None],
) -> Carried:
    """Load the model and answer all requests; ``tell`` is called with each sign of progress.

    Raises EngineFailedError where there is no model to ask.
    """
    told = Carried(_requests(sizes), now="loading the model")
    tell(told)
    answers.tell(command)
    for record in answers.records():
        if isinstance(record, LoadProgress):
            tell(replace(told, share=record.fraction, detail=f"{record.phase} {record.detail}"))
        if isinstance(record, ModelFacts):
            told = replace(told, facts=record)
            break
    settings = answers.ask(Configure(dials={"temperature": 0.0}), SettingsChanged)
    told = replace(told, shapes=_requests(sizes, settings.thinking))
    # The first passes of a process are slower, whoever's they are.
    warm_up = Shape("warm-up", "", WARM_UP, 2)
    for shape in (warm_up, *told.shapes):
        told = replace(told, now=shape.name)
        found: Answered | Failed
        try:
            found = _answered(answers, shape, prices, told, tell)
        except EngineFailedError as error:
            # The next one may fit.
            found = Failed(shape, str(error))
        if shape is not warm_up:
            told = replace(told, done=(*told.done, found))
    thought = next((one.shape for one in told.answered if one.shape.thinking), None)
    if sizes.rows > 1 and thought is not None and thought.thinking is not None:
        told = replace(told, now=SERIAL_PARALLEL)

        def show(detail: str, share: float) -> None:
            tell(replace(told, share=share, detail=detail))

        ways = both_ways(answers, thought.prompt, thought.thinking, sizes.rows, sizes.output, show)
        told = replace(told, ways=ways)
    told = replace(told, now="")
    tell(told)
    return told


def _requests(sizes: Sizes, own: ThinkingSettings | None = None) -> tuple[Shape, ...]:
    return requests(sizes.words, sizes.output, sizes.budget, own)


def _answered(
    answers: Answers,
    shape: Shape,
    prices: PriceList,
    told: Carried,
    tell: Callable[[Carried], None],
) -> Answered:
    """One request to its end; a stop token does not end it, so that all do the same work."""
    answers.tell(Configure(dials={"temperature": 0.0}, thinking=shape.thinking))
    answers.ask(Submit(shape.prompt), PromptRecord)
    node, log = ROOT, answers.log
    length = len(log.prompt.tokens) if log.prompt is not None else 0
    tell(replace(told, share=0.0, detail=f"reading {plural(length, 'token')}"))
    for number in range(1, shape.output + 1):
        answers.tell(Step(node))
        for record in answers.records():
            if isinstance(record, PrefillRecord) and length:
                read = record.cached + record.computed
                words = f"reading {read:,} of {plural(length, 'token')}"
                tell(replace(told, share=read / length, detail=words))
            if isinstance(record, StepRecord):
                node = record.node
                break
        words = f"token {number:,} of {shape.output:,}"
        tell(replace(told, share=number / shape.output, detail=words))
    path = log.path(node)
    found = account_of(log, path, prices)
    spent = spent_of(log, path, found.thinking)
    records = (log.facts, log.settings, log.prompt, log.prefill, *path)
    return Answered(
        shape,
        found,
        speed(log.prompt, log.prefill, path),
        spent,
        log.prefill.chunks if log.prefill is not None else (),
        output_text(path),
        tuple(one for one in records if one is not None),
    )


def spent_of(
    log: RunLog, path: StepPath, thinking: NDArray[np.bool_]
) -> dict[PhaseKind | Spent, float]:
    """The time of a path in parts that add up to tokenizing, lookup, reading and all its steps."""
    prompt, prefill, steps = log.prompt, log.prefill, path.figures["total_ms"]
    parts: dict[PhaseKind | Spent, float] = {}
    for phase in phases(prompt, prefill, path[0] if len(path) else None):
        if phase.kind is not PhaseKind.DETOKENIZE:
            parts[phase.kind] = parts.get(phase.kind, 0.0) + phase.ms
    parts[Spent.THINKING] = float(steps[1:][thinking[1:]].sum())
    parts[Spent.DECODE] = float(steps[1:][~thinking[1:]].sum())
    tokenized = prompt.tokenize_ms if prompt is not None else 0.0
    read = (prefill.lookup_ms or 0.0) + prefill.total_ms if prefill is not None else 0.0
    parts[Spent.OTHER] = tokenized + read + float(steps.sum()) - sum(parts.values())
    return {kind: ms for kind, ms in parts.items() if ms > 0}
