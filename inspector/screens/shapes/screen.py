"""The screen of the ready requests: what each one's time and bill go into, while they are run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Static

from inspector.modal import is_closed
from inspector.screens.shapes.lines import lines, progress
from inspector.state.shapes.carry_out import Answered, Carried
from inspector.widgets.footer import Footer
from inspector.widgets.lines import Lines

Begin = Callable[[Callable[[Carried], object]], Callable[[], None]]
"""Begins the requests, and tells how far they have come, in a thread of its own; gives what ends
them."""


class Came(Message):
    """The requests have come further. Of several the newest is enough."""

    def __init__(self, carried: Carried) -> None:
        super().__init__()
        self.carried = carried

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, Came)


# Asked for its height before it is drawn.
@lru_cache(maxsize=2)
def _drawn(carried: Carried, width: int, common: bool) -> list[Content]:
    return list(lines(carried, width, common=common))


class ShapesScreen(ModalScreen[Carried]):
    """Answers with what was carried out until it was closed, which ends the rest."""

    DEFAULT_CSS = """
    ShapesScreen { background: $background; }
    ShapesScreen #now { height: 1; padding: 0 1; }
    ShapesScreen #lines { background: $background; padding: 0 1; scrollbar-size-vertical: 1; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "t",
            "scale",
            "Scale",
            id="shapes.scale",
            tooltip="Bars on one scale, or each of them as long as the screen is wide",
        ),
        *(
            Binding(
                str(number),
                f"open({number})",
                "Open its run" if number == 1 else f"Open run {number}",
                show=number == 1,
                key_display="1–5" if number == 1 else None,
                id=f"shapes.open-{number}",
                tooltip=f"The run of request {number} in the debugger; it is kept as a session",
            )
            for number in range(1, 6)
        ),
        Binding(
            "q,escape",
            "close",
            "Close",
            id="shapes.close",
            tooltip="End what still runs; on the command line the table is printed",
        ),
    ]

    def __init__(self, begin: Begin, *, opens: bool = False) -> None:
        """``opens``: who has the answer can open the run of a request."""
        super().__init__()
        self._opens = opens
        self.carried = Carried((), now="starting the engine")
        self._begin = begin
        self._end: Callable[[], None] = lambda: None
        self._common = True

    def compose(self) -> ComposeResult:
        yield Static(id="now")
        with VerticalScroll(id="lines"):
            yield Lines(lambda width: _drawn(self.carried, width, self._common))
        yield Footer()

    def on_mount(self) -> None:
        if not is_closed(self):
            self.query_one("#lines").focus()
            self._end = self._begin(lambda carried: self.post_message(Came(carried)))

    def on_unmount(self) -> None:
        self._end()

    def on_came(self, message: Came) -> None:
        self.carried = message.carried
        self.refresh_bindings()
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def action_scale(self) -> None:
        self._common = not self._common
        self._draw()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """False: the key means nothing here. None: there is no such run yet."""
        if action == "open":
            return (self._run(parameters[0]) is not None or None) if self._opens else False
        return super().check_action(action, parameters)

    def _run(self, number: object) -> Answered | None:
        """The answered request of a number, in the order of the lines."""
        done = self.carried.done
        one = done[number - 1] if isinstance(number, int) and number <= len(done) else None
        return one if isinstance(one, Answered) else None

    def action_open(self, number: int) -> None:
        self.dismiss(replace(self.carried, opened=self._run(number)))

    def action_close(self) -> None:
        self.dismiss(self.carried)

    def _draw(self) -> None:
        if self.is_mounted:
            now: Content = progress(self.carried, max(0, self.size.width - 2))
            self.query_one("#now", Static).update(now)
            self.query_one(Lines).refresh(layout=True)
