"""Rules by which a key of the app means something now, or is greyed out."""

from __future__ import annotations

from inspector.actions.host import Host
from inspector.actions.recover import Recovery
from inspector.actions.replay import Recording
from inspector.keys import ANYWHERE, NEEDS_MODEL, OPENING, USES_FILES
from inspector.modal import modal_open, run_screen_open
from inspector.screens.debugger import DebuggerScreen


class Allowed:
    """Looks at the state of the app; ``recording`` is shown, if any, ``toured``: with a guide."""

    def __init__(
        self,
        host: Host,
        recovery: Recovery | None,
        recording: Recording | None,
        *,
        toured: bool,
    ) -> None:
        self._host = host
        self._recovery = recovery
        self._played = recording is not None
        self._read_only = recording is not None and recording.read_only
        self._toured = toured

    def now(self, action: str) -> bool | None:
        """False: the key means nothing now. None: a model is needed, and there is none."""
        if run_screen_open(self._host.app) and action not in ANYWHERE:
            return False
        there = not (self._read_only and action in USES_FILES)
        match action:
            case "turn":
                there = any(
                    one.dials_open
                    for one in self._host.app.screen_stack
                    if isinstance(one, DebuggerScreen)
                )
            case "apply":
                there = self._host.controller.cursor.what_if is not None
            case "tour":
                there = self._toured
            case "stream":
                there = self._played
            case "interrupted":
                there = self._recovery is not None and bool(self._recovery.runs)
            case _ if there and action not in OPENING:
                return self._possible(action)
        # The dials' keys mean nothing below a window; and while one asks something, another must
        # not open above it.
        return self._possible(action) if there and not modal_open(self._host.app) else False

    def _possible(self, action: str) -> bool | None:
        log, node = self._host.controller.log, self._host.controller.cursor.node
        # What was measured then can be looked at.
        recorded = action == "drift" and node in log.drifts
        return self._host.engine.can_run or action not in NEEDS_MODEL or recorded or None
