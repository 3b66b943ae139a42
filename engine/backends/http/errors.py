"""The error of a server that does not do what it was asked."""

from __future__ import annotations

from engine.backends.base import BackendError
from engine.text import visible


class ServerError(BackendError):
    """The server did not do what it was asked; one line says what happened, all of it visible.

    ``status`` is that of its answer, None where there was none.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(visible(message))
        self.status = status
