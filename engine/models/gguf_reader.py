"""Values off the head of a GGUF file, whose every length and count is checked first."""

from __future__ import annotations

import struct
from collections.abc import Container, Iterable, Sequence
from typing import Any, BinaryIO, overload

import numpy as np

_SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
_STRING, _ARRAY = 8, 9
_LONGEST = 64 << 20  # bytes of one string; a chat template is a few thousand
# Of the largest known models: some 60 pairs, 50,000 tensors of 4 dimensions (an expert each), and
# 1.2 million entries in all lists (tokens, their scores and kinds, merges).
_MOST_PAIRS, _MOST_TENSORS, _MOST_DIMENSIONS, _MOST_ENTRIES = 10_000, 200_000, 8, 10_000_000
_DEEPEST_LIST = 8

TensorInfo = tuple[tuple[int, ...], int, int]
"""Shape, number of the type, and place behind the start of the data."""


class Strings(Sequence[bytes]):
    """Many short strings as one: a vocabulary as single objects is six times as large."""

    def __init__(self, strings: Iterable[bytes]) -> None:
        data, ends = bytearray(), [0]
        for one in strings:
            data += one
            ends.append(len(data))
        self._data, self._ends = bytes(data), np.array(ends, np.int64)

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> list[bytes]: ...
    def __getitem__(self, at: int | slice) -> bytes | list[bytes]:
        if isinstance(at, slice):
            return [self[one] for one in range(*at.indices(len(self)))]
        at = range(len(self))[at]
        return self._data[self._ends[at] : self._ends[at + 1]]


class Reader:
    """Little-endian values off a file, every length checked against its size."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._left = size
        self._entries = _MOST_ENTRIES

    def take(self, count: int) -> bytes:
        if count > self._left:
            raise ValueError("it ends early")
        self._left -= count
        data = self._file.read(count)
        if len(data) != count:
            raise ValueError("it ends early")
        return data

    def skip(self, count: int) -> None:
        if count > self._left:
            raise ValueError("it ends early")
        self._left -= count
        self._file.seek(count, 1)

    def number(self, code: str) -> Any:
        (value,) = struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))
        return value

    def text(self) -> str:
        length = self.number("Q")
        if length > _LONGEST:
            raise ValueError(f"a string of {length} bytes")
        return self.take(length).decode("utf-8", "replace")

    def count(self, what: str, most: int, each: int) -> int:
        """Read a count of things that follow, each of at least ``each`` bytes."""
        count = int(self.number("Q"))
        if count > most or count * each > self._left:
            raise ValueError(f"it speaks of {count:,} {what}")
        return count

    def value(self, kind: int, depth: int = 0, *, keep: bool = False) -> Any:
        """A scalar or a string; an array is passed over and is None.

        With ``keep`` one of scalars is an array of numpy, one of strings a ``Strings``.
        """
        if kind in _SCALARS:
            return self.number(_SCALARS[kind])
        if kind == _STRING:
            return self.text()
        if kind != _ARRAY:
            raise ValueError(f"a value of unknown type {kind}")
        inner = self.number("I")
        count = self.count("entries of a list", self._entries, 1)
        self._entries -= count
        if depth > _DEEPEST_LIST:
            raise ValueError("lists in lists in lists")
        if keep and inner in _SCALARS:
            return np.frombuffer(
                self.take(count * struct.calcsize(_SCALARS[inner])), "<" + _SCALARS[inner]
            )
        if keep and inner == _STRING:
            return Strings(self.take(self.number("Q")) for _ in range(count))
        if inner in _SCALARS:
            self.skip(count * struct.calcsize("<" + _SCALARS[inner]))
        else:
            for _ in range(count):
                if inner == _STRING:
                    self.skip(self.number("Q"))
                else:
                    self.value(inner, depth + 1)
        return None


def read_settings(reader: Reader, keep: Container[str] = ()) -> tuple[dict[str, Any], int]:
    """(settings by key, number of tensors whose list comes next). Lists are None but for ``keep``.

    Raises ValueError for what is no GGUF file.
    """
    if reader.take(4) != b"GGUF":
        raise ValueError("it does not begin with GGUF")
    version = reader.number("I")
    if version not in (2, 3):
        raise ValueError(f"version {version}")
    tensors = reader.count("tensors", _MOST_TENSORS, 24)
    pairs = reader.count("settings", _MOST_PAIRS, 13)
    facts: dict[str, Any] = {}
    for _ in range(pairs):
        key = reader.text()
        if key in facts:  # which of the two counts is for every reader to choose
            raise ValueError(f"{key[:80]} stands in it twice")
        facts[key] = reader.value(reader.number("I"), keep=key in keep)
    return facts, tensors


def read_tensors(reader: Reader, count: int) -> list[TensorInfo]:
    """The list of tensors, which comes behind the settings. Raises ValueError."""
    infos: list[TensorInfo] = []
    for _ in range(count):
        reader.text()
        dimensions = reader.number("I")
        if dimensions > _MOST_DIMENSIONS:
            raise ValueError(f"a tensor of {dimensions:,} dimensions")
        shape = tuple(reader.number("Q") for _ in range(dimensions))
        infos.append((shape, reader.number("I"), reader.number("Q")))
    return infos
