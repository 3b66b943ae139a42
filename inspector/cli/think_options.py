"""Options of the command line for thinking: whose tags, and how many tokens between them."""

from __future__ import annotations

import argparse

from engine.records.thinking import LONGEST_TAG, ThinkingSettings
from inspector.cli.config import Config
from inspector.cli.option_values import number

FLAG = "--think-tags"


def add_think_options(parser: argparse.ArgumentParser) -> None:
    """Add the tags and the budget."""
    group = parser.add_argument_group("thinking")
    group.add_argument(
        FLAG,
        metavar="OPEN,CLOSE",
        help='what thinking stands between, such as "<think>,</think>"; default: the model\'s own',
    )
    group.add_argument(
        "--think-budget",
        type=number("think_budget"),
        metavar="N",
        help="force the closing tag after N tokens of thinking; default: no budget",
    )


def think_settings(args: argparse.Namespace, config: Config) -> ThinkingSettings | None:
    """Read the options for thinking; None for none. Raises ValueError for tags that are none."""
    text = config.pick("think_tags", args.think_tags)
    budget = config.pick("think_budget", args.think_budget)
    if text is None:
        return None if budget is None else ThinkingSettings(budget=budget)
    try:
        opens, closes = parsed_tags(text)
    except ValueError as error:
        raise ValueError(f"{FLAG} {error}") from None
    source = FLAG if args.think_tags is not None else "configuration file"
    return ThinkingSettings(opens, closes, source, budget)


def parsed_tags(text: str) -> tuple[str, str]:
    """The two tags in ``OPEN,CLOSE``. Raises ValueError."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or not all(parts) or parts[0] == parts[1]:
        shown = f"{text[:LONGEST_TAG]!r}"
        raise ValueError(f'takes two tags that differ, such as "<think>,</think>"; not {shown}')
    if max(map(len, parts)) > LONGEST_TAG:
        raise ValueError(f"takes tags of at most {LONGEST_TAG} characters")
    return parts[0], parts[1]
