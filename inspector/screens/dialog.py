"""Small windows that ask one thing: a list of choices, or a line to type."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, TypeVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Button, Input, OptionList, Static
from textual.widgets.option_list import Option

from engine.text import visible
from inspector.modal import is_closed
from inspector.state.view import RunLog
from inspector.widgets.one_line import OneLine

Answer = TypeVar("Answer")


def buttons(ok: str) -> Horizontal:
    """The two buttons below: what they do, keys do too."""
    return Horizontal(
        Button(ok, id="ok", compact=True, variant="primary"),
        Button("Cancel", id="cancel", compact=True),
        id="buttons",
    )


class Dialog(ModalScreen[Answer | None]):
    """A box in the middle of the screen. Closed without an answer, it answers None."""

    DEFAULT_CSS = """
    Dialog { align: center middle; }
    Dialog #box {
        width: 84; max-width: 100%; height: auto; max-height: 100%;
        border: round $primary; border-title-color: $title-active; border-title-style: bold;
        background: $background; padding: 0 1; scrollbar-size-vertical: 1;
    }
    Dialog OptionList { height: auto; max-height: 12; padding: 0; background: $background; }
    Dialog #said { height: auto; }
    Dialog #buttons { height: 1; margin-top: 1; }
    Dialog Button { margin-right: 2; min-width: 8; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "Close", id="dialog.close", tooltip="Change nothing")
    ]

    def __init__(self, title: Content) -> None:
        super().__init__()
        self._title = title

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="box", can_focus=False) as box:
            box.border_title = self._title
            yield from self.body()

    def body(self) -> Iterable[Widget]:
        raise NotImplementedError

    def heard(self, log: RunLog) -> None:
        """Records have come: perhaps what the dialog waits for."""

    def answer(self) -> None:
        """The button that agrees was pressed."""

    @on(Button.Pressed, "#ok")
    def _ok(self) -> None:
        self.answer()

    @on(Button.Pressed, "#cancel")
    def _cancel(self) -> None:
        self.action_close()

    def action_close(self) -> None:
        self.dismiss(None)


class Menu(Dialog[str]):
    """Choices, each with a key of its own. Subclasses bind the keys to ``choose('name')``."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "close", "Close", id="menu.close", tooltip="Change nothing")
    ]

    def __init__(self, title: Content, details: dict[str, Content] | None = None) -> None:
        """``details`` says more about a choice, by its name."""
        super().__init__(title)
        self._details = details or {}

    def body(self) -> Iterable[Widget]:
        yield OptionList(*self._options(), id="choices", compact=True)

    def _options(self) -> Iterable[Option]:
        bindings = [active.binding for active in self.active_bindings.values()]
        mine = [one for one in bindings if one.action.startswith("choose(")]
        for binding in (*mine, *(one for one in bindings if one.id == "menu.close")):
            key = self.app.get_key_display(binding)
            name = binding.action.removeprefix("choose('").removesuffix("')")
            more = self._details.get(name, Content(""))
            line = Content.assemble((f" {key:<3}", "bold"), binding.description)
            yield Option(line + (Content("  ") + more if more else more), id=name)

    @on(OptionList.OptionSelected)
    async def _selected(self, message: OptionList.OptionSelected) -> None:
        name = message.option_id
        if name == "close":
            self.action_close()
        elif name is not None:
            self.action_choose(name)

    def action_choose(self, name: str) -> None:
        self.dismiss(name)


class Ask(Dialog[Answer]):
    """A line to type. Subclasses say what it means; enter or the button answers with that."""

    OK: ClassVar[str] = "OK"

    def __init__(self, title: Content, value: str = "", hint: str = "") -> None:
        super().__init__(title)
        self._value = value
        self._hint = hint

    def understand(self, text: str) -> Answer:
        """Parse the typed text. Raises ValueError, which says what is possible."""
        raise NotImplementedError

    def remark(self, answer: Answer) -> Content:
        """The effect of the answer, said while it is typed."""
        return Content("")

    def body(self) -> Iterable[Widget]:
        # Control characters could only be pasted; they would reach the terminal.
        yield OneLine(self._value, id="line", restrict=r"[^\x00-\x1f\x7f-\x9f]*", compact=True)
        yield Static(id="said")
        yield buttons(self.OK)

    def on_mount(self) -> None:
        if is_closed(self):
            return
        self.query_one(Input).focus()
        self.hint()

    @property
    def typed(self) -> str:
        return self.query_one(Input).value

    def say(self, what: Content) -> None:
        self.query_one("#said", Static).update(what)

    def hint(self) -> None:
        """Say what can be typed."""
        self.say(Content.styled(self._hint, "$title"))

    def refuse(self, reason: object) -> None:
        """Say why what was typed cannot be."""
        self.say(Content.styled(visible(str(reason)), "$error"))

    @on(Input.Changed)
    def _changed(self, message: Input.Changed) -> None:
        self.changed(message.value)

    def changed(self, text: str) -> None:
        if not text.strip():
            self.hint()
            return
        try:
            self.say(self.remark(self.understand(text)))
        except ValueError as error:
            self.refuse(error)

    @on(Input.Submitted)
    def _submitted(self) -> None:
        self.answer()

    def answer(self) -> None:
        """Close with what was typed, or say why that cannot be."""
        try:
            self.dismiss(self.understand(self.typed))
        except ValueError as error:
            self.refuse(error)
