"""Options of the command line for engines that run as a server."""

from __future__ import annotations

import argparse
import re
from dataclasses import replace
from typing import Any

from engine.backends import BACKENDS
from engine.commands import Open
from inspector.cli.config import Config
from inspector.cli.option_values import number

NAMES = ("url", "api_key_env", "timeout", "tokenizer")
_MOST_SLOTS = 16


def add_server_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for a server; their values are those of ``server_options``."""
    takers = [name for name, one in BACKENDS.items() if "url" in one.options]
    group = parser.add_argument_group(f"servers (--engine {', '.join(takers)}; docs/engines.md)")
    group.add_argument(
        "--url", metavar="U", help="where the server is, such as http://127.0.0.1:8080"
    )
    group.add_argument(
        "--api-key-env",
        type=_variable,
        metavar="NAME",
        help="the environment variable that holds its key; without it no key is sent",
    )
    group.add_argument(
        "--timeout", type=number("timeout"), metavar="S", help="seconds to wait; default 120"
    )
    group.add_argument(
        "--tokenizer",
        metavar="T",
        help="names its tokens exactly: a folder with tokenizer.json, or that file",
    )


def server_options(args: argparse.Namespace, config: Config) -> dict[str, Any]:
    """The options' values; None where neither a flag nor the configuration file has one."""
    return {name: config.pick(name, getattr(args, name)) for name in NAMES}


def check_server(engine: str, url: str | None) -> None:
    """Raise ValueError for an engine without its address, or one that is none."""
    if url is None:
        if BACKENDS[engine].needs_url:
            raise ValueError(
                f"--engine {engine} attaches to a running server: say where it is by --url, "
                "such as --url http://127.0.0.1:8000"
            )
        return
    from engine.backends.base import BackendError
    from engine.backends.http.address import base_url

    try:
        base_url(url)
    except BackendError as error:
        raise ValueError(str(error)) from None


def _variable(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,99}", text):
        # It may be the key itself, given by mistake: it is not repeated.
        raise argparse.ArgumentTypeError("takes the NAME of an environment variable, not a key")
    return text


def with_slots(opening: Open, columns: int) -> Open:
    """The command, for a llama.cpp of our own with a place in its cache for each column.

    They share one cache, so that more of them take no more memory.
    """
    own = opening.backend == "llamacpp" and not opening.options.get("url")
    if not own or opening.options.get("slots") is not None:
        return opening
    slots = min(max(columns, 2), _MOST_SLOTS)
    return replace(opening, options={**opening.options, "slots": slots})
