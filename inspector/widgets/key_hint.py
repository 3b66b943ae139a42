"""One line before the first token: the five keys to begin with."""

from __future__ import annotations

from collections.abc import Mapping

from textual.content import Content
from textual.widget import Widget

from inspector.draw.numbers import cut
from inspector.state.view import View

FIRST = (
    ("step", "next"),
    ("continue", "run"),
    ("dials", "what if"),
    ("pane.choose", "force"),
    ("help", "help"),
)
"""Ids of the keys, and what they do in a word."""


def hint_line(keys: Mapping[str, str], width: int) -> Content:
    """The line. ``keys``: those that there are now, by id."""
    parts = [
        Content.assemble((keys[name], "bold $footer-key-foreground"), f" {word}")
        for name, word in FIRST
        if name in keys
    ]
    return cut(Content(" · ").join(parts), width)


class KeyHint(Widget):
    """The line; there from the end of loading to the first token."""

    DEFAULT_CSS = """
    KeyHint { height: 1; padding: 0 1; background: $surface; }
    .-small KeyHint { display: none; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.display = False

    def show(self, view: View) -> None:
        wanted = view.facts is not None and not view.log.nodes
        if wanted is not self.display:
            self.display = wanted

    def render(self) -> Content:
        keys: dict[str, str] = {}
        for active in self.screen.active_bindings.values():
            # Its sign is no word to a newcomer.
            enter = active.binding.key == "enter"
            shown = "enter" if enter else self.app.get_key_display(active.binding)
            keys.setdefault(active.binding.id or "", shown)
        return hint_line(keys, self.content_size.width)
