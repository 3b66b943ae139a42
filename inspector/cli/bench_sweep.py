"""``bench`` over lengths: TTFT, time between tokens and speed for each prompt and output length.

Every repeat reads a prompt of its own that shares no beginning with one before, so that nothing is
found in the cache. The first run of a cell is short, warms up, and is told of apart. Rows are
branches of one prompt, each forced to begin otherwise, that share each pass.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import product

from engine.commands import Column, Configure, Measure, Open, Step, StepMany, Submit, Tokenize
from engine.process import EngineClient
from engine.records.columns import MOST_COLUMNS, PassRecord
from engine.records.events import Tokenized
from engine.records.measured import Contest, Measured
from engine.records.model import ModelFacts
from engine.records.prompt import PromptRecord
from engine.records.step import StepRecord
from engine.run.tree import ROOT
from engine.timing import decode_ms, speed
from inspector.cli.bench import LEAST_TOKENS, PROMPT, with_engine
from inspector.cli.bench_sweep_report import Cell, Run, lines, markdown, report
from inspector.cli.engine_log import connect
from inspector.cli.option_values import positive
from inspector.cli.options import UsageError
from inspector.cli.printing import print_lines
from inspector.exit_codes import EXIT_ENGINE, EXIT_OK
from inspector.safe_console import console
from inspector.state.answers import Answers, EngineFailedError
from sessions.export.jsonl import dumps

DEFAULT_PROMPTS, DEFAULT_OUTPUTS = (32, 256), (32,)
DEFAULT_REPEATS = 3
MOST_LENGTHS = 8
LONGEST = 100_000
_CEILING_SECONDS = 0.05
"""A rival's turns come with ceilings, which a sweep does not show: they are measured briefly."""


@dataclass(frozen=True)
class Plan:
    """Lengths, rows and repeats of a sweep, and whom it takes turns with, if with anybody."""

    prompts: tuple[int, ...]
    outputs: tuple[int, ...]
    rows: tuple[int, ...]
    repeats: int
    rival: str | None = None


def add_sweep_options(parser: argparse.ArgumentParser) -> None:
    """Add the lengths to go through; any of these options asks for a sweep."""
    group = parser.add_argument_group("sweep", "instead, a table over lengths; any of these")
    for flag, what in (
        ("--prompts", "lengths of the prompt in tokens, such as 32,512"),
        ("--outputs", "tokens to decode, such as 32,128"),
        ("--rows", "branches that share each pass, such as 1,4"),
    ):
        group.add_argument(flag, type=_numbers, metavar="N,N", help=what)
    group.add_argument(
        "--repeats", type=positive, metavar="N", help=f"runs of each, default {DEFAULT_REPEATS}"
    )


def _numbers(text: str) -> tuple[int, ...]:
    found = tuple(dict.fromkeys(positive(part.strip()) for part in text.split(",")))
    if len(found) > MOST_LENGTHS or max(found) > LONGEST:
        raise argparse.ArgumentTypeError(
            f"takes at most {MOST_LENGTHS} numbers, none above {LONGEST:,}"
        )
    return found


def sweep_plan(args: argparse.Namespace) -> Plan | None:
    """The sweep that is asked for; None for none. Raises UsageError."""
    given = (args.prompts, args.outputs, args.rows, args.repeats)
    if all(one is None for one in given):
        return None
    if args.lossless:
        raise UsageError("--lossless goes over no lengths: leave --prompts and the like out")
    outputs = args.outputs or DEFAULT_OUTPUTS
    if min(outputs) < LEAST_TOKENS:
        raise UsageError(f"--outputs must be {LEAST_TOKENS} or more: fewer have no speed")
    rows = args.rows or (1,)
    if max(rows) > MOST_COLUMNS:
        raise UsageError(f"--rows: {MOST_COLUMNS} share a pass at most")
    repeats = args.repeats or DEFAULT_REPEATS
    return Plan(args.prompts or DEFAULT_PROMPTS, outputs, rows, repeats, args.vs)


def sweep(
    command: Open, plan: Plan, form: str, *, connect: Callable[[], EngineClient] = connect
) -> int:
    """Go through all lengths, and print. Returns the exit code."""
    load = os.getloadavg()[0]

    def work(answers: Answers) -> int:
        facts = answers.ask(command, ModelFacts)
        cells = measured(answers, plan)
        now = datetime.now(UTC)
        if form == "json":
            print(dumps(report(facts, cells, now, load)))
        elif form == "md":
            print("\n".join(markdown(facts, cells, now, load)))
        else:
            out = console()
            print_lines(out, lines(facts, cells, load, out.width))
        return EXIT_OK if any(one.runs for one in cells) else EXIT_ENGINE

    return with_engine(connect, work)


def measured(answers: Answers, plan: Plan) -> list[Cell]:
    """A cell for each prompt length, output length and number of rows."""
    answers.tell(Configure(dials={"temperature": 0.0}, max_tokens=LONGEST))
    texts = _Prompts(answers)
    cells = []
    todo = list(product(plan.prompts, plan.outputs, plan.rows))
    for number, (length, output, rows) in enumerate(todo):
        cell = Cell(length, output, rows)
        part = f"prompt {length:,}, output {output:,}, rows {rows}"
        try:
            warm_up = _run(answers, texts.of(length), LEAST_TOKENS, rows)
            runs = []
            for repeat in range(plan.repeats):
                share = (number + repeat / plan.repeats) / len(todo)
                answers.show("bench", share, f"{part}: {repeat + 1} of {plan.repeats}")
                runs.append(_run(answers, texts.of(length), output, rows))
            contest = None
            if plan.rival and rows == 1:
                contest = _contest(answers, texts.of(length), output, plan)
            cell = replace(cell, warm_up=warm_up, runs=tuple(runs), contest=contest)
        except EngineFailedError as error:
            # Such as a prompt that the context does not hold; the next one may fit.
            cell = replace(cell, error=str(error))
        cells.append(cell)
    return cells


class _Prompts:
    """Texts of a length in tokens, no two of which begin alike."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._number = 0

    def of(self, length: int) -> str:
        """The next text; its length is as near to ``length`` as whole tokens allow."""
        self._number += 1
        head = f"{self._number * 7919 % 100_003}: "
        text = head + f"{PROMPT} " * (length * 6 // len(PROMPT) + 2)
        found = self._answers.ask(Tokenize(text), Tokenized)
        while 0 < len(found.tokens) < length:
            text += text
            found = self._answers.ask(Tokenize(text), Tokenized)
        data = b"".join(token.bytes for token in found.tokens[:length])
        return data.decode("utf-8", "ignore") or head


def _run(answers: Answers, prompt: str, output: int, rows: int) -> Run:
    """One prompt read, and ``output`` tokens after it in each of ``rows`` branches."""
    answers.ask(Submit(prompt), PromptRecord)
    if rows > 1:
        return _rows(answers, output, rows)
    node = ROOT
    for _ in range(output):
        node = answers.ask(Step(node), StepRecord).node
    log = answers.log
    path = log.path(node)
    found = speed(log.prompt, log.prefill, path)
    return Run(
        prompt=len(log.prompt.tokens) if log.prompt is not None else 0,
        ttft_ms=found.ttft_ms,
        gaps_ms=tuple(decode_ms(path)),
    )


def _rows(answers: Answers, output: int, rows: int) -> Run:
    """The passes that all rows shared; a row that has come to a stop token ends it."""
    first = answers.ask(Step(ROOT), StepRecord)
    starts = [token_id for token_id in first.top.ids.tolist() if token_id not in _stops(answers)]
    columns = [
        Column(number, ROOT, force=int(token_id))
        for number, token_id in enumerate(starts[:rows], start=1)
    ]
    gaps: list[float] = []
    answers.ask(StepMany(tuple(columns)), PassRecord)
    for _ in range(output - 1):
        columns = [replace(one, parent=_last(answers, one), force=None) for one in columns]
        found = answers.ask(StepMany(tuple(columns)), PassRecord)
        if found.rows < rows:
            break
        gaps.append(found.total_ms)
    log = answers.log
    ttft = speed(log.prompt, log.prefill, log.path(first.node)).ttft_ms
    return Run(len(log.prompt.tokens) if log.prompt is not None else 0, ttft, tuple(gaps), rows)


def _stops(answers: Answers) -> Sequence[int]:
    facts = answers.log.facts
    return tuple(facts.stop_ids) if facts is not None else ()


def _last(answers: Answers, column: Column) -> int:
    """The newest node behind a column's parent."""
    children = answers.log.tree.children.get(column.parent, [])
    if column.force is None:
        return children[-1] if children else column.parent
    nodes = answers.log.nodes
    return next(one for one in reversed(children) if nodes[one].token.id == column.force)


def _contest(answers: Answers, prompt: str, output: int, plan: Plan) -> Contest | None:
    asked = Measure(prompt, plan.rival, output, plan.repeats, _CEILING_SECONDS)
    return answers.ask(asked, Measured).contest
