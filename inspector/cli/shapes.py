"""``llm-inspect shapes``: ready requests on the model, and where the time and bill of each go."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from engine.commands import Configure, Open, Submit
from engine.process import EngineClient
from engine.text import visible
from inspector.cli.bench import with_engine
from inspector.cli.engine_log import connect
from inspector.cli.option_values import positive
from inspector.cli.options import UsageError, load_config
from inspector.cli.own_prices import own_prices
from inspector.cli.printing import print_lines
from inspector.cli.shapes_report import report
from inspector.cli.terminal import is_terminal, run_in_terminal
from inspector.exit_codes import EXIT_ENGINE, EXIT_INTERRUPTED, EXIT_OK
from inspector.safe_console import console
from inspector.screens.shapes.lines import lines
from inspector.state.answers import Answers
from inspector.state.request import Request
from inspector.state.shapes.beside import begin_beside
from inspector.state.shapes.carry_out import Answered, Carried, Sizes, carry_out
from sessions.export.jsonl import dumps
from sessions.file.format import SessionError


def add_shapes_options(parser: argparse.ArgumentParser) -> None:
    """Add the sizes of the requests."""
    parser.add_argument(
        "--format", choices=("text", "json"), help="print instead of opening the screen"
    )
    parser.add_argument("--theme", metavar="T", help="a theme's name, or a .toml file")
    usual = Sizes()
    for flag, default, what in (
        ("--words", usual.words, "words of the long document"),
        ("--output", usual.output, "tokens of each answer"),
        ("--budget", usual.budget, "tokens of thinking"),
        ("--best-of", usual.rows, "rows that think in parallel, against one in series; 1: none"),
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
    """Carry them out, one after another, on a screen or without one, and print what came of it.

    Returns the exit code.
    """
    prices, sizes = own_prices(), Sizes(args.words, args.output, args.budget, args.best_of)
    if args.format is None and is_terminal():
        client = connect()
        return _on_screen(client, partial(begin_beside, client, command, sizes, prices), args)

    def work(answers: Answers) -> int:
        def show(told: Carried) -> None:
            if told.facts is not None and not told.ended:
                answers.show("shapes", told.whole_share, told.now)

        return _print(carry_out(answers, command, sizes, prices, show), args.format)

    return with_engine(connect, work)


def _on_screen(
    client: EngineClient, begin: Callable[..., Callable[[], None]], args: argparse.Namespace
) -> int:
    """Show them as they are run; what is known at the end is printed behind the screen too."""
    from inspector.browser import Shapes
    from inspector.cli.open import theme_name
    from themes import ThemeError

    try:
        app = Shapes(begin, theme_name(args.theme))
    except ThemeError as error:
        client.close()
        raise UsageError(str(error)) from None
    found: Carried | None = run_in_terminal(app)
    if found is not None and found.error:
        print(f"llm-inspect: {visible(found.error)}", file=sys.stderr)
    if found is None or not found.done:
        return app.return_code or (EXIT_ENGINE if found and found.error else EXIT_INTERRUPTED)
    code = _print(replace(found, now=""), None)
    return code if found.opened is None else _open(found.opened, args)


def _open(one: Answered, args: argparse.Namespace) -> int:
    """Keep a request's run as a session, and show it in the debugger."""
    from inspector.cli.open import Opener
    from sessions.library import Library
    from sessions.writer import SessionWriter

    try:
        path = Library().autosave_path(one.shape.name)
        with SessionWriter(path, title=one.shape.name) as writer:
            writer.add_all(one.records)
    except SessionError as error:
        raise UsageError(str(error)) from None
    asked = Request(Open(), Configure(), Submit(""))
    return Opener(asked, load_config(args), args.theme).open(path)


def _print(found: Carried, form: str | None) -> int:
    if form == "json":
        print(dumps(report(found)))
    else:
        out = console()
        print_lines(out, lines(found, out.width))
    return EXIT_OK if found.answered else EXIT_ENGINE
