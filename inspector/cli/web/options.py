"""Options of the command line for a recording in a browser."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from inspector.cli.options import UsageError

DEFAULT_PORT = 8000
_LAST_PORT = 65535


def add_web_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for showing a recording to the browsers of this machine."""
    group = parser.add_argument_group("in a browser", "of this machine alone, and read-only")
    group.add_argument("--web", action="store_true", help="print an address, and serve it")
    group.add_argument(
        "--port", type=_port, metavar="N", help=f"default {DEFAULT_PORT}; 0 takes a free one"
    )
    # The process of one tab: the same words, and this.
    group.add_argument("--tab", action="store_true", help=argparse.SUPPRESS)


def check_web_options(args: argparse.Namespace) -> None:
    """Raise UsageError for options that contradict ``--web``."""
    if args.live and (args.web or args.tab):
        raise UsageError("--web only shows what is recorded: leave --live out")
    if args.tab and sys.stdout.isatty():
        raise UsageError("--tab is for the processes of --web")
    if args.port is not None and not args.web:
        raise UsageError("--port needs --web")


def web_server() -> Callable[[Sequence[str], str, int], int]:
    """The function that serves. Raises UsageError where what it needs is not installed."""
    try:
        from inspector.cli.web.server import serve
    except ModuleNotFoundError:
        raise UsageError("--web needs textual-serve: pip install textual-serve") from None
    return serve


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > _LAST_PORT:
        raise argparse.ArgumentTypeError(f"takes a number up to {_LAST_PORT}, not {text!r}")
    return int(text)
