"""Failures that a backend can be told to have: an error, a bug, a hang, a crash."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from enum import StrEnum

from engine.backends.base import BackendError


class FaultKind(StrEnum):
    """A kind of failure that a script can be told to have."""

    RAISE = "raise"
    """A BackendError, as a backend should."""
    BUG = "bug"
    """Some other exception, as no backend should."""
    HANG = "hang"
    """Nothing, for ever."""
    CRASH = "crash"
    """The whole process ends at once, without a word (exit code 70)."""


@dataclass(frozen=True, slots=True)
class Fault:
    """``kind`` strikes in pass number ``at``, counted from 1; 0 is while opening."""

    kind: FaultKind
    at: int

    def strike(self, count: int) -> None:
        """Fail in this way, if ``count`` is the time."""
        if count != self.at:
            return
        match self.kind:
            case FaultKind.RAISE:
                raise BackendError(f"scripted fault in pass {count}")
            case FaultKind.BUG:
                raise ZeroDivisionError(f"scripted bug in pass {count}")
            case FaultKind.CRASH:
                os._exit(70)
            case FaultKind.HANG:
                while True:
                    time.sleep(3600)
