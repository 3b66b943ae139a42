"""Checked reading of a server's JSON: each value is of the type, and in the range, that it must be.

What is not raises ServerError with the name of the field, so that no answer, however malformed or
hostile, gets further than here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.backends.http.errors import ServerError

MOST_VOCAB = 1 << 21
"""More entries than any model's vocabulary has; ids from there on are an error."""
_MOST_TEXT = 1 << 22
_MANY = 2.0**53


@dataclass(frozen=True, slots=True)
class Fields:
    """An object of an answer; ``where`` names it in errors."""

    values: Mapping[str, Any]
    where: str

    @classmethod
    def of(cls, value: Any, where: str) -> Fields:
        """``value``, which must be an object."""
        if not isinstance(value, dict):
            raise _wrong(where, "is no object")
        return cls(value, where)

    def has(self, name: str) -> bool:
        """True if the field is there and not null."""
        return self.values.get(name) is not None

    def inner(self, name: str) -> Fields:
        """The object ``name``; an empty one where there is none."""
        return Fields.of(self.values.get(name) or {}, f"{self.where}.{name}")

    def objects(self, name: str, most: int) -> list[Fields]:
        """The objects of the list ``name``."""
        where = f"{self.where}.{name}"
        return [Fields.of(one, f"{where}[{at}]") for at, one in enumerate(self.listed(name, most))]

    def indexed(self, name: str, count: int) -> list[Fields]:
        """The ``count`` objects of the list ``name`` by their ``index``, one for each text."""
        found = {one.count("index"): one for one in self.objects(name, count)}
        if found.keys() != set(range(count)):
            raise _wrong(f"{self.where}.{name}", f"is not of {count:,} texts")
        return [found[at] for at in range(count)]

    def listed(self, name: str, most: int) -> Sequence[Any]:
        """The list ``name``, of at most so many items; an empty one where there is none."""
        found = self.values.get(name)
        if found is None:
            return ()
        if not isinstance(found, list) or len(found) > most:
            raise _wrong(f"{self.where}.{name}", f"is no list of at most {most:,}")
        return found

    def ids(self, name: str, most: int) -> tuple[int, ...]:
        """The token ids of the list ``name``."""
        where = f"{self.where}.{name}"
        return tuple(token_id(one, where) for one in self.listed(name, most))

    def text(self, name: str, otherwise: str = "") -> str:
        """The text ``name``."""
        found = self.values.get(name)
        if found is None:
            return otherwise
        if not isinstance(found, str) or len(found) > _MOST_TEXT:
            raise _wrong(f"{self.where}.{name}", "is no text")
        return found

    def number(self, name: str) -> float | None:
        """The finite number ``name``, from 0 up; None where there is none."""
        found = self.values.get(name)
        if found is None:
            return None
        if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found < _MANY:
            raise _wrong(f"{self.where}.{name}", "is no number from 0 up")
        return float(found)

    def count(self, name: str) -> int | None:
        """The whole number ``name``; None where there is none."""
        found = self.number(name)
        return None if found is None else int(found)


def token_id(value: Any, where: str) -> int:
    """``value``, which must be a token's id."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < MOST_VOCAB:
        raise _wrong(where, "holds what is no token id")
    return value


def byte_string(values: Sequence[Any], where: str) -> bytes:
    """Bytes out of the list of their numbers."""
    if not all(type(one) is int and 0 <= one < 256 for one in values):
        raise _wrong(where, "holds what is no byte")
    return bytes(values)


def _wrong(where: str, what: str) -> ServerError:
    return ServerError(f"an answer that cannot be used: {where} {what}")
