"""Speculative rounds that are read from a session file when somebody looks at them."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping

import numpy as np

from engine.records.arrays import IntArray
from engine.records.round import RoundRecord
from sessions.file.format import SessionError
from sessions.file.guard import Guarded
from sessions.rows import codec
from sessions.rows.levels import RowsError

KIND = RoundRecord.__name__
_LARGEST = 256 << 10
"""Bytes of a round; one of ours takes some hundreds."""


class RoundMap(MutableMapping[int, RoundRecord]):
    """All rounds of a file by the node of their first token, each read when asked for.

    Rounds set later (a run that goes on) live in memory, in front of the file's.
    """

    def __init__(self, file: Guarded, nodes: IntArray) -> None:
        """``nodes``: those of all steps, ascending. Raises SessionError for too many rounds."""
        self._file = file
        self._known: dict[int, RoundRecord] = {}
        with file.reading() as database:
            query = "SELECT id, after_node, length(body) FROM event WHERE kind = ? ORDER BY id"
            rows = database.execute(query, (KIND,)).fetchmany(len(nodes) + 1)
            if len(rows) > len(nodes) or any(size > _LARGEST for _, _, size in rows):
                raise SessionError(f"{file.path} holds more of its rounds than any run")
            # A round is written right before its first token.
            after = np.array([row[1] for row in rows], np.int64)
            first = np.searchsorted(nodes, after, side="right").tolist()
        self._ids = {
            int(nodes[at]): row[0] for at, row in zip(first, rows, strict=True) if at < len(nodes)
        }

    def __getitem__(self, node: int) -> RoundRecord:
        """The round. Raises KeyError where there is none, and SessionError."""
        known = self._known.get(node)
        if known is None:
            key = self._ids[node]
            with self._file.reading() as database:
                query = "SELECT body FROM event WHERE id = ?"
                (body,) = database.execute(query, (key,)).fetchone()
                known = codec.loads(RoundRecord, body)
                if known.node != node:
                    raise RowsError(f"a round of node {known.node} stands before node {node}")
            self._known[node] = known
        return known

    def __contains__(self, node: object) -> bool:
        return node in self._known or node in self._ids

    def __setitem__(self, node: int, record: RoundRecord) -> None:
        self._known[node] = record

    def __delitem__(self, node: int) -> None:
        raise TypeError("what is in a session file stays there")

    def __iter__(self) -> Iterator[int]:
        return iter(self._ids | self._known)

    def __len__(self) -> int:
        return len(self._ids | self._known)
