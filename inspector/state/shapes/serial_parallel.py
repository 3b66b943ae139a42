"""One long thought against several short ones: the same tokens of thinking, in series and in rows.

Serial is one row that may think ``rows`` times as long; parallel are ``rows`` rows of one prompt
that share each pass, and vote with their answers. Both are comparisons: columns that are decoded to
their ends.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter

from engine.commands import Column, Configure, StepMany, Submit, Tokenize
from engine.records.columns import PassRecord
from engine.records.events import Tokenized
from engine.records.prompt import PromptRecord
from engine.records.step import StopKind
from engine.records.thinking import ThinkingSettings
from engine.run.tree import ROOT
from engine.thinking import thinking_mask
from inspector.state.answers import Answers
from inspector.state.ranking import Checks, ranked
from sessions.compare.column_figures import RUNS_ON
from sessions.compare.compared import ComparedColumn, compared
from sessions.export.source import Source

_TEMPERATURE = 0.8
_ANSWER = Checks(answer=re.compile(r"\A[^\d-]*(-?\d+(?:[.,]\d+)*)"))
"""A row's vote is the first number of its answer; the question that is asked is for one."""


@dataclass(frozen=True)
class Way:
    """One way to think: its rows, tokens of all of them, passes, time, and what they answered."""

    name: str
    rows: int
    budget: int
    """Of each row."""
    thought: int
    answered: int
    passes: int
    ms: float
    """The steps; the prompt, which is the same, is not in it."""
    votes: tuple[tuple[str, int], ...]
    """(answer, rows that gave it), the one with most votes first; some rows may have none."""

    @property
    def per_second(self) -> float | None:
        """Tokens of all rows together, a second."""
        return (self.thought + self.answered) / self.ms * 1000 if self.ms > 0 else None


def both_ways(
    answers: Answers,
    prompt: str,
    thinking: ThinkingSettings,
    rows: int,
    output: int,
    show: Callable[[str, float], None],
) -> tuple[Way, Way]:
    """Answer ``prompt`` in both ways; ``thinking`` has each row's budget.

    A row may write its budget, the tags and ``output`` tokens more, or end before that.
    """
    each = thinking.budget or 0
    begun = prompt.rstrip().endswith(thinking.opens)
    written = thinking.closes if begun else thinking.opens + thinking.closes
    tags = len(answers.ask(Tokenize(written), Tokenized).tokens)
    found = []
    for name, count, budget in (("serial", 1, each * rows), ("parallel", rows, each)):
        told = replace(thinking, budget=budget)
        most = budget + tags + output
        found.append(_way(answers, name, prompt, told, count, most, show))
    return found[0], found[1]


def _way(
    answers: Answers,
    name: str,
    prompt: str,
    thinking: ThinkingSettings,
    rows: int,
    most: int,
    show: Callable[[str, float], None],
) -> Way:
    budget = thinking.budget or 0
    answers.tell(Configure(dials={"temperature": _TEMPERATURE}, max_tokens=most, thinking=thinking))
    answers.ask(Submit(prompt), PromptRecord)
    columns = tuple(Column(number, ROOT, seed=number) for number in range(1, rows + 1))
    log = answers.log
    for record in answers.carried_out(StepMany(columns, None)):
        if isinstance(record, PassRecord):
            show(f"{name}: {rows} × {budget}", len(log.passes) / most)
    found = compared(Source.of_log(log, ROOT))
    masks = [
        thinking_mask(log.prompt, [step.token for step in one.steps], thinking)
        for one in found.columns
    ]
    told = tuple(
        _answer(one, mask.tolist()) for one, mask in zip(found.columns, masks, strict=True)
    )
    thought = sum(int(mask.sum()) for mask in masks)
    return Way(
        name,
        rows,
        budget,
        thought,
        found.batch.tokens - thought,
        found.batch.passes,
        found.batch.ms,
        ranked(replace(found, columns=told), _ANSWER).votes,
    )


def _answer(column: ComparedColumn, thinks: list[bool]) -> ComparedColumn:
    """The column's first stretch that is no thinking, without the token that stopped it."""
    stretches = groupby(zip(column.steps, thinks, strict=True), key=itemgetter(1))
    steps = next(([step for step, _ in told] for thought, told in stretches if not thought), [])
    if steps and steps[-1].stop is not None and steps[-1].stop.kind is StopKind.STOP_TOKEN:
        steps = steps[:-1]
    return replace(column, steps=steps, figures=replace(column.figures, ended_by=RUNS_ON))
