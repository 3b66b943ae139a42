"""Rows that come ahead: the engine goes on by itself while a run takes the likeliest tokens.

A request has a cost of its own beside the pass. Where a run is greedy, what it asks for next is
known, so that one request may bring several rows; they are given out one by one as they are asked
for. Another token than the likeliest, and what is left of them is dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.backends.top_n.completer import Continued
from engine.records.engine import EngineTimes
from engine.records.partial import TopLogprobs

_AFTER = 3
"""Likeliest tokens in a row after which it is believed that another follows."""
_SURE = 8
"""Likeliest tokens in a row after which rows are fetched before the last of them is taken."""
MOST = 16
"""Rows of one request: an eighth of a second of a small model, so that a pause is soon."""


@dataclass(frozen=True, eq=False)
class Foreseen:
    """One row; ``shifted_ms`` as in ``ForwardPass``."""

    top: TopLogprobs
    times: EngineTimes
    shifted_ms: float = 0.0


class ReadAhead:
    """Rows behind ``text`` and each token after it that the engine took."""

    def __init__(self) -> None:
        self._text: list[int] = []
        self._expected: int | None = None
        self._rows: deque[tuple[Foreseen, int]] = deque()
        self._streak = 0

    def take(self, ids: Sequence[int]) -> Foreseen | None:
        """The row behind ``ids`` where it came ahead."""
        if not self._rows or not self._follows(ids):
            return None
        row, taken = self._rows.popleft()
        self._step(ids, taken)
        return row

    def worth(self, ids: Sequence[int]) -> int:
        """Number of rows that the request for the one behind ``ids`` should bring."""
        if not self._follows(ids):
            return 1
        return min(MOST, 2 ** max(0, self._streak + 1 - _AFTER))

    @property
    def sure(self) -> bool:
        """True if so many likeliest tokens were taken that another request may run ahead."""
        return self._streak >= _SURE

    def start(self, ids: Sequence[int], likeliest: int) -> None:
        """Note that the row behind ``ids`` was asked for by itself."""
        self._step(ids, likeliest)
        self._rows.clear()

    def put(self, ids: Sequence[int], found: Continued, took_ms: float) -> Foreseen:
        """Keep the rows of a request, and return the first; each has its share of the time."""
        share = took_ms / len(found.answers)
        rows = [
            Foreseen(answer.top, _shared(answer.times, at), share if at else share - took_ms)
            for at, answer in enumerate(found.answers)
        ]
        first, *later = zip(rows, found.taken, strict=True)
        self.start(ids, first[1])
        self._rows.extend(later)
        return first[0]

    def clear(self) -> None:
        self._text, self._expected, self._streak = [], None, 0
        self._rows.clear()

    def _follows(self, ids: Sequence[int]) -> bool:
        text = self._text
        return (
            bool(text)
            and len(ids) == len(text) + 1
            and ids[-1] == self._expected
            and (list(ids[:-1]) == text)
        )

    def _step(self, ids: Sequence[int], taken: int) -> None:
        self._streak = self._streak + 1 if self._follows(ids) else 0
        self._text, self._expected = list(ids), taken


def _shared(times: EngineTimes, at: int) -> EngineTimes:
    return replace(times, requests=0, ahead=True) if at else times
