"""Rules by which a key of the app means something now, or is greyed out."""

from __future__ import annotations

from inspector.actions.host import Host
from inspector.actions.recover import Recovery
from inspector.keys import NEEDS_MODEL, OPENING
from inspector.modal import modal_open
from inspector.screens.debugger import DebuggerScreen


class Allowed:
    """Looks at the state of the app; ``played``: a recording is shown, ``toured``: with a guide."""

    def __init__(
        self, host: Host, recovery: Recovery | None, *, played: bool, toured: bool
    ) -> None:
        self._host = host
        self._recovery = recovery
        self._played = played
        self._toured = toured

    def now(self, action: str) -> bool | None:
        """False: the key means nothing now. None: a model is needed, and there is none."""
        there = True
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
            case _ if action not in OPENING:
                return self._possible(action)
        # The dials' keys mean nothing below a window; and while one asks something, another must
        # not open above it.
        return self._possible(action) if there and not modal_open(self._host.app) else False

    def _possible(self, action: str) -> bool | None:
        log, node = self._host.controller.log, self._host.controller.cursor.node
        # What was measured then can be looked at.
        recorded = action == "drift" and node in log.drifts
        return self._host.engine.can_run or action not in NEEDS_MODEL or recorded or None
