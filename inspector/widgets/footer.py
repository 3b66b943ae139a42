"""The last line of a screen: the keys that mean something now, as many as there is room for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from textual.binding import Binding
from textual.content import Content
from textual.events import Click, MouseMove
from textual.screen import Screen
from textual.widget import Widget

from inspector.draw.numbers import cut

PINNED = ("help", "quit", "close")
"""Ids, or ends of ids (``sessions.close``), of the keys at the right end, which are never cut."""

_GAP = "  "
_MORE = "…"


@dataclass(frozen=True, slots=True)
class Shown:
    """One key: what is pressed for it, how it is written, and what it does."""

    key: str
    display: str
    name: str
    tooltip: str = ""
    enabled: bool = True
    pinned: bool = False

    @property
    def cells(self) -> int:
        """Width of the key and its name."""
        return Content(f"{self.display} {self.name}").cell_length


def is_pinned(binding: Binding) -> bool:
    """True if a key leads out of a screen, or to the help."""
    return (binding.id or "").rpartition(".")[2] in PINNED


def arranged(keys: Iterable[Shown], width: int) -> list[tuple[int, Shown]]:
    """The keys that fit into ``width`` cells, each with the cell at which it begins.

    The pinned ones stand at the right end. Of the others those that come last give way first.
    """
    keys = list(keys)
    pinned = [one for one in keys if one.pinned]
    at = width - sum(one.cells for one in pinned) - len(_GAP) * max(0, len(pinned) - 1)
    right = []
    for one in pinned:
        right.append((max(0, at), one))
        at = max(0, at) + one.cells + len(_GAP)
    end = right[0][0] if right else width
    left: list[tuple[int, Shown]] = []
    at = 0
    others = [one for one in keys if not one.pinned]
    for one in others:
        last = len(left) + 1 == len(others)
        if at + one.cells > end - len(_GAP if last else _GAP + _MORE + _GAP):
            break
        left.append((at, one))
        at += one.cells + len(_GAP)
    return left + right


def footer_line(keys: Iterable[Shown], width: int) -> Content:
    """The line of keys; an ellipsis says that there are more of them."""
    keys = list(keys)
    places = arranged(keys, width)
    line = Content("")
    for at, one in places:
        missing = one.pinned and len(places) < len(keys) and _MORE not in line.plain
        more = f"{_GAP if line.plain else ''}{_MORE}"
        if missing and at - line.cell_length > len(more):
            line += Content.styled(more, "$footer-description-foreground")
        line = line.pad_right(max(0, at - line.cell_length))
        name = "$footer-description-foreground"
        # One that means nothing now does not stand out; dimmed as well it could not be read.
        key = "bold $footer-key-foreground" if one.enabled else name
        line += Content.assemble((one.display, key), (f" {one.name}", name))
    return cut(line, width)


class Footer(Widget):
    """The keys of its screen; a click on one presses it."""

    DEFAULT_CSS = """
    Footer {
        dock: bottom; height: 1; width: 1fr; padding: 0 1;
        color: $footer-foreground; background: $footer-background;
    }
    """
    ALLOW_SELECT = False

    def __init__(self) -> None:
        super().__init__()
        self._keys: list[Shown] = []

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._changed)

    def _changed(self, screen: Screen[object]) -> None:
        if not self.is_attached:
            return
        keys = {}
        for active in self.screen.active_bindings.values():
            binding = active.binding
            if binding.show and binding.action not in keys:
                display = self.app.get_key_display(binding)
                name, what = binding.description, active.tooltip or binding.tooltip
                pinned = is_pinned(binding)
                keys[binding.action] = Shown(
                    binding.key, display, name, what, active.enabled, pinned
                )
        if list(keys.values()) != self._keys:
            self._keys = list(keys.values())
            self.refresh()

    def render(self) -> Content:
        return footer_line(self._keys, self.content_size.width)

    def _at(self, x: int) -> Shown | None:
        places = arranged(self._keys, self.content_size.width)
        inside = x - self.styles.padding.left
        return next((one for at, one in places if at <= inside < at + one.cells), None)

    def on_mouse_move(self, event: MouseMove) -> None:
        found = self._at(event.x)
        self.tooltip = Content(found.tooltip) if found is not None and found.tooltip else None

    def on_click(self, event: Click) -> None:
        found = self._at(event.x)
        if found is not None:
            # Of a key that is greyed out the app says why.
            self.app.simulate_key(found.key)
