"""The dials' keys: a sampler chain that is tried on the cursor's distribution; the drafts."""

from __future__ import annotations

from dataclasses import replace

from engine.records.events import SettingsChanged
from engine.records.round import DraftSettings
from inspector.actions.host import Host
from inspector.messages import Try
from inspector.state.whatif import configure_for


class Trying:
    """The chain that is tried, and its way into the run."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._told: SettingsChanged | None = None

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
            # The drafts stay as they are, even if others are on their way.
            controller.apply(replace(settings, draft=None), here=here)
            host.debugger.refresh_bindings()
            host.paint()

    def draft(self, settings: DraftSettings) -> None:
        """Draft so from the next round on, once the engine has what it takes."""
        self._host.engine.send(replace(self._host.asked.configure, draft=settings))

    def records_came(self) -> None:
        """A new engine, after a restart, is to draft as this one says that it does."""
        told, host = self._host.controller.log.settings, self._host
        if told is not None and told is not self._told:
            self._told = told
            host.asked = replace(
                host.asked, configure=replace(host.asked.configure, draft=told.draft)
            )
