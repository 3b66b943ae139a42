"""The interface of an engine's client, be there an engine behind it or a recording."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from engine.commands import Command
from engine.records.events import Record


class Client(Protocol):
    """See ``engine.process.EngineClient``."""

    notify: Callable[[], None]

    @property
    def can_run(self) -> bool:
        """True if there is a model behind it, and not only what was recorded."""

    def send(self, command: Command) -> None: ...
    def take(self, timeout: float | None = 0.0) -> list[Record]: ...
    def kill(self) -> None: ...
    def close(self, grace: float = 1.0) -> None: ...
