"""``llm-inspect napkin``: bytes and ceilings of another model on another machine, worked out."""

from __future__ import annotations

import argparse
import re
from dataclasses import asdict
from typing import Any

from engine.napkin.figures import DEFAULT_CONTEXT, remarks, variants
from engine.napkin.library import Library, NapkinError
from engine.napkin.notation import EXAMPLE, parse
from engine.napkin.shapes import Machine, ModelShape
from inspector.cli.options import UsageError
from inspector.cli.printing import print_lines
from inspector.draw.napkin import napkin_lines
from inspector.exit_codes import EXIT_OK
from inspector.safe_console import console
from inspector.state.own_files import napkin_file
from sessions.export.jsonl import dumps

SCHEMA = 1
_LONGEST_CONTEXT = 1 << 30


def add_napkin_options(parser: argparse.ArgumentParser) -> None:
    """Add what is to be worked out."""
    parser.add_argument("shape", nargs="?", help=f'a model @ a machine, such as "{EXAMPLE}"')
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument(
        "--context", type=_positions, default=DEFAULT_CONTEXT, metavar="N", help="such as 128K"
    )
    parser.add_argument("--list", action="store_true", help="the models and machines by name")


def napkin(args: argparse.Namespace) -> int:
    """Work it out and print it. Raises UsageError."""
    try:
        library = Library.load(napkin_file())
        if args.list:
            return _list(library, args.format)
        shape, machine = parse(args.shape or "", library)
    except NapkinError as error:
        raise UsageError(str(error)) from None
    if args.format == "json":
        print(dumps(report(shape, machine, args.context)))
        return EXIT_OK
    out = console()
    print_lines(out, napkin_lines(shape, machine, args.context, out.width))
    return EXIT_OK


def report(shape: ModelShape, machine: Machine | None, context: int) -> dict[str, Any]:
    """Every figure as an object: value, unit, source (derived or estimated) and formula."""
    return {
        "type": "napkin",
        "schema": SCHEMA,
        "context": context,
        "model": asdict(shape) | {"attention": shape.attention, "notes": list(shape.notes)},
        "machine": None if machine is None else asdict(machine) | {"notes": list(machine.notes)},
        "variants": [
            {"name": one.label, "figures": [asdict(figure) for figure in one.figures]}
            for one in variants(shape, machine, context)
        ],
        "remarks": list(remarks(shape, machine)),
    }


def _list(library: Library, form: str) -> int:
    if form == "json":
        print(
            dumps(
                {
                    "models": [asdict(one) for one in library.models.values()],
                    "machines": [asdict(one) for one in library.machines.values()],
                }
            )
        )
        return EXIT_OK
    for kind, entries in (("models", library.models), ("machines", library.machines)):
        print(f"{kind}:")
        for name, one in entries.items():
            print(f"  {name:<16}{one.source}")
    print(f"your own: {napkin_file()}")
    return EXIT_OK


def _positions(text: str) -> int:
    """A number of positions: ``8000``, ``128K`` (of 1,024) or ``1M``."""
    found = re.fullmatch(r"(\d{1,10})([kKmM]?)", text.strip())
    value = int(found[1]) << {"": 0, "k": 10, "m": 20}[found[2].lower()] if found else 0
    if not 1 <= value <= _LONGEST_CONTEXT:
        raise argparse.ArgumentTypeError(
            f"takes a number of tokens, such as 8000 or 128K, up to 1024M; not {text[:40]!r}"
        )
    return value
