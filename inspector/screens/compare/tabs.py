"""The line between the columns and the panes below them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widgets import Static


@dataclass(frozen=True, slots=True)
class Shown:
    """Columns in sight, the first from 1 on, of how many; and the dice."""

    first: int
    seen: int
    count: int
    same_dice: bool


class PaneTabs(Static):
    """Says what is in sight; names the panes below where they share one place."""

    class Opened(Message):
        """A click on a name."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._places: dict[str, range] = {}
        self._line = Content("")

    def show(self, shown: Shown, names: Mapping[str, str], opened: str) -> None:
        """``names``: the panes to choose from, by id; none where all are on screen."""
        parts: list[tuple[str, str]] = []
        if shown.seen < shown.count:
            last = shown.first + shown.seen - 1
            parts.append((f"columns {shown.first}–{last} of {shown.count} (h l)  ", "bold"))
        dice = "the same dice" if shown.same_dice else "different dice"
        parts.append((f"{dice}  ", "$title"))
        self._places.clear()
        for name, title in names.items():
            start = sum(len(text) for text, _ in parts)
            parts.append((f" {title} ", "bold reverse" if name == opened else "$cut"))
            self._places[name] = range(start, start + len(title) + 2)
        line = Content.assemble(*parts)
        if not line.is_same(self._line):
            self._line = line
            # Its place stays as it is: a layout would paint the whole screen.
            self.update(line, layout=False)

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        for name, place in self._places.items():
            if offset is not None and offset.x in place:
                self.post_message(self.Opened(name))
