"""``llm-inspect sample``: a vector of logits from anywhere, through the chain of the inspector."""

from __future__ import annotations

import argparse
from dataclasses import replace

from engine.sampling.candidates import SamplingError
from engine.sampling.chain import Effective, SpecError, effective
from engine.sampling.report import notes, sample_report
from inspector.cli.config import Config
from inspector.cli.options import UsageError, chain_choice
from inspector.cli.sample_input import Given, Place, place, read_input
from inspector.exit_codes import EXIT_OK
from sessions.export.jsonl import dumps

DEFAULT_TOP = 20


def sample(args: argparse.Namespace, config: Config) -> int:
    """Read, sample and print. Raises UsageError."""
    preset, dials = chain_choice(args, config)
    given = read_input(args)
    try:
        settings = effective(
            preset,
            dials,
            spec=args.sampler,
            resolve=given.names.ids if given.names is not None else None,
        )
        context = place(args, given.step, _seed(args, config, given))
        if given.names is not None:
            context = replace(context, token=given.names.token, encode=given.names.ids)
            if _needs_vocabulary(settings):
                context = replace(context, vocabulary=given.names.vocabulary())
        return _print(args, given, settings, context)
    except (SamplingError, SpecError) as error:
        raise UsageError(str(error)) from None


def _seed(args: argparse.Namespace, config: Config, given: Given) -> int:
    """The seed asked for, or the one that the run file's step was drawn with."""
    if args.seed is None and given.step.seed is not None:
        return given.step.seed
    return int(config.pick("seed", args.seed, 0))


def _needs_vocabulary(settings: Effective) -> bool:
    return any(one.name == "grammar" and not one.off for one in settings.chain.stages)


def _print(args: argparse.Namespace, given: Given, settings: Effective, context: Place) -> int:
    extra = list(_notes(given, settings, context))
    if args.format == "json":
        report = sample_report(settings, given.read, context, count=args.top, token=given.token)
        report["position"] = context.position
        report["notes"] += extra
        report["draw"] = {name: report[name] for name in ("token_id", "how", "u", "low", "high")}
        print(dumps(report))
        return EXIT_OK
    from inspector.cli.printing import print_lines
    from inspector.cli.sample_text import sample_lines
    from inspector.safe_console import console

    ladder = settings.chain.run(given.read.logits, context)
    drawn = settings.chain.choose(ladder, context)
    out = console()
    said = [*notes(settings, given.read), *extra]
    lines = sample_lines(given, settings, ladder, drawn, said, top=args.top, width=out.width)
    print_lines(out, lines)
    return EXIT_OK


def _notes(given: Given, settings: Effective, context: Place) -> list[str]:
    """Notes on possible faults of the input."""
    found = []
    held = len(context.prompt_ids) + len(context.output_ids)
    if 0 < held < context.position:
        found.append(f"{held:,} of the {context.position:,} tokens before this one are known.")
    size, names = given.read.logits.size, given.names
    if names is not None and not given.read.partial and size < names.size:
        found.append(
            f"The vector has {size:,} logits and the tokenizer {names.size:,} tokens: "
            "are they of one model?"
        )
    penalties = [one for one in settings.chain.stages if one.name == "penalties"]
    if given.read.shifted and any(one.params["repetition_penalty"] != 1.0 for one in penalties):
        found.append(
            "repetition_penalty divides logits; this one holds log-probabilities, "
            "so its effect is not that of the run."
        )
    return found
