"""The screen of a start without a prompt: write one, or open a recent session or an example."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.events import Key
from textual.message import Message
from textual.screen import Screen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from engine.commands import Submit
from engine.text import visible
from inspector.background import Background
from inspector.draw.cells import left
from inspector.draw.numbers import cut
from inspector.modal import is_closed
from inspector.screens.prompt import PromptText, Switch
from inspector.screens.session_rows import session_row
from inspector.widgets.footer import Footer
from sessions.examples import EXAMPLES, example
from sessions.library import Library
from sessions.preview import Preview

RECENT = 8
"""Sessions that are listed; the browser (o) has all."""

Chosen = Submit | Path


class PromptBox(PromptText):
    """Enter begins the run; ctrl+j, and a paste, bring line breaks into the prompt."""

    class Entered(Message):
        """Enter was pressed."""

    async def _on_key(self, event: Key) -> None:
        if event.key == "enter":
            event.stop()
            event.prevent_default()
            self.post_message(self.Entered())
        elif event.key == "ctrl+j":
            event.stop()
            event.prevent_default()
            self.insert("\n")
        else:
            await super()._on_key(event)


class StartScreen(Screen[Chosen | None]):
    """Answers with the prompt to run or the session to open; None for neither."""

    DEFAULT_CSS = """
    StartScreen { background: $background; overflow: hidden; }
    StartScreen #prompt, StartScreen #list {
        border: round $panel; border-title-color: $title; border-subtitle-color: $title;
        background: $background; padding: 0 1; scrollbar-size-vertical: 1;
    }
    StartScreen #prompt { height: 1fr; min-height: 4; max-height: 12; }
    StartScreen #list { height: 2fr; min-height: 3; }
    StartScreen #prompt:focus, StartScreen #list:focus {
        border: round $primary; border-title-color: $title-active; border-title-style: bold;
        background-tint: $foreground 0%;
    }
    StartScreen Switch { margin: 0 1; background: $background; }
    StartScreen #said { height: 1; padding: 0 2; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "begin", "Begin", id="start.begin", tooltip="Run this prompt"),
        Binding("tab", "app.focus_next", "Next", id="start.next"),
        Binding("escape", "leave", "To the list", id="start.leave", show=False),
        Binding("q", "quit", "Quit", id="start.quit"),
    ]

    @dataclass
    class Found(Message):
        """The newest sessions, from the thread that looked at the files."""

        previews: list[Preview]

    def __init__(self, library: Library, *, chat: bool = False) -> None:
        super().__init__()
        self._library = library
        self._chat = chat
        self._paths: list[Path] = []
        self._looking = Background("start-list")

    def compose(self) -> ComposeResult:
        box = PromptBox(id="prompt", placeholder="The capital of France is")
        box.border_title = "Prompt"
        box.border_subtitle = "enter begins · ctrl+j breaks the line"
        listed = OptionList(id="list")
        listed.border_title = "Or open a recent session, or an example"
        with Vertical():
            yield box
            label = Content("the model's chat template around it")
            yield Switch(label, self._chat, id="chat", compact=True)
            yield listed
            yield Static(id="said")
        yield Footer()

    def on_mount(self) -> None:
        if is_closed(self):
            return
        self.query_one(PromptBox).focus()
        self._list([])
        self._looking.submit(self._look)

    def on_unmount(self) -> None:
        self._looking.close()

    def _look(self) -> None:
        """In a thread: files have to be opened."""
        self.post_message(self.Found(self._library.newest(RECENT)))

    @on(Found)
    def _found(self, message: Found) -> None:
        self._list([one for one in message.previews if not one.error])

    def _list(self, previews: list[Preview]) -> None:
        listed = self.query_one(OptionList)
        width = max(20, self.size.width - 6)
        rows = [self._row(one, width) for one in previews]
        rows += [
            cut(Content(f"   {left(one.title, 28)} {visible(one.prompt)}"), width)
            for one in EXAMPLES.values()
        ]
        self._paths = [*(one.path for one in previews), *map(example, EXAMPLES)]
        listed.clear_options()
        listed.add_options(Option(row) for row in rows)
        listed.highlighted = 0

    def _row(self, one: Preview, width: int) -> Content:
        autosaved = one.path.parent == self._library.autosaves
        when = datetime.fromtimestamp(one.modified).strftime("%d %b")
        row = session_row(one, width - len(when) - 1, marked=False, autosaved=autosaved)
        return row + f" {when}"

    # --- keys -----------------------------------------------------------------------------------

    @on(PromptBox.Entered)
    def action_begin(self) -> None:
        """Answer with the prompt."""
        text, chat = self.query_one(PromptBox).text, self.query_one(Switch).value
        if text or chat:
            self.dismiss(Submit(text, chat=chat))
        else:
            self.query_one("#said", Static).update("write a prompt first, or choose a session")

    @on(OptionList.OptionSelected)
    def _opened(self, message: OptionList.OptionSelected) -> None:
        self.dismiss(self._paths[message.option_index])

    def action_leave(self) -> None:
        """Out of the text, so that q is a key again; and back."""
        inside = isinstance(self.focused, PromptBox)
        self.query_one(OptionList if inside else PromptBox).focus()

    def action_quit(self) -> None:
        self.dismiss(None)
