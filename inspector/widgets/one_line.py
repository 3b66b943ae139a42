"""A box for one line of text that says so when several are pasted."""

from __future__ import annotations

from textual.events import Paste
from textual.widgets import Input


class OneLine(Input):
    """Textual's Input, which keeps the first line of a paste; this one does not do so silently."""

    def on_paste(self, event: Paste) -> None:
        # Input's own handler, which takes the first line, comes after this one.
        self._tell(event.text.splitlines())

    def action_paste(self) -> None:
        lines = self.app.clipboard.splitlines()
        self.replace(lines[0] if lines else "", *self.selection)
        self._tell(lines)

    def _tell(self, lines: list[str]) -> None:
        if len(lines) > 1:
            self.notify(
                f"{len(lines)} lines were pasted: this box holds one, the first was kept",
                severity="warning",
                markup=False,
            )
