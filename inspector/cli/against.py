"""``llm-inspect sample --against E``: our preset of a stack held against the stack itself."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from engine.commands import CheckSampler, Configure, Open, Step, Submit
from engine.records.model import ModelFacts
from engine.records.prompt import PromptRecord
from engine.records.sampler_check import CheckedToken, SamplerCheck
from engine.records.step import StepRecord
from engine.run.tree import ROOT
from engine.sampling.chain import SpecError, parse_spec
from engine.text import plural, quote, share, visible
from inspector.cli.bench import with_engine
from inspector.cli.config import Config
from inspector.cli.engine_log import connect
from inspector.cli.options import UsageError, chain_choice
from inspector.exit_codes import EXIT_CHECK, EXIT_OK
from inspector.state.answers import Answers
from sessions.export.jsonl import dumps

FLAG = "--against"
STACKS = ("llamacpp",)
"""Engines that tell what their own sampler leaves."""


def against(args: argparse.Namespace, config: Config, opening: Open, submit: Submit) -> int:
    """Have both samplers work on the distribution behind the prompt. Returns the exit code."""
    dials = _dials(args, config, opening.backend)

    def work(answers: Answers) -> int:
        facts = answers.ask(opening, ModelFacts)
        answers.tell(Configure(dials={"temperature": 0.0}))
        answers.ask(submit, PromptRecord)
        node = answers.ask(Step(ROOT), StepRecord).node
        found = answers.ask(CheckSampler(node, dials), SamplerCheck)
        if args.format == "json":
            print(dumps(report(facts, found)))
        else:
            for line in lines(facts, found):
                print(visible(line))
        return EXIT_OK if found.same else EXIT_CHECK

    return with_engine(connect, work)


def _dials(args: argparse.Namespace, config: Config, stack: str) -> dict[str, Any]:
    """The dials of the command line, for the preset of the stack. Raises UsageError."""
    if args.preset not in (None, stack):
        raise UsageError(f"--preset {args.preset}: {FLAG} {stack} is about the preset {stack}")
    if ">" in args.sampler:
        raise UsageError(f"-s with >: {FLAG} compares in the stack's own order; give dials alone")
    args.preset = stack
    try:
        _, flags = chain_choice(args, config)
        _, named = parse_spec(args.sampler, stack)
    except SpecError as error:
        raise UsageError(str(error)) from None
    return {**flags, **named}


def lines(facts: ModelFacts, found: SamplerCheck) -> Iterator[str]:
    """The comparison in words."""
    versions = ", ".join(f"{name} {value}" for name, value in facts.versions.items())
    yield f"{found.stack}: {facts.name} ({versions})"
    yield f"chain: {found.spec}"
    least = "" if found.listed_all else "at least "
    yield f"kept: {plural(found.ours, 'token')} by ours, {least}{found.theirs:,} by the engine"
    yield ""
    yield "    ours   engine  token"
    for row in found.rows:
        yield _line(row)
    yield ""
    if found.same:
        yield (
            f"the same: no probability differs by more than {found.largest:.2g}, "
            f"and {found.near:g} is what printing makes of it"
        )
    else:
        yield (
            f"NOT the same: they part on {plural(found.parted, 'token')}, "
            f"and a probability differs by {found.largest:.2g}"
        )


def _line(row: CheckedToken) -> str:
    ours, theirs = (share(one) if one > 0 else "cut" for one in (row.ours, row.theirs))
    name = quote(row.token.bytes.decode("utf-8", "replace"), 40)
    return f"{ours:>8} {theirs:>8}  {name}{'  PARTS' if row.parts else ''}"


def report(facts: ModelFacts, found: SamplerCheck) -> dict[str, Any]:
    """Every figure, as one JSON object."""
    return {
        "type": "sampler_check",
        "stack": found.stack,
        "model": facts.name,
        "versions": facts.versions,
        "chain": found.spec,
        "same": found.same,
        "kept_ours": found.ours,
        "kept_theirs": found.theirs,
        "listed_all": found.listed_all,
        "parted": found.parted,
        "largest_difference": found.largest,
        "rows": [
            {
                "token_id": row.token.id,
                "token_bytes": row.token.bytes.hex(),
                "ours": row.ours,
                "theirs": row.theirs,
            }
            for row in found.rows
        ],
    }
