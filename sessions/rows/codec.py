"""Records as JSON and back, guided by their type hints.

Written for files that nobody vouches for: what comes back is built only from the types that the
records declare, never from names found in the file. Fields that this version does not know are
passed over, and missing ones take their defaults, so that a small addition to a record needs no
new schema. Numbers that JSON cannot hold, bytes and arrays are tagged objects.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import json
import math
import types
import typing
from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeVar, Union

import numpy as np

from engine.records.partial import Interval

_FLOAT, _BYTES, _ARRAY, _PAIRS = "$float", "$bytes", "$array", "$pairs"
_INTERVAL = "$interval"
_TAGS = {_FLOAT, _BYTES, _ARRAY, _PAIRS, _INTERVAL}
_ARRAY_KINDS = "biuf"
_LARGEST_INT = (1 << 128) - 1
"""A seed; all that is counted is far below."""
_LONGEST_MS = 1e12
_PRIMITIVES: dict[Any, tuple[type, ...]] = {
    **{kind: (kind,) for kind in (int, str, bool, bytes, Interval)},
    float: (int, float, Interval),
}

Built = TypeVar("Built")


class CodecError(ValueError):
    """A value that does not fit the type it should have."""


def dumps(value: Any) -> str:
    """``value`` (a record, or what records hold) as JSON text; ASCII, no NaN, no infinity."""
    return json.dumps(to_plain(value), allow_nan=False, separators=(",", ":"))


def loads(hint: Any, text: str) -> Any:
    """The value of type ``hint`` that ``text`` holds. Raises CodecError."""
    try:
        return from_plain(hint, json.loads(text))
    except CodecError:
        raise
    except (ValueError, RecursionError, TypeError, OverflowError) as error:
        raise CodecError(f"not the JSON of a {_name(hint)}: {error}") from None


def to_plain(value: Any) -> Any:
    """``value`` as dicts, lists, strings, numbers, booleans and None."""
    match value:
        case Enum():
            return to_plain(value.value)
        case None | bool() | str():
            return value
        case np.generic():
            return to_plain(value.item())
        case int():
            return value
        case Interval():
            return {_INTERVAL: [to_plain(value.low), to_plain(value.high)]}
        case float():
            return value if math.isfinite(value) else {_FLOAT: repr(value)}
        case bytes():
            return {_BYTES: value.hex()}
        case np.ndarray():
            data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
            return {_ARRAY: data, "dtype": value.dtype.str, "shape": list(value.shape)}
        case Mapping():
            if all(isinstance(key, str) for key in value) and not _TAGS & set(value):
                return {key: to_plain(item) for key, item in value.items()}
            return {_PAIRS: [[to_plain(key), to_plain(item)] for key, item in value.items()]}
        case list() | tuple() | set() | frozenset():
            return [to_plain(item) for item in value]
    if dataclasses.is_dataclass(value):
        return fields_of(value)
    raise TypeError(f"a {type(value).__name__} cannot be kept in a session")


def fields_of(record: Any) -> dict[str, Any]:
    """The fields of a dataclass instance, each made plain."""
    return {
        field.name: to_plain(getattr(record, field.name)) for field in dataclasses.fields(record)
    }


def from_plain(hint: Any, value: Any) -> Any:
    """The value of type ``hint`` that the plain ``value`` stands for. Raises CodecError."""
    if hint is Any or hint is object:
        return _untyped(value)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is np.ndarray:
        return _array(value)
    if origin in (Union, types.UnionType):
        return _one_of(arguments, value)
    if origin in (tuple, list):
        return _sequence(origin, arguments, value)
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(arguments, value)
    if hint is type(None):
        if value is not None:
            raise CodecError(f"null expected, not {_shown(value)}")
        return None
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _member(hint, value)
    if dataclasses.is_dataclass(hint):
        return build(typing.cast(type[Any], hint), value)
    if hint in _PRIMITIVES:
        return _primitive(hint, value)
    raise CodecError(f"no rule for {_name(hint)}")


def build(cls: type[Built], value: Any, **known: Any) -> Built:
    """An instance of the dataclass ``cls`` from the plain object ``value``.

    ``known`` gives fields that come from elsewhere; an interval in ``value`` goes before its
    middle there. Raises CodecError.
    """
    if not isinstance(value, dict):
        raise CodecError(f"{cls.__name__}: an object expected, not {_shown(value)}")
    if not value and _required_fields(typing.cast(Any, cls)) <= known.keys():
        return cls(**known)
    hints = hints_of(typing.cast(Any, cls))
    arguments = dict(known)
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        if field.name in known and not _is_interval(value.get(field.name)):
            continue
        if field.name in value:
            found = from_plain(hints[field.name], value[field.name])
            if field.name == "ms" or field.name.endswith("_ms"):
                _require_times(field.name, found)
            arguments[field.name] = found
        elif _required(field):
            raise CodecError(f"{cls.__name__}: {field.name} is missing")
    return cls(**arguments)


@functools.cache
def hints_of(cls: Any) -> dict[str, Any]:
    """The resolved type of every field of a dataclass."""
    # Without the class's own names: a field may be called like a type (``Token.bytes``).
    return typing.get_type_hints(cls, localns={})


@functools.cache
def _required_fields(cls: Any) -> frozenset[str]:
    return frozenset(one.name for one in dataclasses.fields(cls) if _required(one))


def _require_times(name: str, found: Any) -> None:
    """Raise CodecError unless these are durations in milliseconds, or none at all."""
    for one in found if isinstance(found, tuple) else (found,):
        if one is not None and not 0.0 <= one <= _LONGEST_MS:
            raise CodecError(f"{name}: {_shown(one)} is no time")


def _required(field: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return field.default is missing and field.default_factory is missing


def _primitive(hint: type[Any], value: Any) -> Any:
    if isinstance(value, dict):
        value = _untyped(value)
    if type(value) not in _PRIMITIVES[hint]:
        raise CodecError(f"{_name(hint)} expected, not {_shown(value)}")
    if type(value) is int and abs(value) > _LARGEST_INT:
        raise CodecError("a whole number of more than 128 bits")
    return float(value) if hint is float and type(value) is int else value


def _one_of(hints: tuple[Any, ...], value: Any) -> Any:
    """The first alternative that fits; exact primitives first, so that 1 stays an int."""
    exact = [hint for hint in hints if hint is type(value)]
    for hint in (*exact, *hints):
        try:
            return from_plain(hint, value)
        except CodecError:
            continue
    raise CodecError(f"{_shown(value)} is none of {', '.join(_name(hint) for hint in hints)}")


def _sequence(origin: type[Any], hints: tuple[Any, ...], value: Any) -> Any:
    if not isinstance(value, list):
        raise CodecError(f"a list expected, not {_shown(value)}")
    if origin is tuple and not (len(hints) == 2 and hints[1] is Ellipsis):
        if len(hints) != len(value):
            raise CodecError(f"{len(hints)} values expected, not {len(value)}")
        return tuple(from_plain(hint, item) for hint, item in zip(hints, value, strict=True))
    return origin(from_plain(hints[0], item) for item in value)


def _mapping(hints: tuple[Any, ...], value: Any) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise CodecError(f"an object expected, not {_shown(value)}")
    pairs = value[_PAIRS] if set(value) == {_PAIRS} else list(value.items())
    if not isinstance(pairs, list):
        raise CodecError("a list of pairs expected")
    found = {}
    for pair in pairs:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise CodecError("a pair expected")
        key, item = pair
        found[from_plain(hints[0], key)] = from_plain(hints[1], item)
    return found


def _member(hint: type[Enum], value: Any) -> Enum:
    try:
        return hint(value)
    except (ValueError, TypeError):
        raise CodecError(f"{_shown(value)} is no {hint.__name__}") from None


def _untyped(value: Any) -> Any:
    """A value whose type nobody declared: plain JSON, with the tagged objects resolved."""
    if isinstance(value, list):
        return [_untyped(item) for item in value]
    if not isinstance(value, dict):
        return value
    tag = next(iter(_TAGS & set(value)), None)
    match tag:
        case "$float":
            return _special_float(value[_FLOAT])
        case "$bytes":
            return _hex(value[_BYTES])
        case "$array":
            return _array(value)
        case "$interval":
            return _interval(value[_INTERVAL])
        case "$pairs":
            return _mapping((Any, Any), value)
    return {key: _untyped(item) for key, item in value.items()}


def _special_float(text: Any) -> float:
    if text not in ("nan", "inf", "-inf"):
        raise CodecError(f"{_shown(text)} is no number")
    return float(text)


def _is_interval(value: Any) -> bool:
    return isinstance(value, dict) and _INTERVAL in value


def _interval(value: Any) -> Interval:
    low, high = from_plain(tuple[float | int, float | int], value)
    if not low <= high:
        raise CodecError(f"{_shown(value)} is no interval")
    return Interval(low, high)


def _hex(text: Any) -> bytes:
    try:
        return bytes.fromhex(text)
    except (ValueError, TypeError):
        raise CodecError(f"{_shown(text)} is no hex") from None


def _array(value: Any) -> Any:
    try:
        dtype = np.dtype(str(value["dtype"]))
        if dtype.kind not in _ARRAY_KINDS:
            raise CodecError(f"an array of {_shown(value['dtype'])} is not read")
        data = base64.b64decode(value[_ARRAY], validate=True)
        return np.frombuffer(data, dtype).reshape(value["shape"])
    except CodecError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise CodecError(f"not an array: {error}") from None


def _name(hint: Any) -> str:
    return getattr(hint, "__name__", str(hint))


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:39]}…"
