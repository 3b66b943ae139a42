"""A request for several rows that runs while the rows before them are looked at."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from engine.backends.top_n.completer import Continued, Continuing
from engine.backends.top_n.slots import Slot


class Prefetch:
    """At most one request at a time, in a thread of its own; ``result`` waits for it."""

    def __init__(self, completer: Continuing) -> None:
        self._completer = completer
        self._thread: ThreadPoolExecutor | None = None
        self._future: Future[Continued] | None = None
        self.ids: list[int] = []
        """The text of the request that runs or ran last, ``count`` the rows that it asks for."""
        self.count = 0
        self.slot: Slot | None = None
        """Its place in the cache; None where none runs."""

    def has(self, ids: Sequence[int]) -> bool:
        """True if the request that runs is for the rows behind ``ids``."""
        return self._future is not None and self.ids == list(ids)

    def start(self, ids: Sequence[int], top: int, count: int, slot: Slot) -> None:
        """Ask for up to ``count`` rows behind ``ids``. No other request may run."""
        assert self._future is None, "one at a time"
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "rows-ahead")
        self.ids, self.count, self.slot = list(ids), count, slot
        self._future = self._thread.submit(
            self._completer.continued, self.ids, top, count, slot=slot.number
        )

    def result(self) -> Continued:
        """Wait for the rows of the request that runs. Raises BackendError, as it did."""
        assert self._future is not None, "there is a request"
        future, self._future, self.slot = self._future, None, None
        return future.result()

    def close(self) -> None:
        if self._thread is not None:
            self._thread.shutdown(wait=True)
