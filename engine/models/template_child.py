"""Render chat templates in a process of its own: a script that ``chat_template`` runs.

A template is a program out of a model folder. jinja's sandbox keeps it from the machine, but not
from looping for hours or from building a text of many gigabytes; limits of the system do, here.
One JSON object a line comes in, one goes out. Nothing of ours and no torch is imported.
"""

from __future__ import annotations

import contextlib
import json
import math
import resource
import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace


class TooLong(Exception):
    """A template has written more than it may."""


class _Generation(Extension):
    """``{% generation %}`` marks what an assistant wrote, for training; here it is just text."""

    tags = frozenset(("generation",))  # type: ignore[assignment]

    def parse(self, parser: Any) -> Any:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.Scope(body, lineno=line)


class _Namespace(Namespace):
    """jinja's namespace without names that begin with an underscore, as transformers has it."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        self, args = args[0], args[1:]
        values = dict(*args, **kwargs)
        for name in values:
            _check_name(name)
        Namespace.__init__(self, values)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        Namespace.__setitem__(self, name, value)


def _check_name(name: Any) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise jinja2.exceptions.SecurityError(f"a name that begins with an underscore: {name!r}")


class _Dict:
    """``dict`` without the attributes of the type."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict(*args, **kwargs)

    def fromkeys(self, *args: Any) -> dict[Any, Any]:
        return dict.fromkeys(*args)


def _raise(message: str) -> None:
    raise jinja2.exceptions.TemplateError(message)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: Any = None,
    separators: Any = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def environment() -> ImmutableSandboxedEnvironment:
    """The environment that transformers 5 renders chat templates in (``chat_template_utils``)."""
    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    made.filters["tojson"] = _tojson
    made.globals |= {
        "raise_exception": _raise,
        "strftime_now": lambda form: datetime.now().strftime(form),
        "dict": _Dict(),
        "namespace": _Namespace,
    }
    return made


def _rendered(pieces: Iterator[str], most: int) -> str:
    """All pieces in one text of at most ``most`` characters. Raises TooLong."""
    kept: list[str] = []
    for piece in pieces:
        most -= len(piece)
        if most < 0:
            raise TooLong
        kept.append(piece)
    return "".join(kept)


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """``{"text": ...}`` for a request, or ``{"refused": words}``, or ``{"limit": which}``."""
    try:
        template = environment().from_string(request["template"])
        return {"text": _rendered(template.generate(request["variables"]), request["most"])}
    except TooLong:
        return {"limit": "size"}
    except MemoryError:
        return {"limit": "memory"}
    except Exception as error:  # whatever a template of the model's makers may raise
        return {"refused": f"{error}" or type(error).__name__}


def _limit(seconds: int, nbytes: int) -> None:
    """Have the system end this process after so much more processor time, and limit its memory."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    spent = math.ceil(used.ru_utime + used.ru_stime)
    limits = {
        resource.RLIMIT_CPU: spent + seconds,
        resource.RLIMIT_AS: nbytes,
        resource.RLIMIT_CORE: 0,  # being ended is no crash to be looked into
    }
    for which, limit in limits.items():
        _, hard = resource.getrlimit(which)
        # macOS knows RLIMIT_AS and refuses it; the limits of time and size are left there.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(which, (limit, hard))


def main() -> None:
    """Answer requests until standard input ends, which it does with the engine."""
    for line in sys.stdin.buffer:
        request = json.loads(line)
        _limit(request["seconds"], request["memory"])
        # Lone surrogates of a hostile template travel as JSON's escapes.
        sys.stdout.buffer.write(json.dumps(answer(request)).encode("ascii") + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
