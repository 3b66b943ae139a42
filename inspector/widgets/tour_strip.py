"""The lines in which the tour speaks, above the footer."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static


class TourStrip(Static):
    """Not there but on the tour."""

    DEFAULT_CSS = """
    TourStrip {
        height: auto; min-height: 3; max-height: 5; padding: 0 1;
        background: $surface; display: none;
    }
    .-small TourStrip { display: none; }
    """

    def tell(self, words: Content) -> None:
        """Show these words."""
        self.display = True
        self.update(words)
