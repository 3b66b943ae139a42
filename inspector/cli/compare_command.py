"""The command line of ``llm-inspect compare``: on the screen, without one, or from a saved file."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

from inspector.cli.compare_options import FORMATS, add_compare_options, column_requests
from inspector.cli.options import (
    OneLineParser,
    UsageError,
    add_break_options,
    add_model_options,
    add_prompt_options,
    add_sampler_options,
    add_save_options,
    load_config,
    request,
)
from inspector.cli.server_options import with_slots
from inspector.state.ranking import Checks, words_of


def compare_command(parser: OneLineParser, words: Sequence[str]) -> int:
    """Carry the command out. Returns the exit code; raises UsageError."""
    parser.add_argument(
        "--format",
        choices=FORMATS,
        help="print instead of opening the screen; md, html and csv are tables",
    )
    parser.add_argument(
        "--from",
        dest="session",
        metavar="FILE",
        help="print a saved comparison, by its file or name",
    )
    parser.add_argument("--theme", metavar="T", help="a theme's name, or a .toml file")
    add_prompt_options(parser)
    add_model_options(parser)
    add_sampler_options(parser, several=True)
    add_compare_options(parser)
    add_break_options(parser, screen=True)
    add_save_options(parser, screen=True)
    args = parser.parse_args(words)
    from inspector.cli.compare import Asked, compare, from_session

    ranks = _ranks(args)
    alone = not ranks if args.check_alone is None else args.check_alone
    wanted = Asked(args.format or "text", ranks, _checks(args), alone)
    if args.session is not None:
        if wanted.checks.command:
            raise UsageError("--check-command runs on texts of a run, never on those of a file")
        return from_session(args.session, wanted)
    config = load_config(args)
    columns = column_requests(args, config)
    asked = request(args, config)
    asked = replace(asked, columns=columns, open=with_slots(asked.open, len(columns)))
    from inspector.cli.terminal import is_terminal

    if args.format is None and not wanted.ranks and is_terminal():
        from inspector.cli.open import open_inspector
        from inspector.state.columns import MOST

        if len(asked.columns) > MOST:
            raise UsageError(
                f"that makes {len(asked.columns)} columns; the screen has room for {MOST}: "
                "--format text prints them all"
            )
        return open_inspector(asked, config, theme=config.pick("theme", args.theme))
    return compare(asked, wanted)


def _ranks(args: argparse.Namespace) -> bool:
    given = (args.best_of, args.check_regex, args.check_command, args.answer_regex)
    return any(one is not None for one in given)


def _checks(args: argparse.Namespace) -> Checks:
    try:
        command = () if args.check_command is None else words_of(args.check_command)
    except ValueError as error:
        raise UsageError(f"--check-command: {error}") from None
    return Checks(args.check_regex, command, args.check_timeout, args.answer_regex)
