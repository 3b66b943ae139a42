"""Options of the command line for keeping K and V."""

from __future__ import annotations

import argparse
from typing import Any

from engine.records.model import KV_DTYPES
from inspector.cli.config import Config
from inspector.cli.option_values import number
from inspector.cli.sizes import parse_size


def add_kv_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for keeping K and V; their values are those of ``kv_options``."""
    group = parser.add_argument_group("KV cache")
    group.add_argument(
        "--cache",
        action=argparse.BooleanOptionalAction,
        help="keep K and V (default), or have every step read the whole text again",
    )
    group.add_argument(
        "--block-size", type=number("block_size"), metavar="N", help="positions a block; default 16"
    )
    group.add_argument(
        "--kv-budget",
        type=_size,
        metavar="SIZE",
        help="memory for the blocks: bytes, or 512M, 2G, 1.5GiB; default: from what is free",
    )
    group.add_argument(
        "--kv-dtype",
        choices=KV_DTYPES,
        help="int8 keeps K and V in 8 bits; auto (default) in the model's dtype",
    )


def kv_options(args: argparse.Namespace, config: Config) -> dict[str, Any]:
    """The backend's options. Raises ValueError for flags that contradict each other."""
    beside = {"--kv-dtype int8": args.kv_dtype == "int8", "--kv-budget": args.kv_budget}
    for flag, given in beside.items():
        if args.cache is False and given:
            raise ValueError(f"--no-cache and {flag}: without a cache there are no K and V to keep")
    budget = config.pick("kv_budget", args.kv_budget)
    return {
        "cache": config.pick("cache", args.cache, True),
        "block_size": config.pick("block_size", args.block_size),
        "kv_budget": parse_size(budget) if isinstance(budget, str) else budget,
        "kv_dtype": config.pick("kv_dtype", args.kv_dtype, "auto"),
    }


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
