"""The plain figures of steps as columns, so that a whole path is summed without reading its steps.

A run of ten thousand steps is drawn and summed at every paint, and a recorded one lies in a file:
neither should cost a loop over records. What is not in the columns is in the records, which a
``StepPath`` gets one by one, when somebody asks for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol, overload, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from engine.records.step import Came, How, StepRecord
from engine.records.vocabulary import Token

Figures = NDArray[np.void]
"""One row a step, of the dtype ``FIGURES``."""

FIGURES = np.dtype(
    [
        ("node", np.int64),
        ("parent", np.int64),
        ("token_id", np.int64),
        ("raw_logprob", np.float64),
        ("entropy_raw", np.float64),
        ("entropy_final", np.float64),
        ("forward_ms", np.float64),
        ("sample_ms", np.float64),
        ("total_ms", np.float64),
        ("kv_bytes", np.float64),  # not a number where it is not known
        ("warmup", np.bool_),
        ("reused", np.bool_),
        ("reread", np.bool_),
        ("forced", np.bool_),
        ("round", np.int64),
        ("came", np.int8),  # place in Came
    ]
)
_FIRST_ROOM = 64
PLACE_OF_CAME = {came: place for place, came in enumerate(Came)}


def row_of(step: StepRecord) -> tuple[Any, ...]:
    """One step's row, in the order of ``FIGURES``."""
    t, nbytes = step.timing, step.kv.nbytes
    return (
        step.node,
        step.parent,
        step.token.id,
        step.raw_logprob,
        step.entropy_raw,
        step.entropy_final,
        t.forward_ms,
        t.sample_ms,
        t.total_ms,
        np.nan if nbytes is None else nbytes,
        t.warmup,
        t.reused,
        t.reread,
        step.draw.how is How.FORCED,
        step.round,
        PLACE_OF_CAME[step.came],
    )


def begins_burst(figures: Figures) -> NDArray[np.bool_]:
    """Mask of steps that do not come out of the same pass as the step before.

    A speculative round is one pass and a burst of tokens, of which the first has its time.
    """
    found: NDArray[np.bool_] = (figures["round"] == 0) | (figures["round"] == figures["node"])
    return found


def steady(figures: Figures) -> NDArray[np.bool_]:
    """Mask of steps that cost what an ordinary decode step costs, as ``StepTiming.steady``."""
    found: NDArray[np.bool_] = ~(figures["warmup"] | figures["reused"] | figures["reread"])
    return found


class StepTable:
    """The figures and tokens of all steps of a run, by node. Grows by ``add_row``."""

    def __init__(self, steps: Iterable[StepRecord] = ()) -> None:
        self._data = np.zeros(_FIRST_ROOM, FIGURES)
        self._tokens: list[Token] = []
        self._row: dict[int, int] = {}
        # The node of row 0 where every row's node is one more than the row's before; else None.
        self._first: int | None = None
        for step in steps:
            self.add_row(step)

    @classmethod
    def of(cls, figures: Figures, tokens: Sequence[Token]) -> StepTable:
        """A table of steps that were read elsewhere: one row and one token each."""
        table = cls()
        table._data = figures.copy()
        table._tokens = list(tokens)
        table._row = {node: row for row, node in enumerate(figures["node"].tolist())}
        table._first = _first_of_run(figures["node"])
        return table

    def __len__(self) -> int:
        return len(self._tokens)

    def add_row(self, step: StepRecord) -> None:
        row = self._row.setdefault(step.node, len(self._tokens))
        if row == len(self._tokens):
            self._tokens.append(step.token)
            first = step.node if row == 0 else self._first
            self._first = first if first == step.node - row else None
        self._tokens[row] = step.token
        if row >= len(self._data):
            # Twice as large, so that a long run is not copied at every step.
            self._data = np.concatenate((self._data, np.zeros_like(self._data)))
        self._data[row] = row_of(step)

    def row(self, node: int) -> int:
        """The row of a node's figures. Raises KeyError."""
        return self._row[node]

    def rows(self, nodes: NDArray[np.int64]) -> NDArray[np.intp]:
        """The rows of several nodes' figures. Raises KeyError for one that has none."""
        if self._first is not None:
            return nodes - self._first
        return np.array([self._row[node] for node in nodes.tolist()], np.intp)

    def figures(self, rows: NDArray[np.intp]) -> Figures:
        """The figures of some rows, which ascend; shape as theirs. Do not change them."""
        if len(rows) and rows[-1] - rows[0] == len(rows) - 1:
            # A run without forks lies in a row: nothing is copied.
            return self._data[rows[0] : rows[-1] + 1]
        found: Figures = self._data[rows]
        return found

    def column(self, name: str, rows: NDArray[np.intp]) -> NDArray[Any]:
        found: NDArray[Any] = self._data[name][rows]
        return found

    def node(self, row: int) -> int:
        return int(self._data["node"][row])

    def token(self, row: int) -> Token:
        return self._tokens[row]


def _first_of_run(nodes: NDArray[np.int64]) -> int | None:
    whole = len(nodes) > 0 and bool((np.diff(nodes) == 1).all())
    return int(nodes[0]) if whole else None


@runtime_checkable
class Tabled(Protocol):
    """Steps that can give their table without being read one by one."""

    def table(self) -> StepTable:
        """A table of all of them, the caller's own."""


def table_of(steps: Mapping[int, StepRecord]) -> StepTable:
    """The table of all ``steps``."""
    return steps.table() if isinstance(steps, Tabled) else StepTable(steps.values())


class StepPath(Sequence[StepRecord]):
    """Steps one after the other, each record got when it is asked for; parts of it are paths too.

    It stays as it is when the run goes on, and costs nothing to make or to cut.
    """

    def __init__(
        self, steps: Mapping[int, StepRecord], table: StepTable, rows: NDArray[np.intp]
    ) -> None:
        """``rows``: where the steps are in ``table``; never changed afterwards."""
        self._steps = steps
        self._table = table
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> StepRecord: ...
    @overload
    def __getitem__(self, index: slice) -> StepPath: ...
    def __getitem__(self, index: int | slice) -> StepRecord | StepPath:
        if isinstance(index, slice):
            return StepPath(self._steps, self._table, self._rows[index])
        return self._steps[self.node(index)]

    def only(self, wanted: NDArray[np.bool_]) -> StepPath:
        """The steps for which ``wanted``, one truth value a step, holds."""
        return StepPath(self._steps, self._table, self._rows[wanted])

    def node(self, index: int) -> int:
        return self._table.node(int(self._rows[index]))

    def token(self, index: int) -> Token:
        """The token of one step."""
        return self._table.token(int(self._rows[index]))

    @property
    def nodes(self) -> list[int]:
        found: list[int] = self._table.column("node", self._rows).tolist()
        return found

    @property
    def token_ids(self) -> list[int]:
        found: list[int] = self._table.column("token_id", self._rows).tolist()
        return found

    @property
    def tokens(self) -> list[Token]:
        return [self._table.token(row) for row in self._rows.tolist()]

    @cached_property
    def figures(self) -> Figures:
        """The figures of all steps, one row each."""
        return self._table.figures(self._rows)


def figures_of(steps: Sequence[StepRecord]) -> Figures:
    """The figures of ``steps``, one row each; a path's records are not read for them."""
    if isinstance(steps, StepPath):
        return steps.figures
    return np.array([row_of(step) for step in steps], FIGURES)
