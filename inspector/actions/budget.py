"""The key for going on where the token budget is used up: the second press adds as much again."""

from __future__ import annotations

from dataclasses import replace

from inspector.actions.host import Host
from inspector.draw.numbers import plural


class Budget:
    """Says that more tokens can be had, and asks the engine for them when the key comes again."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._told_at: int | None = None

    def offer(self) -> bool:
        """Tell of it, or raise the budget; False where no budget stopped the run."""
        host, controller = self._host, self._host.controller
        if not controller.at_budget or not host.engine.can_run:
            return False
        node, used = controller.cursor.node, len(controller.view.path)
        configure = host.asked.configure
        more = configure.max_tokens or used
        if self._told_at != node:
            self._told_at = node
            host.say(f"the budget of {plural(used, 'token')} is used up: c again adds {more:,}")
            return True
        self._told_at = None
        # A new engine, after a restart, is to have the budget too.
        host.asked = replace(host.asked, configure=replace(configure, max_tokens=used + more))
        controller.go_beyond(replace(host.asked.configure, draft=None))
        host.paint()
        return True
