"""Textual's driver for a terminal, mended in what it leaves behind and how it comes back."""

from __future__ import annotations

from textual.drivers.linux_driver import LinuxDriver

_MOUSE_IN_CELLS = "\x1b[?1016l"


class TerminalDriver(LinuxDriver):
    """Leaves no mode set, and comes back with a whole screen after the process was stopped."""

    def stop_application_mode(self) -> None:
        # On only where a terminal tells its size in band; the next program expects cells.
        self.write(_MOUSE_IN_CELLS)
        super().stop_application_mode()

    def _sigcont_application(self, *args: object) -> None:
        # Stopped from outside (SIGSTOP), it has never left application mode: entering it again
        # would have two threads read the keys.
        if self._must_signal_resume:
            super()._sigcont_application(*args)
        # Somebody else may have drawn on the terminal meanwhile.
        self._app.call_later(self._app.refresh, layout=True)
