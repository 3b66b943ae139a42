"""One branch from its first token to its end, so that every place on it is found without a walk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from engine.records.step import StepRecord
from engine.records.step_table import StepPath, StepTable

_FIRST_ROOM = 64


class Line:
    """The nodes of one branch in order. It grows at its end; another branch is another line."""

    def __init__(self, steps: Mapping[int, StepRecord], table: StepTable) -> None:
        self.nodes: list[int] = []
        self.index: dict[int, int] = {}
        """Node -> its place, 0 the first token."""
        self._steps, self._table = steps, table
        self._rows = np.zeros(_FIRST_ROOM, np.intp)

    def __len__(self) -> int:
        return len(self.nodes)

    def extend(self, nodes: Iterable[int]) -> None:
        """Go on with these nodes."""
        for node in nodes:
            at = len(self.nodes)
            if at >= len(self._rows):
                self._rows = np.concatenate((self._rows, np.zeros_like(self._rows)))
            self._rows[at] = self._table.row(node)
            self.index[node] = at
            self.nodes.append(node)

    def head(self, length: int) -> Line:
        """A new line of the first ``length`` nodes."""
        line = Line(self._steps, self._table)
        line.nodes = self.nodes[:length]
        line.index = dict(zip(line.nodes, range(length), strict=True))
        line._rows = np.concatenate((self._rows[:length], line._rows))
        return line

    def path(self, start: int, stop: int) -> StepPath:
        """The steps from place ``start`` up to and without place ``stop``."""
        rows: NDArray[np.intp] = self._rows[start:stop]
        return StepPath(self._steps, self._table, rows)
