"""The prompt to edit: what is submitted begins a new run, which reads again only what differs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Checkbox, Static, TextArea

from engine.commands import Submit
from engine.records.events import EngineError
from engine.records.prompt import PromptRecord
from engine.text import visible
from inspector.draw.numbers import plural
from inspector.escapes import escaped, needs_escapes, unescaped
from inspector.modal import is_closed
from inspector.screens.dialog import Dialog, buttons
from inspector.state.view import RunLog

_ESCAPES = "some of its characters cannot be typed: they are written like \\x1b, and \\ as \\\\"


class PromptText(TextArea):
    """A text area that never gives the terminal a control character, not even a pasted one."""

    def get_line(self, line_index: int) -> Text:
        line = super().get_line(line_index)
        # One character for one, so that the cursor stays where it is.
        line.plain = "".join(
            shown if len(shown := visible(one, tab="\t")) == 1 else "�" for one in line.plain
        )
        return line


class Switch(Checkbox):
    """A checkbox whose mark is there or not: another colour of it would not do."""

    @property
    def _button(self) -> Content:
        return Content("[x]" if self.value else "[ ]")


class PromptScreen(Dialog[bool]):
    """Closes when the engine has taken the prompt; an error of the engine's is shown here."""

    DEFAULT_CSS = """
    PromptScreen #box { margin: 0 2; width: 1fr; max-width: 120; }
    PromptScreen #text { height: auto; min-height: 3; max-height: 50vh; }
    PromptScreen #system { height: auto; max-height: 5; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "answer", "Read it", id="prompt.submit", tooltip="Begin a new run")
    ]

    def __init__(
        self, log: RunLog, last: Submit, submit: Callable[[Submit], None], *, kept: bool
    ) -> None:
        """``last`` is what was submitted before, also if it was refused; ``kept``: in a file."""
        super().__init__(Content("Prompt"))
        self._log = log
        self._last = last
        self._submit = submit
        self._kept = kept
        self._system = last.system or ""
        self._escaped = needs_escapes(last.text) or needs_escapes(self._system)
        # What the engine had said when the prompt was sent to it; None while it is edited.
        self._before: tuple[PromptRecord | None, EngineError | None] | None = None

    def body(self) -> Iterable[Widget]:
        last, facts = self._last, self._log.facts
        template = facts is None or facts.has_chat_template
        yield PromptText(self._shown(last.text), id="text", compact=True)
        label = "the model's chat template around it" if template else "no chat template"
        yield Switch(Content(label), last.chat, id="chat", disabled=not template, compact=True)
        yield PromptText(
            self._shown(self._system),
            id="system",
            placeholder="system message: empty for the template's own",
            disabled=not last.chat,
            compact=True,
        )
        yield Static(id="said")
        yield buttons("Read it (ctrl+s)")

    def _shown(self, text: str) -> str:
        return escaped(text) if self._escaped else text

    def _written(self, box: str) -> str:
        """Text of a box. Raises ValueError for an escape that is none."""
        text = self.query_one(box, PromptText).text
        return unescaped(text) if self._escaped else text

    def on_mount(self) -> None:
        if is_closed(self):
            return
        area = self.query_one("#text", PromptText)
        area.focus()
        area.move_cursor(area.document.end)
        self._say(self._hint)

    @property
    def _hint(self) -> str:
        count = len(self._log.nodes) - len(self._log.tree.deleted)
        gone = f"a new prompt takes the {plural(count, 'token')} of this tree off the screen"
        gone += "" if self._kept else ", and no file holds them: w, outside, saves them"
        parts = [_ESCAPES] * self._escaped + [gone] * bool(count)
        return "; ".join(parts)

    def _say(self, text: str, style: str = "$title") -> None:
        self.query_one("#said", Static).update(Content.styled(visible(text), style))

    @on(Switch.Changed)
    def _chat(self, message: Switch.Changed) -> None:
        self.query_one("#system", PromptText).disabled = not message.value

    def action_answer(self) -> None:
        self.answer()

    def answer(self) -> None:
        chat = self.query_one(Switch).value
        try:
            wanted, system = self._written("#text"), self._written("#system") if chat else ""
        except ValueError as error:
            self._say(str(error), "$error")
            return
        self._before = self._log.prompt, self._log.error
        self._say("the engine is reading it …")
        self._submit(Submit(wanted, chat=chat, system=system or None))

    def heard(self, log: RunLog) -> None:
        if self._before is None:
            return
        prompt, error = self._before
        if log.prompt is not prompt:
            self.dismiss(True)
        elif log.error is not None and log.error is not error:
            self._before = None
            self._say(log.error.message, "$error")
