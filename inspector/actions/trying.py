"""The dials' keys: a sampler chain that is tried on the cursor's distribution, and applied."""

from __future__ import annotations

from dataclasses import replace

from inspector.actions.host import Host
from inspector.messages import Try
from inspector.state.whatif import configure_for


class Trying:
    """The chain that is tried, and its way into the run."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def take(self, message: Try) -> None:
        controller, debugger = self._host.controller, self._host.debugger
        before = controller.cursor.what_if
        controller.cursor.what_if = message.chain
        message.taken = True
        if (before is None) != (message.chain is None):
            # Not at every turn: the footer makes all its keys anew.
            debugger.refresh_bindings()
        debugger.show_tried(controller.view, self._host.busy_s)

    def apply(self, *, here: bool) -> None:
        """Go on with what is tried for the rest of the run, or from this very token on."""
        host, controller = self._host, self._host.controller
        chain, facts = controller.cursor.what_if, controller.log.facts
        if chain is not None:
            config = facts.generation_config if facts is not None else {}
            settings = configure_for(chain, host.asked.configure, config)
            # A new engine, after a restart, is to go on with them too.
            host.asked = replace(host.asked, configure=settings)
            controller.apply(settings, here=here)
            host.debugger.refresh_bindings()
            host.paint()
