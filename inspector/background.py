"""Work that may take a while and that nobody waits for: one daemon thread, the newest job only."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Background:
    """Carries out jobs one at a time; of those that wait, all but the newest are dropped."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._ready = threading.Condition()
        self._job: Callable[[], None] | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self.idle = threading.Event()
        """Set while there is nothing to do; tests wait for it."""
        self.idle.set()

    def submit(self, job: Callable[[], None]) -> None:
        """Have ``job`` done, unless a newer one comes before its turn."""
        with self._ready:
            if self._closed:
                return
            self.idle.clear()
            self._job = job
            if self._thread is None:
                # A daemon: quitting does not wait for it, and neither does a crash.
                self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                self._thread.start()
            self._ready.notify()

    def close(self) -> None:
        """Take no more jobs; the thread ends after the one it is at."""
        with self._ready:
            self._closed, self._job = True, None
            self._ready.notify()

    def _work(self) -> None:
        while True:
            with self._ready:
                while self._job is None:
                    self.idle.set()
                    if self._closed:
                        return
                    self._ready.wait()
                job, self._job = self._job, None
            try:
                job()
            except BaseException:
                # Told as any thread's error is; the next job gets a new thread.
                with self._ready:
                    self._thread = None
                    self.idle.set()
                raise
