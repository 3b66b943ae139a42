"""Options of the command line for speculative decoding."""

from __future__ import annotations

import argparse

from engine.records.round import Accept, DraftSettings
from inspector.cli import option_values
from inspector.cli.config import Config

_TOKENS = DraftSettings().tokens


def add_draft_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for drafting tokens that one pass then verifies."""
    group = parser.add_argument_group("speculative decoding")
    group.add_argument(
        "--draft",
        default=None,
        metavar="D",
        help="ngram[:N] (the text's own), self:LAYERS, or a model with the same vocabulary",
    )
    group.add_argument(
        "--draft-tokens",
        type=_tokens,
        default=None,
        metavar="K",
        help=f"tokens to draft in a round, or auto; default {_TOKENS}",
    )
    group.add_argument(
        "--accept",
        default=None,
        choices=option_values.ACCEPT,
        help="exact (default), match (as llama.cpp), or typical, which is not lossless",
    )


def draft_settings(args: argparse.Namespace, config: Config) -> DraftSettings:
    """Read the options for drafting. Raises ValueError for options that mean nothing."""
    source = config.pick("draft", args.draft, "")
    if not source:
        for flag, given in (("--draft-tokens", args.draft_tokens), ("--accept", args.accept)):
            if given is not None:
                raise ValueError(f"{flag} needs --draft: without drafts there is nothing to accept")
        return DraftSettings()
    try:
        option_values.check("draft", source)
    except ValueError as error:
        raise ValueError(f"--draft {error}") from None
    tokens = config.pick("draft_tokens", args.draft_tokens, _TOKENS)
    accept = Accept(config.pick("accept", args.accept, Accept.EXACT.value))
    return DraftSettings(source, 0 if tokens == option_values.AUTO else tokens, accept)


def _tokens(text: str) -> int | str:
    return text if text == option_values.AUTO else option_values.number("draft_tokens")(text)
