"""Sampler specifications in writing: ``temperature=0.8 top_k=40``, ``top_k=40 > temperature=0.8``.

Words are separated by spaces or commas; ``>`` gives the order (after a single stage: of it
alone). A value with spaces, commas or
``>`` in it is quoted: ``"..."`` with JSON's escapes, ``'...'`` as it stands.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from engine.sampling.ladder import Chain
from engine.sampling.presets import DEFAULT_PRESET, PRESETS, Preset
from engine.sampling.stages import DIALS, STAGES, Value, stage_of


class SpecError(ValueError):
    """A sampler specification that cannot be used; one line says what to write instead."""


_TOKEN = re.compile(
    r"""\s*(?:
        (?P<order>>)
      | (?P<name>[A-Za-z_][\w-]*) \s*=\s* (?P<value>"(?:[^"\\]|\\.)*" | '[^']*' | [^\s,>]+)
      | (?P<comma>,)
    )""",
    re.VERBOSE | re.DOTALL,
)


def parse_dials(text: str) -> dict[str, Value]:
    """Dials of a specification without an order, such as ``"temperature=0.8 top_k=40"``."""
    parts = list(_parts(text))
    if len(parts) != 1:
        raise SpecError(f"{text.strip()!r} has an order (>), where only dials are expected")
    return parts[0]


def parse_spec(text: str, preset: str = DEFAULT_PRESET) -> tuple[tuple[str, ...], dict[str, Any]]:
    """(stage order, dials) of a specification.

    ``"temperature=0.8 top_k=40"`` keeps the preset's order; ``"top_k=40 > temperature=0.8"``
    gives its own, and only the stages it names; so does ``"top_k=40 >"``, of one stage. Raises
    SpecError.
    """
    parts = list(_parts(text))
    if len(parts) == 1:
        return preset_of(preset).order, parts[0]
    if not parts[-1]:
        parts.pop()
    order: list[str] = []
    dials: dict[str, Any] = {}
    for number, part in enumerate(parts if parts != [{}] else [], 1):
        names = {DIALS[dial][0] for dial in part}
        if len(names) != 1:
            what = " and ".join(sorted(names)) if names else "nothing"
            raise SpecError(f"part {number} of the order names {what}, not exactly one stage")
        name = names.pop()
        if name in order:
            raise SpecError(f"stage {name} is given twice")
        order.append(name)
        dials.update(part)
    return tuple(order), dials


def has_order(text: str) -> bool:
    """True if a specification gives its own order."""
    return len(list(_parts(text))) > 1


def checked(name: str, value: Value) -> tuple[str, Value]:
    """(proper dial name, value in range). A stage with one dial lends it its name."""
    name = dial_name(name)
    try:
        return name, DIALS[name][1].check(value)
    except ValueError as error:
        raise SpecError(str(error)) from None


def dial_name(name: str) -> str:
    """The dial meant by ``name``; SpecError suggests the nearest one."""
    name = name.replace("-", "_")
    if name not in DIALS and name in STAGES and len(STAGES[name].dials) == 1:
        return str(STAGES[name].dials[0].name)
    if name not in DIALS:
        raise SpecError(_unknown("dial", name, DIALS))
    return name


def preset_of(name: str) -> Preset:
    """The preset called ``name``; SpecError suggests the nearest name."""
    if name not in PRESETS:
        raise SpecError(_unknown("preset", name, PRESETS))
    return PRESETS[name]


def build(order: Sequence[str], values: Mapping[str, Any], preset: str) -> Chain:
    """The chain of the stages in ``order`` with ``values``, by the rules of ``preset``.

    A dial not given has its default, which is off. Raises SpecError for a value out of range.
    """
    rules = preset_of(preset).rules
    for name in order:
        if name not in STAGES:
            raise SpecError(_unknown("stage", name, STAGES))
    try:
        return Chain(tuple(stage_of(name, values, rules.get(name)) for name in order), preset)
    except ValueError as error:
        raise SpecError(str(error)) from None


def _parts(text: str) -> Iterator[dict[str, Value]]:
    """The dials between one ``>`` and the next."""
    dials: dict[str, Value] = {}
    seen: set[str] = set()
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            word = re.split(r"[\s,>]", text[at:].lstrip(), maxsplit=1)[0]
            raise SpecError(f"{word!r} is not a dial: write name=value, such as temperature=0.8")
        at = match.end()
        if match["order"]:
            yield dials
            dials = {}
        elif match["name"]:
            name = dial_name(match["name"])
            if name in seen:
                raise SpecError(f"{name} is given twice")
            seen.add(name)
            dials[name] = _value(name, match["value"])
    yield dials


def _value(name: str, written: str) -> Value:
    try:
        if written.startswith('"') and len(written) > 1:
            written = json.loads(written, strict=False)
        elif written.startswith("'") and written.endswith("'") and len(written) > 1:
            written = written[1:-1]
        return DIALS[name][1].parse(written)
    except ValueError as error:
        raise SpecError(str(error)) from None


def _unknown(what: str, name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), 1, 0.5)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
    return f"unknown {what} {name!r}; {hint}"
