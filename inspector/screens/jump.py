"""A letter on every pane: pressing it gives the pane the focus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.events import Click, Key
from textual.geometry import Offset
from textual.screen import ModalScreen
from textual.widgets import Static

from inspector.keys import shown


def letters(names: Iterable[str]) -> dict[str, str]:
    """A letter for each name: the first of its own that nobody has; ``q`` closes the window."""
    found: dict[str, str] = {}
    for name in names:
        free = (one for one in name.lower() + "abcdefghijklmnoprstuvwxyz" if one.isalpha())
        found[name] = next((one for one in free if one not in found.values() and one != "q"), "")
    return found


class JumpScreen(ModalScreen[str | None]):
    """Answers the id of a pane. ``places``: where a pane's letter stands; others are listed."""

    DEFAULT_CSS = """
    JumpScreen .letter { position: absolute; width: 3; height: 1; text-style: bold reverse; }
    JumpScreen #others {
        dock: bottom; height: auto; padding: 0 1; background: $surface; color: $foreground;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        shown("q,escape", "leave", "Close", "jump.close", "Stay where you are")
    ]

    def __init__(self, titles: Mapping[str, str], places: Mapping[str, Offset]) -> None:
        """``titles``: every pane's name by its id."""
        super().__init__()
        self._titles, self._places = titles, places
        self._letters = letters(titles)

    def compose(self) -> ComposeResult:
        for name, at in self._places.items():
            label = Static(Content(f" {self._letters[name]} "), id=name, classes="letter")
            label.styles.offset = at
            yield label
        others = [name for name in self._titles if name not in self._places]
        listed = [
            Content.assemble((self._letters[name], "bold"), f"\u00a0{self._titles[name]}")
            for name in others
        ]
        yield Static(Content("   ").join(listed), id="others")

    def on_key(self, event: Key) -> None:
        for name, letter in self._letters.items():
            if letter and event.character == letter:
                event.stop()
                self.dismiss(name)
                return

    def on_click(self, event: Click) -> None:
        at = event.widget.id if event.widget is not None else None
        self.dismiss(at if at in self._places else None)

    def action_leave(self) -> None:
        self.dismiss(None)
