"""``llm-inspect bench --lossless``: a test of whether drafts change the distribution of tokens."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from textual.content import Content

from engine.commands import Configure, MeasureLossless, Open, Submit
from engine.process import EngineClient
from engine.records.measured import LEAST_P, Lossless, SampleTest
from engine.records.model import ModelFacts
from engine.records.prompt import PromptRecord
from engine.records.round import DraftSettings
from engine.text import visible
from inspector.cli.bench import with_engine
from inspector.cli.bench_report import SCHEMA
from inspector.cli.config import Config
from inspector.cli.draft_options import add_draft_options, draft_settings
from inspector.cli.engine_log import connect
from inspector.cli.option_values import positive
from inspector.cli.options import UsageError
from inspector.cli.printing import print_lines
from inspector.draw.numbers import wrapped
from inspector.exit_codes import EXIT_CHECK, EXIT_OK
from inspector.safe_console import console
from inspector.state.answers import Answers
from sessions.export.jsonl import dumps

DEFAULT_DRAWS = 2000
PROMPT = "red blue green red yellow blue red green blue yellow green red blue yellow red"
"""Every next word is uncertain, and all of them came before: prompt lookup has much to draft."""
_LABEL = 11
_LEAST = 24


def add_lossless_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for comparing draws with drafts and without."""
    parser.add_argument(
        "--lossless",
        action="store_true",
        help="instead, test whether drafts change what is drawn; exit code 1 where they do",
    )
    parser.add_argument(
        "--draws",
        type=positive,
        metavar="N",
        help=f"with --lossless: continuations to draw each way, default {DEFAULT_DRAWS}",
    )
    add_draft_options(parser)


def lossless_draft(args: argparse.Namespace, config: Config) -> DraftSettings | None:
    """The drafts to test; None without ``--lossless``. Raises UsageError."""
    if not args.lossless:
        for flag in ("draws", "draft", "draft_tokens", "accept"):
            if getattr(args, flag) is not None:
                raise UsageError(f"--{flag.replace('_', '-')} needs --lossless here")
        return None
    if args.vs:
        raise UsageError("--vs and --lossless: choose one")
    if args.draft is None:
        args.draft = config.pick("draft", None, "") or "ngram"
    try:
        return draft_settings(args, config)
    except ValueError as error:
        raise UsageError(str(error)) from None


def lossless(
    command: Open,
    draft: DraftSettings,
    *,
    draws: int,
    form: str,
    prompt: str = PROMPT,
    connect: Callable[[], EngineClient] = connect,
) -> int:
    """Draw, compare and print. Returns the exit code: 1 where the draws differ."""

    def work(answers: Answers) -> int:
        facts = answers.ask(command, ModelFacts)
        answers.tell(Configure(dials={"temperature": 1.0}, draft=draft))
        answers.ask(Submit(prompt), PromptRecord)
        found = answers.ask(MeasureLossless(draws), Lossless)
        if form == "json":
            print(dumps(report(facts, found)))
        else:
            out = console()
            print_lines(out, lines(facts, found, max(_LEAST, out.width)))
        return EXIT_OK if found.passed else EXIT_CHECK

    return with_engine(connect, work)


def report(facts: ModelFacts, found: Lossless) -> dict[str, Any]:
    """Every figure, as one JSON object."""
    return {
        "type": "lossless",
        "schema": SCHEMA,
        "model": facts.name,
        "dtype": facts.dtype,
        "device": facts.device,
        **asdict(found),
        "least_p": LEAST_P,
        "passed": found.passed,
    }


def lines(facts: ModelFacts, found: Lossless, width: int) -> Iterator[Content]:
    """The draws, each test, and the verdict."""
    draft = found.draft
    rule = f"{draft.accept.value}{', which is not lossless' if draft.accept.lossy else ''}"
    rate = f"{found.accepted:,} of {found.drafted:,} accepted in {found.rounds:,} rounds"
    each = f"{found.draws:,} continuations with drafts and {found.draws:,} without, temperature 1"
    yield from wrapped("model", _LABEL, width, visible(f"{facts.name}, {facts.dtype}"))
    yield from wrapped("drafts", _LABEL, width, visible(f"{draft.source}, rule {rule}; {rate}"))
    yield from wrapped("draws", _LABEL, width, f"{each}, behind the same first token")
    for one in found.tests:
        yield from wrapped(one.name, _LABEL, width, _words(one))
    yield from wrapped("rounding", _LABEL, width, _rounding(facts, found))
    yield Content("")
    yield from wrapped("", 0, width, _verdict(found))


def _words(one: SampleTest) -> str:
    if one.p_value is None:
        return "nothing to compare: all draws are alike, or too few to tell outcomes apart"
    by_chance = f"{one.by_chance:.3f} ± {one.error:.3f}"
    return (
        f"chi-square {one.statistic:.1f} over {one.cells:,} outcomes, p {one.p_value:.2g}; "
        f"total variation {one.variation:.3f}, chance alone gives {by_chance}"
    )


def _rounding(facts: ModelFacts, found: Lossless) -> str:
    """Difference that is none of the rule's: passes over several positions and over single ones."""
    if found.rounding <= 0.0:
        return "none: a pass over several positions gives what passes over single ones give"
    return (
        f"in {facts.dtype} p of passes over several positions lies {found.rounding:.2g} in total "
        "variation from that of passes over single ones; both samples are drawn from the former"
    )


def _verdict(found: Lossless) -> str:
    told = [one for one in found.tests if one.p_value is not None]
    if not told:
        return "FAILED: nothing could be told: all draws are alike, or too few (--draws N)."
    if not found.passed:
        return (
            "FAILED: drafts change what is drawn. Chance alone makes such a difference less than "
            f"once in {1 / LEAST_P:,.0f} times."
        )
    return (
        "Passed: no difference was found between draws with drafts and without. One of less than "
        f"about {max(4 * one.error for one in told):.2f} in total variation could hide in so few."
    )
