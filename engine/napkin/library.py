"""The shapes and machines that ship, and a user's own from a TOML file."""

from __future__ import annotations

import math
import reprlib
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from engine.napkin.shapes import Machine, ModelShape
from engine.plain_files import read_text, reason

NAME = "napkin.toml"
"""The user's own file, in the configuration folder."""
_LARGEST = 1 << 18
_MOST = 200
"""Entries of a kind in one file."""
_NUMBER = (int, float)


class NapkinError(ValueError):
    """A shape, a machine or a file of these that cannot be used; one line says why."""


@dataclass(frozen=True)
class Library:
    """Models and machines by name, in lower case."""

    models: Mapping[str, ModelShape]
    machines: Mapping[str, Machine]

    @classmethod
    def load(cls, own: Path | None = None) -> Library:
        """Load what ships and, where that file exists, what ``own`` adds or replaces.

        Raises NapkinError, which names the file and the entry.
        """
        shipped = _shipped()
        if own is None:
            return shipped
        try:
            text = read_text(own, _LARGEST)
        except (FileNotFoundError, NotADirectoryError):
            return shipped
        except (OSError, ValueError) as error:
            raise NapkinError(f"{own}: {reason(error)}") from None
        try:
            added = _parsed(text)
        except NapkinError as error:
            raise NapkinError(f"{own}: {error}") from None
        return cls({**shipped.models, **added.models}, {**shipped.machines, **added.machines})


@cache
def _shipped() -> Library:
    folder = files("engine.napkin")
    texts = [folder.joinpath(name).read_text("utf-8") for name in ("models.toml", "machines.toml")]
    models, machines = map(_parsed, texts)
    return Library(models.models, machines.machines)


def _parsed(text: str) -> Library:
    """The entries of a file. Raises NapkinError."""
    try:
        data = tomllib.loads(text)
    except RecursionError:
        raise NapkinError("it is nested too deeply") from None
    except ValueError as error:
        raise NapkinError(reason(error)) from None
    unknown = sorted(set(data) - {"models", "machines"})
    if unknown:
        raise NapkinError(f"unknown table {unknown[0]!r:.60}; known: models, machines")
    return Library(
        _entries(data, "models", _model, _MODEL_KEYS),
        _entries(data, "machines", _machine, _MACHINE_KEYS),
    )


# Key -> (kinds of value, least, most); no least: it may be left out.
_MODEL_KEYS: Mapping[str, tuple[Any, float | None, float]] = {
    "parameters": (_NUMBER, 1e-6, 1e6),
    "active": (_NUMBER, None, 1e6),
    "layers": (int, 1, 10_000),
    "width": (int, 1, 10_000_000),
    "query_heads": (int, 1, 100_000),
    "kv_heads": (int, 1, 100_000),
    "head_dim": (int, 1, 100_000),
    "latent": (int, None, 10_000_000),
    "latent_values": (int, None, 10_000_000),
    "bits": (int, None, 64),
    "kv_bits": (int, None, 64),
}
_MACHINE_KEYS: Mapping[str, tuple[Any, float | None, float]] = {
    "bandwidth": (_NUMBER, 1e-3, 1e9),
    "tflops": (_NUMBER, None, 1e9),
    "memory": (_NUMBER, None, 1e9),
}


def _entries(
    data: dict[str, Any],
    kind: str,
    make: Callable[[str, dict[str, Any]], Any],
    keys: Mapping[str, tuple[Any, float | None, float]],
) -> dict[str, Any]:
    table = data.get(kind, {})
    if not isinstance(table, dict) or len(table) > _MOST:
        raise NapkinError(f"{kind} must be a table of at most {_MOST} entries: [{kind}.NAME]")
    found = {}
    for name, entry in table.items():
        try:
            if not isinstance(entry, dict):
                raise NapkinError(f"must be a table: [{kind}.NAME]")
            _check(entry, keys)
            found[name.lower()] = make(name, entry)
        except NapkinError as error:
            raise NapkinError(f"[{kind}.{reprlib.repr(name)[1:-1]}] {error}") from None
    return found


def _check(entry: dict[str, Any], keys: Mapping[str, tuple[Any, float | None, float]]) -> None:
    for name in entry:
        if name not in keys and name != "source":
            raise NapkinError(f"unknown key {name!r:.60}; known: {', '.join(keys)}, source")
    if not isinstance(entry.get("source", ""), str):
        raise NapkinError("source must be a text")
    for name, (kinds, least, most) in keys.items():
        value = entry.get(name)
        if value is None:
            if least is not None:
                raise NapkinError(f"{name} is missing")
            continue
        good = isinstance(value, kinds) and not isinstance(value, bool) and math.isfinite(value)
        # What may be left out may not be 0 either: leave it out.
        if not good or not (least or 1e-9) <= value <= most:
            whole = "a whole number" if kinds is int else "a number"
            raise NapkinError(f"{name} must be {whole} above 0, at most {most:,.0f}")


def _model(name: str, entry: dict[str, Any]) -> ModelShape:
    rest = {key: entry[key] for key in _MODEL_KEYS if key in entry}
    for key in ("parameters", "active"):
        if key in rest:
            rest[key] *= 1e9
    return checked(ModelShape(name=name, **rest, source=entry.get("source", "")))


def _machine(name: str, entry: dict[str, Any]) -> Machine:
    return Machine(
        name,
        entry["bandwidth"] * 1e9,
        entry.get("tflops", 0) * 1e12,
        entry.get("memory", 0) * 1e9,
        entry.get("source", ""),
    )


def checked(shape: ModelShape) -> ModelShape:
    """The shape itself. Raises NapkinError where its parts contradict each other."""
    if shape.kv_heads > shape.query_heads or shape.query_heads % shape.kv_heads:
        raise NapkinError(
            f"{shape.query_heads} query heads cannot share {shape.kv_heads} K/V heads evenly"
        )
    if shape.latent_values > shape.latent:
        raise NapkinError("latent_values must be part of latent")
    if shape.active > shape.parameters:
        raise NapkinError("more parameters are active than there are")
    return shape
