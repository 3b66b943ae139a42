"""Options of ``llm-inspect compare``: the columns that a command line stands for."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import product
from typing import Any

from engine.commands import Settings
from engine.records.columns import MOST_COLUMNS
from engine.sampling.chain import PRESETS, SpecError, effective, parse_spec
from engine.sampling.stages import DIALS
from inspector.cli.config import Config
from inspector.cli.option_values import number, positive
from inspector.cli.options import UsageError, dials_beside
from inspector.state.column_words import ColumnWords, column_words
from inspector.state.request import ColumnRequest

FORMATS = ("text", "json", "jsonl", "md", "html", "csv")
_MOST_SWEPT = 2


def add_compare_options(parser: argparse.ArgumentParser) -> None:
    """Add what makes columns, and what ranks them."""
    group = parser.add_argument_group(
        "columns",
        "every -s, under every preset, with every seed; -s may also say preset=, seed= and draft=",
    )
    group.add_argument(
        "--presets", default="", metavar="P,P", help=f"several of {', '.join(PRESETS)}"
    )
    group.add_argument("--seeds", type=_seeds, default=(), metavar="N,N", help="several seeds")
    group.add_argument(
        "--sweep",
        action="append",
        default=[],
        metavar="DIAL=A:B:STEP",
        help="a column for each value, both ends included, or DIAL=V,V,V; twice makes a grid",
    )
    group.add_argument(
        "--check-alone",
        action=argparse.BooleanOptionalAction,
        help="hold each column against its text read alone; as it is unless columns are ranked",
    )
    ranking = parser.add_argument_group("best of several")
    ranking.add_argument(
        "--best-of", type=positive, metavar="N", help="N columns that differ in their seed, ranked"
    )
    ranking.add_argument("--check-regex", type=_regex, metavar="RE", help="the text must match it")
    ranking.add_argument(
        "--check-command",
        metavar="CMD",
        help="gets the text on standard input; exit code 0 is a vote for it",
    )
    ranking.add_argument(
        "--check-timeout",
        type=positive,
        default=10,
        metavar="S",
        help="seconds for each check command, default 10",
    )
    ranking.add_argument(
        "--answer-regex",
        type=_regex,
        metavar="RE",
        help="majority vote over what it finds last in each text (its first group, if it has one)",
    )


@dataclass(frozen=True, slots=True)
class Swept:
    """One dial and the values that it is to have, in order."""

    dial: str
    values: tuple[Any, ...]


def column_requests(args: argparse.Namespace, config: Config) -> tuple[ColumnRequest, ...]:
    """The columns that a command line asks for. Raises UsageError."""
    samplers = [(text, _words(text, args)) for text in args.samplers or [""]]
    presets = _presets(args, config)
    sweeps = [parse_sweep(text) for text in args.sweep]
    if len(sweeps) > _MOST_SWEPT or len({one.dial for one in sweeps}) < len(sweeps):
        raise UsageError(f"--sweep: at most {_MOST_SWEPT}, each of another dial")
    seeds = _own_seeds(args, config)
    found = []
    values = product(*([(one.dial, value) for value in one.values] for one in sweeps))
    for (text, words), given, swept, each in product(samplers, presets, list(values), seeds):
        spec, preset = words.spec, words.preset or given
        seed = each if words.seed is None else words.seed
        try:
            _, named = parse_spec(spec, preset)
            twice = [dial for dial, _ in swept if dial in named]
            if twice:
                raise UsageError(f"{twice[0]} is swept and in -s: choose one")
            dials = dials_beside(args, config, named, spec) | dict(swept)
            effective(preset, dials, spec=spec)
        except SpecError as error:
            raise UsageError(str(error)) from None
        title = _title(
            [text] if len(samplers) > 1 else [],
            [preset] if len(presets) > 1 else [],
            [f"{dial}={value}" for dial, value in swept],
            [f"seed {seed}"] if len(seeds) > 1 else [],
        )
        settings = Settings(preset, dials, spec, draft=words.draft)
        found.append(ColumnRequest(settings, seed, title))
    if not 2 <= len(found) <= MOST_COLUMNS:
        raise UsageError(_wrong_count(len(found)))
    return tuple(found)


def _words(text: str, args: argparse.Namespace) -> ColumnWords:
    try:
        words = column_words(text)
    except ValueError as error:
        raise UsageError(f"-s: {error}") from None
    for name, one, others in (
        ("preset", words.preset, ("preset", "presets")),
        ("seed", words.seed, ("seed", "seeds", "best_of")),
    ):
        twice = next((other for other in others if getattr(args, other)), None)
        if one is not None and twice is not None:
            raise UsageError(f"{name}= in -s and --{twice.replace('_', '-')}: choose one")
    return words


def _wrong_count(count: int) -> str:
    if count > MOST_COLUMNS:
        return f"that makes {count:,} columns; one pass reads {MOST_COLUMNS} at most"
    return (
        'a comparison has two columns or more: give -s twice ("temperature=0.2", '
        '"temperature=1.2"), or --presets, --seeds, --sweep or --best-of'
    )


def _title(*parts: Sequence[str]) -> str:
    return ", ".join(word for part in parts for word in part if word)


def _presets(args: argparse.Namespace, config: Config) -> list[str]:
    if not args.presets:
        return [config.pick("preset", args.preset, "guide")]
    if args.preset:
        raise UsageError("--preset and --presets: choose one")
    names = args.presets.split(",")
    for name in names:
        if name not in PRESETS:
            raise UsageError(f"--presets: there is no {name!r:.40}; known: {', '.join(PRESETS)}")
    return list(dict.fromkeys(names))


def _own_seeds(args: argparse.Namespace, config: Config) -> list[int]:
    first = config.pick("seed", args.seed, 0)
    if args.best_of is None:
        return list(dict.fromkeys(args.seeds)) or [first]
    if args.seeds:
        raise UsageError("--seeds and --best-of: choose one")
    return [first + at for at in range(args.best_of)]


def parse_sweep(text: str) -> Swept:
    """``DIAL=A:B:STEP``, both ends included, or ``DIAL=V,V,V``. Raises UsageError."""
    name, _, values = text.partition("=")
    dial = name.strip().replace("-", "_")
    if dial not in DIALS or not values:
        raise UsageError(f"--sweep takes DIAL=A:B:STEP with one of our dials, not {text!r:.60}")
    words = list(_steps(values)) if ":" in values else [one.strip() for one in values.split(",")]
    try:
        found = tuple(DIALS[dial][1].parse(word) for word in words)
    except ValueError as error:
        raise UsageError(f"--sweep {dial}: {error}") from None
    return Swept(dial, tuple(dict.fromkeys(found)))


def _steps(text: str) -> Iterator[str]:
    """The values of ``A:B:STEP``, counted in decimals, so that none is 0.30000000000000004."""
    try:
        first, last, step = (Decimal(one.strip()) for one in text.split(":"))
    except (ValueError, InvalidOperation):
        raise UsageError(f"--sweep takes A:B:STEP, three numbers, not {text!r:.60}") from None
    if not (first.is_finite() and last.is_finite() and step.is_finite()) or step <= 0:
        raise UsageError("--sweep A:B:STEP: STEP is above 0, and all three are finite")
    if last < first or (last - first) / step > MOST_COLUMNS:
        raise UsageError(f"--sweep A:B:STEP: from A up to B, in {MOST_COLUMNS} steps at most")
    for at in range(int((last - first) / step) + 1):
        yield f"{(first + at * step).normalize():f}"


def _seeds(text: str) -> tuple[int, ...]:
    return tuple(number("seed")(word) for word in text.split(","))


def _regex(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"no regular expression: {error}") from None
