"""The breakpoint list: add by typing, switch on and off, take away; watches live there too."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.suggester import Suggester
from textual.widgets import Input, Static

from engine.conditions.condition import Condition, ConditionError, Unavailable, spell
from engine.conditions.figures import NAMES
from engine.conditions.functions import FUNCTIONS
from engine.text import visible
from inspector.modal import is_closed
from inspector.panes.breakpoints import NamesPane, PointsPane, word_at_end
from inspector.state.breakpoints import BreakpointState, Mark, Watch
from inspector.widgets.footer import Footer
from inspector.widgets.line_view import Pane
from inspector.widgets.one_line import OneLine


class Mode(StrEnum):
    """Purpose of the line that is typed: the title of its box."""

    ADD = "Stop the run where"
    WATCH = "Watch"
    EDIT = "Stop the run where, instead"
    IGNORE = "How many hits to let pass"


class _Names(Suggester):
    """Completes the name that is being typed."""

    def __init__(self) -> None:
        super().__init__(case_sensitive=True)

    async def get_suggestion(self, value: str) -> str | None:
        word = word_at_end(value)
        if not word:
            return None
        names = (*NAMES, *(f"{name}(" for name in FUNCTIONS if name not in NAMES))
        found = next((name for name in names if name.startswith(word) and name != word), None)
        return None if found is None else value + found.removeprefix(word)


class BreakpointsScreen(ModalScreen[None]):
    """``changed`` is called after every change; ``cursor`` says where the user looks."""

    DEFAULT_CSS = """
    BreakpointsScreen { align: center middle; }
    BreakpointsScreen #box { width: 1fr; max-width: 110; height: 1fr; }
    BreakpointsScreen PointsPane { height: auto; min-height: 7; max-height: 40%; }
    BreakpointsScreen Input {
        height: 3; border: round $border-blurred; background: $background;
        border-title-color: $title; border-subtitle-color: $title;
    }
    BreakpointsScreen Input:focus {
        border: round $primary; border-title-color: $title-active; background-tint: $foreground 0%;
    }
    BreakpointsScreen #said { height: 1; padding: 0 2; }
    BreakpointsScreen NamesPane { height: 1fr; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "type('ADD')", "Add", id="breakpoints.add"),
        Binding("w", "type('WATCH')", "Watch", id="breakpoints.watch"),
        Binding("e", "type('EDIT')", "Change", id="breakpoints.change"),
        Binding("i", "type('IGNORE')", "Let pass", id="breakpoints.ignore"),
        Binding("space", "switch", "On/off", id="breakpoints.switch"),
        Binding("d,delete", "delete", "Delete", id="breakpoints.delete"),
        Binding("q,B,escape", "leave", "Close", id="breakpoints.close"),
    ]

    def __init__(
        self, breakpoints: BreakpointState, cursor: Callable[[], int], changed: Callable[[], None]
    ) -> None:
        super().__init__()
        self._breakpoints = breakpoints
        self._cursor = cursor
        self._changed = changed
        self._mode = Mode.ADD

    def compose(self) -> ComposeResult:
        with Vertical(id="box"):
            yield PointsPane(id="points")
            yield OneLine(id="expression", suggester=_Names(), select_on_focus=False)
            yield Static(id="said")
            yield NamesPane(id="names")
        yield Footer()

    def on_mount(self) -> None:
        if is_closed(self):
            return
        self.show()
        # Who opens an empty list wants to type; who opens a full one may want to look.
        if self._breakpoints.points or self._breakpoints.watches:
            self._turn_to(Mode.ADD)
            self.set_focus(self.query_one(PointsPane))
        else:
            self.action_type(Mode.ADD.name)

    def show(self) -> None:
        if not self.query(PointsPane):
            return  # it is about to be composed
        node = self._cursor()
        pane = self.query_one(PointsPane)
        pane.look(self._breakpoints.watched(node))
        self.query_one(NamesPane).look(word_at_end(self._typed), self._breakpoints.moment(node))

    @property
    def _typed(self) -> str:
        return self.query_one(Input).value

    # --- keys -----------------------------------------------------------------------------------

    def action_type(self, mode: str) -> None:
        wanted, chosen = Mode[mode], self.query_one(PointsPane).chosen
        if wanted is Mode.IGNORE and not isinstance(chosen, Mark):
            return
        if wanted is Mode.EDIT and chosen is None:
            return
        self._turn_to(wanted)
        line = self.query_one(Input)
        match chosen if wanted is Mode.EDIT else None:
            case Mark(point=point):
                line.value = point.text
            case Watch(text=text):
                line.value = text
            case None:
                line.value = ""
        self.set_focus(line)

    def _turn_to(self, mode: Mode) -> None:
        self._mode = mode
        line = self.query_one(Input)
        line.border_title = mode.value
        line.border_subtitle = "enter takes it, or leaves an empty line · → completes"

    def action_switch(self) -> None:
        chosen = self.query_one(PointsPane).chosen
        if isinstance(chosen, Mark):
            self._breakpoints.points.change(chosen.point.number, enabled=not chosen.point.enabled)
            self._done()

    def action_delete(self) -> None:
        match self.query_one(PointsPane).chosen:
            case Mark(point=point):
                self._breakpoints.points.delete(point.number)
            case Watch(text=text):
                self._breakpoints.unwatch(text)
            case None:
                return
        self._done()

    def action_leave(self) -> None:
        """Out of the line; out of the screen where that has been left already."""
        if isinstance(self.focused, Input):
            self.set_focus(self.query_one(PointsPane))
        else:
            self.dismiss()

    @on(Pane.Chosen)
    def _chosen(self, message: Pane.Chosen) -> None:
        message.stop()
        if isinstance(message.pane, PointsPane):
            self.action_type(Mode.EDIT.name)

    # --- typing ---------------------------------------------------------------------------------

    @on(Input.Changed)
    def _typing(self, message: Input.Changed) -> None:
        moment = self._breakpoints.moment(self._cursor())
        self.query_one(NamesPane).look(word_at_end(message.value), moment)
        self._say("")
        if self._mode is Mode.IGNORE or not message.value.strip():
            return
        try:
            condition = Condition(message.value)
            if moment is not None:
                self._say(f"here: {spell(condition.value(moment))}")
        except ConditionError as error:
            self._say(str(error), "$foreground-muted")
        except Unavailable as reason:
            self._say(f"here: cannot be told ({reason})", "$warning")

    @on(Input.Submitted)
    def _submitted(self, message: Input.Submitted) -> None:
        text = message.value.strip()
        try:
            if text:
                self._carry_out(text)
        except ValueError as error:
            self._say(str(error), "$error")
            if isinstance(error, ConditionError) and error.column:
                spaces = len(message.value) - len(message.value.lstrip())
                message.input.cursor_position = spaces + error.column - 1
            return
        message.input.value = ""
        self._turn_to(Mode.ADD)
        self.set_focus(self.query_one(PointsPane))
        self._done()

    def _carry_out(self, text: str) -> None:
        chosen = self.query_one(PointsPane).chosen
        match self._mode, chosen:
            case Mode.WATCH, _:
                self._breakpoints.watch(text)
            case Mode.IGNORE, Mark(point=point):
                if not text.isdecimal():
                    raise ValueError(f"a whole number of hits, not {text!r}")
                self._breakpoints.points.change(point.number, ignore=int(text))
            case Mode.EDIT, Mark(point=point):
                self._breakpoints.points.change(point.number, text=text)
            case Mode.EDIT, Watch(text=old):
                self._breakpoints.watch(text, instead_of=old)
            case _:
                self._breakpoints.points.add(text)

    def _say(self, text: str, style: str = "") -> None:
        self.query_one("#said", Static).update(Content.styled(visible(text), style))

    def _done(self) -> None:
        self._changed()
        self.show()
