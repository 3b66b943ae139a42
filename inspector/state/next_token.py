"""Asks for the distribution behind the cursor: what the next token will be drawn from."""

from __future__ import annotations

from collections.abc import Callable

from engine.commands import Command, Settings, ShowNext
from engine.records.events import RunState
from inspector.state.cursor import Cursor


class NextToken:
    """Asks once for each place, and again where settings or the tree have changed."""

    def __init__(self, cursor: Cursor, send: Callable[[Command], None]) -> None:
        self._cursor = cursor
        self._send = send
        self._asked: tuple[object, ...] = ()
        # The prompt is read for this, and nothing was asked for since.
        self._alone = False

    def ask(self) -> None:
        """Ask, with what is tried, if anything is; for an engine that stands still."""
        log, chain = self._cursor.log, self._cursor.what_if
        tried = None if chain is None else Settings(chain.preset, spec=chain.spec)
        tree = len(log.nodes), len(log.tree.deleted)
        asked = (self._cursor.node, tried, log.settings, *tree)
        if log.prompt is not None and asked != self._asked:
            self._asked, self._alone = asked, True
            self._send(ShowNext(self._cursor.node, tried))

    def forget(self, *, engine: bool = False) -> None:
        """Something else was asked for; or a new ``engine``, which was asked nothing."""
        self._alone = False
        self._asked = () if engine else self._asked

    @property
    def reading(self) -> bool:
        """True while the prompt is read for nothing but this."""
        return self._alone and self._cursor.log.state.state is RunState.PREFILL
