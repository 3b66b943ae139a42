"""The debugger screen: all panes where there is room, two at a time where there is not."""

from __future__ import annotations

from itertools import accumulate
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Footer, Static

from inspector.keys import pane_binding
from inspector.messages import Force
from inspector.panes.base import Pane
from inspector.panes.ladder import LadderPane
from inspector.panes.registry import PANES
from inspector.panes.status import StatusLine
from inspector.view import RunLog, View

WIDE = (120, 36)
"""From this size on, columns by rows, all panes are on screen at once."""
USABLE = (40, 12)
"""Below this size there is only a message."""


TRANSCRIPT = PANES[0][0]


def visible_panes(*, wide: bool, opened: str, zoomed: str | None) -> set[str]:
    """The panes on screen: the zoomed one, or all, or the transcript and the one opened below."""
    if zoomed:
        return {zoomed}
    return {name for name, _ in PANES} if wide else {TRANSCRIPT, opened}


class TabStrip(Static):
    """In the compact layout: which panes there are, and which one is open below."""

    LABELS = tuple(f" {number} {pane.NAME} " for number, (_, pane) in enumerate(PANES, start=1))

    def show(self, active: str) -> None:
        styles = ["bold reverse" if name == active else "$cut" for name, _ in PANES]
        labels = [Content.styled(*pair) for pair in zip(self.LABELS, styles, strict=True)]
        self.update(Content("").join(labels))

    async def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        ends = accumulate(len(label) for label in self.LABELS)
        if offset is not None:
            number = 1 + sum(offset.x >= end for end in ends)
            await self.run_action(f"screen.focus_pane({number})")


class DebuggerScreen(Screen[None]):
    """All panes of one run."""

    AUTO_FOCUS = "#ladder"
    BINDINGS: ClassVar[list[BindingType]] = [
        pane_binding(number, pane.NAME) for number, (_, pane) in enumerate(PANES, start=1)
    ]
    HELP = """
One press of **n** runs one forward pass of the model and shows what it did. **b** goes back:
nothing is computed and nothing is lost.

The sign behind a figure says where it comes from: **•** measured, **ƒ** derived from measured
figures, **~** estimated. A dash (—) means that it cannot be known, or not yet.
"""

    def __init__(self) -> None:
        super().__init__()
        self._view = View(RunLog())
        self._open = "ladder"
        self._zoomed: str | None = None

    def compose(self) -> ComposeResult:
        yield StatusLine(id="status")
        with Container(id="body"):
            for number, (name, pane) in enumerate(PANES, start=1):
                yield pane(id=name, number=number)
                if name == TRANSCRIPT:
                    yield TabStrip(id="tabs")
        yield Static(id="too-small")
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        self._lay_out()

    # --- layout -----------------------------------------------------------------------------------

    def on_resize(self, event: events.Resize) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        width, height = self.size
        small = width < USABLE[0] or height < USABLE[1]
        self.set_class(small, "-small")
        wide = width >= WIDE[0] and height >= WIDE[1]
        self.set_class(wide, "-wide")
        if small:
            wanted = f"{USABLE[0]}x{USABLE[1]}"
            self.query_one("#too-small", Static).update(
                Content(f"{width}x{height} is too small: llm-inspect needs {wanted}")
            )
        shown = visible_panes(wide=wide, opened=self._open, zoomed=self._zoomed)
        for name, _ in PANES:
            self.query_one(f"#{name}").display = name in shown
        self.set_class(len(shown) == 1, "-zoomed")
        self.query_one(TabStrip).show(self._open)
        # A pane that was hidden has an old picture, or none.
        self.call_after_refresh(self._show_panes)

    @on(events.DescendantFocus)
    def _focused(self, event: events.DescendantFocus) -> None:
        if isinstance(event.widget, Pane) and event.widget.id:
            self._turn_to(event.widget.id)

    def action_focus_pane(self, number: int) -> None:
        """Give the pane with this digit the focus, and room where it has none."""
        if 1 <= number <= len(PANES):
            name = PANES[number - 1][0]
            self._turn_to(name)
            self.query_one(f"#{name}").focus()

    def _turn_to(self, name: str) -> None:
        """Make room for a pane: below the transcript, or alone where one is zoomed."""
        if name != TRANSCRIPT:
            self._open = name
        if self._zoomed:
            self._zoomed = name
        self._lay_out()

    def action_zoom(self) -> None:
        """The focused pane alone, or all again."""
        focused = self.focused
        name = focused.id if isinstance(focused, Pane) else self._open
        self._zoomed = None if self._zoomed else name
        self._lay_out()

    # --- showing ----------------------------------------------------------------------------------

    def show(self, view: View, busy_s: float | None) -> None:
        """Draw this view on every pane that can be seen."""
        self._view = view
        with self.app.batch_update():
            self.tick(view, busy_s)
            self._show_panes()

    def tick(self, view: View, busy_s: float | None) -> None:
        """Only the status line: a pass is taking long."""
        self.query_one(StatusLine).show(view, busy_s)

    def _show_panes(self) -> None:
        for pane in self.query(Pane):
            if pane.display and pane.size.area:
                pane.show(self._view)

    @on(Pane.Chosen)
    def _chosen(self, message: Pane.Chosen) -> None:
        if isinstance(message.pane, LadderPane):
            token_id = message.pane.token_id_of(message.row)
            if token_id is not None:
                self.post_message(Force(token_id))
