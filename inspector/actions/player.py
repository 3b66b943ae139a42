"""Plays a recording at its own tempo, or some times as fast, on the screen's clock."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from textual.timer import Timer

from engine.records.events import RunState, StateChanged
from inspector.actions.host import Host
from inspector.state.comparison import Comparison
from inspector.state.replay_client import RECORDING, Tempo
from sessions.reader import Session

# Textual's timers divide by their length.
_SHORTEST_WAIT_S = 0.001


@dataclass(frozen=True)
class Playing:
    """Tempo of a replay: ``speed`` times its own; None: at once, like a debugger."""

    speed: float | None = None
    streaming: bool = True
    """True if tokens are shown as they come; else all together, when the last one would come."""


class Player:
    """Moves the cursor along a recorded branch as its tokens came, or those of columns."""

    def __init__(self, host: Host, session: Session, playing: Playing) -> None:
        self._host = host
        self._session = session
        self._playing = playing
        self._began = 0.0
        self._timer: Timer | None = None
        self.tempo: Tempo | None = None
        """Times at which the next tokens come, while it plays."""
        self._columns: Comparison | None = None

    @property
    def wanted(self) -> bool:
        """True if the recording is to be played."""
        return bool(self._playing.speed)

    def play(self, columns: Comparison | None = None) -> bool:
        """Play what follows the cursor, or those of all ``columns``.

        False where nothing does, or no tempo is wanted.
        """
        speed, controller = self._playing.speed, self._host.controller
        views = [controller.view] if columns is None else [one.view for one in columns.columns]
        ahead = [(one.branch, one.cursor) for one in views if one.ahead]
        if speed is None or not ahead:
            return False
        self.stop()
        streaming, passes = self._playing.streaming, controller.log.passes
        self.tempo = Tempo(self._session, ahead, speed, streaming=streaming, passes=passes)
        self._columns = columns
        if columns is not None:
            columns.played = True
        self._began = time.monotonic()
        self._go_on()
        return True

    def stop(self) -> bool:
        """Stand still where the cursor is; False where nothing is played."""
        if self._timer is not None:
            self._timer.stop()
        if self.tempo is None:
            return False
        self.tempo = self._timer = None
        if self._columns is not None:
            self._columns.played = False
        self._host.controller.take([StateChanged(RunState.PAUSED, RECORDING)])
        self._host.paint()
        return True

    def stream(self) -> None:
        """Tokens as they come, or the whole text with its last token; also while it plays."""
        say = self._host.say
        if self._playing.speed is None:
            say("this recording is not played: --speed 1 plays it at its own tempo", warn=True)
            return
        self._playing = replace(self._playing, streaming=not self._playing.streaming)
        streaming, left = self._playing.streaming, "c plays it"
        if self.tempo is not None:
            self.tempo.streaming = streaming
            left = f"in {self.tempo.left_s(self._elapsed_s):,.1f} s"
            self._go_on()
        if streaming:
            say(f"streaming: tokens as they came, the last one when it came ({left})")
        else:
            say(f"not streaming: the whole text, when its last token came ({left})")

    @property
    def _elapsed_s(self) -> float:
        return time.monotonic() - self._began

    def _go_on(self) -> None:
        """Say how it is played, and wait for what comes next."""
        how = "streaming" if self._playing.streaming else "not streaming"
        reason = f"replayed {self._playing.speed:g}x, {how}"
        self._host.controller.take([StateChanged(RunState.RUNNING, reason)])
        self._wait()
        self._host.paint()

    def _wait(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        if self.tempo is not None:
            wait = max(self.tempo.wait_s(self._elapsed_s), _SHORTEST_WAIT_S)
            self._timer = self._host.set_timer(wait, self._arrive)

    def _arrive(self) -> None:
        tempo, controller = self.tempo, self._host.controller
        if tempo is None:
            return
        for node in tempo.arrived(self._elapsed_s):
            if self._columns is not None:
                self._columns.follow(node)
            else:
                controller.cursor.node = node
            if controller.breakpoints.reached(node):
                self.stop()
                return
        if tempo:
            self._wait()
            self._host.paint()
        else:
            self.stop()
