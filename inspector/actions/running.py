"""The keys that run and pause: the engine, or a recording that is played."""

from __future__ import annotations

from inspector.actions.budget import Budget
from inspector.actions.host import Host
from inspector.actions.player import Player


class Running:
    """Runs, and stops what runs; ``player``: where a recording is shown."""

    def __init__(self, host: Host, player: Player | None) -> None:
        self._host = host
        self._player = player
        self._budget = Budget(host)

    def go_on(self) -> None:
        """Run until something stops it."""
        if self._player is not None and self._player.play():
            return
        if not self._budget.offer():
            self._host.controller.run()
            self._host.paint()

    def pause_or_run(self) -> None:
        """Pause what runs or is played, or go on."""
        player, controller = self._player, self._host.controller
        if player is None or not player.stop():
            if controller.running or player is None or not player.play():
                controller.toggle()
            self._host.paint()

    def interrupt(self) -> None:
        """Pause what runs: a run, and not the program, is what ctrl+c is pressed for."""
        if self._host.controller.running:
            self._host.controller.pause()
            self._host.say("paused; q quits")
        else:
            self._host.say("nothing runs; q quits")
