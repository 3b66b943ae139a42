"""The steps of a long run: the newest as they are, the others packed, out of memory if may be."""

from __future__ import annotations

import contextlib
import os
import pickle
import tempfile
import zlib
from collections import OrderedDict
from collections.abc import Iterator, MutableMapping
from pathlib import Path

from engine.records.step import StepRecord

NEWEST = 512
"""Steps that stay in memory from the time they come."""
_READ_AGAIN = 256
"""Steps that stay in memory from the time they were looked at."""


class HeldSteps(MutableMapping[int, StepRecord]):
    """Steps by node. A record that was looked up twice may be two equal objects.

    The file has no name, belongs to this process alone and is gone with it. Where there is none,
    or the disk is full, the older steps stay in memory, packed.
    """

    def __init__(self, folder: Path | None, newest: int = NEWEST) -> None:
        """``folder``: where the file is made, once there are more than ``newest`` steps.

        None where nothing may be written.
        """
        self._folder = folder
        self._newest = newest
        self._held: OrderedDict[int, StepRecord] = OrderedDict()
        self._read: OrderedDict[int, StepRecord] = OrderedDict()
        # Node -> where in the file its record begins and how many bytes it has; or the record.
        self._places: dict[int, tuple[int, int] | bytes] = {}
        self._end = 0
        self._file: int | None = None

    def __setitem__(self, node: int, step: StepRecord) -> None:
        self._places.pop(node, None)
        self._read.pop(node, None)
        self._held[node] = step
        if len(self._held) > self._newest:
            self._put_away()

    def __getitem__(self, node: int) -> StepRecord:
        step = self._held.get(node) or self._read.get(node)
        if step is None:
            step = self._read[node] = self._unpacked(self._places[node])
            if len(self._read) > _READ_AGAIN:
                self._read.popitem(last=False)
        return step

    def __delitem__(self, node: int) -> None:
        self._read.pop(node, None)
        if self._places.pop(node, None) is None:
            del self._held[node]

    def __contains__(self, node: object) -> bool:
        return node in self._held or node in self._places

    def __iter__(self) -> Iterator[int]:
        yield from self._places
        yield from self._held

    def __len__(self) -> int:
        return len(self._places) + len(self._held)

    def __del__(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.close(self._file)

    def _put_away(self) -> None:
        """Pack the step that came first of those that are not packed yet."""
        node, step = self._held.popitem(last=False)
        data = pickle.dumps(step, pickle.HIGHEST_PROTOCOL)
        place = self._written(data)
        self._places[node] = place or zlib.compress(data, 1)

    def _written(self, data: bytes) -> tuple[int, int] | None:
        """Write ``data`` and return its place in the file; None where it cannot be written."""
        if self._folder is None:
            return None
        try:
            if self._file is None:
                self._file = _nameless(self._folder)
            if os.pwrite(self._file, data, self._end) < len(data):
                return None
        except OSError:
            self._folder = None
            return None
        self._end += len(data)
        return self._end - len(data), len(data)

    def _unpacked(self, place: tuple[int, int] | bytes) -> StepRecord:
        if isinstance(place, bytes):
            data = zlib.decompress(place)
        else:
            assert self._file is not None, "it was written to"
            data = os.pread(self._file, place[1], place[0])
        # This process packed it, and nobody else can write to a file without a name.
        step: StepRecord = pickle.loads(data)
        return step


def _nameless(folder: Path) -> int:
    """A new file that nobody else can open. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder, prefix="llm-inspect-") as file:
        return os.dup(file.fileno())
