"""Times of painting: at once for a key, a few times a second for records that come fast."""

from __future__ import annotations

import time
from collections.abc import Callable

from textual.timer import Timer

from engine.records.events import RunState
from inspector.state.controller import Controller

# Records may come faster than anyone can read; keys are painted at once all the same.
_FRAME_S = 1 / 8
# Where the cursor stays behind, new tokens change little of what is on screen.
_PARKED_FRAME_S = 1 / 2
# Columns are drawn all at once, which takes as long as a frame of all panes.
_COLUMNS_FRAME_S = 1 / 4


class Painter:
    """Calls ``draw`` when it is time; ``set_timer`` is the app's clock."""

    def __init__(
        self,
        controller: Controller,
        draw: Callable[[], None],
        set_timer: Callable[[float, Callable[[], None]], Timer],
        columns: Callable[[], bool] = lambda: False,
    ) -> None:
        """``columns``: True while they are on screen."""
        self._controller = controller
        self._draw = draw
        self._set_timer = set_timer
        self._columns = columns
        self._next: Timer | None = None
        self._last = 0.0
        self._pass_began = time.monotonic()

    def paint(self) -> None:
        """Draw now."""
        if self._next is not None:
            # A key was quicker; and its timer, left alone, would come besides the next one.
            self._next.stop()
            self._next = None
        self._last = time.monotonic()
        self._draw()

    def records_came(self, before: RunState) -> None:
        """Draw once it is time for another frame; ``before`` is the engine's state till now."""
        controller = self._controller
        if controller.log.state.state != before or controller.busy:
            self._pass_began = time.monotonic()
        frame = _FRAME_S if controller.cursor.at_tip else _PARKED_FRAME_S
        frame = _COLUMNS_FRAME_S if self._columns() else frame
        wait = self._last + frame - time.monotonic()
        # An engine that stands still has answered something that a user waits for.
        if wait <= 0 or not controller.busy:
            self.paint()
        elif self._next is None:
            self._next = self._set_timer(wait, self.paint)

    @property
    def pass_s(self) -> float | None:
        """Seconds since the engine last gave a sign of life during a pass; None when idle."""
        if not self._controller.busy or self._controller.log.state.state is RunState.DEAD:
            return None
        return time.monotonic() - self._pass_began
