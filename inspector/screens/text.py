"""Lines to read, such as a comparison, with nothing to do but scroll and close."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from inspector.widgets.footer import Footer


class TextScreen(ModalScreen[None]):
    """``lines`` must be safe for a terminal already."""

    DEFAULT_CSS = """
    TextScreen { background: $background; }
    TextScreen #lines {
        border: round $primary; border-title-color: $title-active; border-title-style: bold;
        background: $background; padding: 0 1; scrollbar-size-vertical: 1;
    }
    TextScreen Static { width: auto; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,escape", "close", "Close", id="text.close", tooltip="Back to where you were")
    ]

    def __init__(self, title: str, lines: Iterable[str]) -> None:
        super().__init__()
        self._title = title
        self._lines = list(lines)

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="lines") as box:
            box.border_title = self._title
            yield Static(Content("\n".join(self._lines)))
        yield Footer()

    def on_mount(self) -> None:
        self.query_one("#lines").focus()

    def action_close(self) -> None:
        self.dismiss()
