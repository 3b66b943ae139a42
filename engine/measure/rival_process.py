"""A rival in a process of its own: a script that imports nothing of ours, asked line by line.

It runs in the environment that we were started with. A benchmark without a screen has set nothing
in it for itself.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import IO, Any

LOAD_SECONDS = 600.0
"""Seconds that the model may take to load there."""
TURN_SECONDS = 600.0
"""Seconds that one turn may take."""


class RivalError(RuntimeError):
    """The other process could not do it; one line says why."""


class RivalProcess:
    """A second copy of a model, as it comes: in its own dtype, with its own loop and threads."""

    def __init__(self, name: str, script: str, *arguments: str) -> None:
        """Start ``script`` and have it load its model. Raises RivalError."""
        self._name = name
        self._errors: IO[str] = tempfile.TemporaryFile(  # noqa: SIM115 - closed by close()
            "w+", encoding="utf-8", errors="replace"
        )
        self._process = subprocess.Popen(
            # -P: the folder of the script is no place to import from.
            [sys.executable, "-P", script, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        self.dtype = str(self._answer(LOAD_SECONDS)["dtype"])

    def gaps(self, ids: Sequence[int], tokens: int) -> list[float]:
        """Milliseconds between ``tokens`` greedy tokens behind ``ids``. Raises RivalError."""
        stdin = self._process.stdin
        assert stdin is not None, "it was opened with a pipe"
        try:
            stdin.write((json.dumps({"ids": list(ids), "tokens": tokens}) + "\n").encode())
            stdin.flush()
        except OSError:
            raise self._ended() from None
        return [float(gap) for gap in self._answer(TURN_SECONDS)["gaps"]]

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def _answer(self, seconds: float) -> dict[str, Any]:
        stdout = self._process.stdout
        assert stdout is not None, "it was opened with a pipe"
        ready, _, _ = select.select([stdout], [], [], seconds)
        if not ready:
            self.close()
            raise RivalError(f"{self._name} gave no answer in {seconds:,.0f} s")
        line = stdout.readline()
        if not line:
            raise self._ended()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _ended(self) -> RivalError:
        self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().strip().splitlines()
        self.close()
        return RivalError(f"{self._name} ended: {lines[-1] if lines else 'it says no reason'}")
