"""Options of the command line for engines of their own, such as llama.cpp."""

from __future__ import annotations

import argparse
from typing import Any

from inspector.cli.config import Config
from inspector.cli.option_values import CACHE_TYPES, number

NAMES = ("top", "context", "slots", "gpu_layers", "cache_type")


def add_engine_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that only some engines take; their values are those of ``engine_options``."""
    group = parser.add_argument_group("other engines than hf (docs/engines.md)")
    group.add_argument(
        "--top",
        type=number("top"),
        metavar="N",
        help="log-probabilities to ask for at each position; more where a draw needs them",
    )
    group.add_argument(
        "--context", type=number("context"), metavar="N", help="tokens of context to make room for"
    )
    group.add_argument(
        "--slots", type=number("slots"), metavar="N", help="branches kept in its cache side by side"
    )
    group.add_argument(
        "--gpu-layers", type=number("gpu_layers"), metavar="N", help="layers on the accelerator"
    )
    group.add_argument(
        "--cache-type", choices=CACHE_TYPES, help="type that K and V are kept in; default f16"
    )


def engine_options(args: argparse.Namespace, config: Config) -> dict[str, Any]:
    """The options' values; None where neither a flag nor the configuration file has one."""
    return {name: config.pick(name, getattr(args, name)) for name in NAMES}
