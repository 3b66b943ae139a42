"""``llm-inspect shapes``: ready requests on the model, and where the time and bill of each go."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from engine.bill.prices import PriceList
from engine.commands import Configure, Open, Step, Submit
from engine.process import EngineClient
from engine.records.events import SettingsChanged
from engine.records.model import ModelFacts
from engine.records.prompt import PromptRecord
from engine.records.step import StepRecord
from engine.run.tree import ROOT
from engine.timing import speed
from inspector.cli.bench import WARM_UP, with_engine
from inspector.cli.engine_log import connect
from inspector.cli.option_values import positive
from inspector.cli.own_prices import own_prices
from inspector.cli.printing import print_lines
from inspector.cli.serial_parallel import Way, both_ways
from inspector.cli.shapes_requests import Answered, Shape, requests
from inspector.cli.shapes_table import lines, report
from inspector.exit_codes import EXIT_ENGINE, EXIT_OK
from inspector.safe_console import console
from inspector.state.account import account_of
from inspector.state.answers import Answers, EngineFailedError
from sessions.export.jsonl import dumps
from sessions.export.words import output_text

DEFAULT_WORDS = 600
DEFAULT_OUTPUT = 24
DEFAULT_BUDGET = 24
DEFAULT_ROWS = 4


def add_shapes_options(parser: argparse.ArgumentParser) -> None:
    """Add the sizes of the requests."""
    parser.add_argument("--format", choices=("text", "json"), default="text")
    for flag, default, what in (
        ("--words", DEFAULT_WORDS, "words of the long document"),
        ("--output", DEFAULT_OUTPUT, "tokens of each answer"),
        ("--budget", DEFAULT_BUDGET, "tokens of thinking"),
        ("--best-of", DEFAULT_ROWS, "rows that think in parallel, against one in series; 1: none"),
    ):
        parser.add_argument(
            flag, type=positive, default=default, metavar="N", help=f"{what}; default {default}"
        )


def shapes(
    command: Open,
    args: argparse.Namespace,
    *,
    connect: Callable[[], EngineClient] = connect,
) -> int:
    """Carry them out, one after another, and print. Returns the exit code."""
    prices = own_prices()

    def work(answers: Answers) -> int:
        facts = answers.ask(command, ModelFacts)
        found = carried_out(answers, args.words, args.output, args.budget, prices)
        ways = _both_ways(answers, found, args.best_of, args.output) if args.best_of > 1 else ()
        if args.format == "json":
            print(dumps(report(facts, found, ways)))
        else:
            out = console()
            print_lines(out, lines(facts, found, ways, out.width))
        return EXIT_OK if any(one.account for one in found) else EXIT_ENGINE

    return with_engine(connect, work)


def carried_out(
    answers: Answers, words: int, output: int, budget: int, prices: PriceList
) -> list[Answered]:
    """The answers to all requests, by the model that ``answers`` has loaded."""
    settings = answers.ask(Configure(dials={"temperature": 0.0}), SettingsChanged)
    # The first passes of a process are slower, whoever's they are.
    warm_up = Shape("warm-up", "", WARM_UP, 2)
    wanted = (warm_up, *requests(words, output, budget, settings.thinking))
    found = []
    for number, shape in enumerate(wanted):
        part = f"{shape.name} ({number} of {len(wanted) - 1})" if number else shape.name

        def show(share: float, number: int = number, part: str = part) -> None:
            answers.show("shapes", (number + share) / len(wanted), part)

        try:
            found.append(_run(answers, shape, prices, show))
        except EngineFailedError as error:
            # Such as a document that the model's context does not hold; the next one may fit.
            found.append(Answered(shape, error=str(error)))
    return found[1:]


def _both_ways(
    answers: Answers, found: Sequence[Answered], rows: int, output: int
) -> tuple[Way, ...]:
    """The request that thinks, in series and in parallel; none where it could not be answered."""
    asked = next((one.shape for one in found if one.shape.thinking and not one.error), None)
    if asked is None or asked.thinking is None:
        return ()

    def show(what: str, share: float) -> None:
        answers.show("serial and parallel", share, what)

    return both_ways(answers, asked.prompt, asked.thinking, rows, output, show)


def _run(
    answers: Answers, shape: Shape, prices: PriceList, show: Callable[[float], None]
) -> Answered:
    """One request to its end; a stop token does not end it, so that all do the same work."""
    answers.tell(Configure(dials={"temperature": 0.0}, thinking=shape.thinking))
    answers.ask(Submit(shape.prompt), PromptRecord)
    node = ROOT
    for done in range(shape.output):
        show(done / shape.output)
        node = answers.ask(Step(node), StepRecord).node
    log = answers.log
    path = log.path(node)
    found = account_of(log, path, prices)
    tokenized = log.prompt.tokenize_ms if log.prompt is not None else 0.0
    total = tokenized + (found.bill.total.time.value or 0.0)
    return Answered(shape, found, speed(log.prompt, log.prefill, path), total, output_text(path))
