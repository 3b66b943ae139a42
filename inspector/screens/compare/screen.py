"""The compare screen: columns side by side, and below them the focused one's ladder and figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from engine.text import visible
from inspector.messages import GoTo
from inspector.modal import RunScreen
from inspector.panes.ladder.pane import LadderPane
from inspector.screens.compare.ask import AskColumn, Wanted
from inspector.screens.compare.column import ColumnPane
from inspector.screens.compare.keys import KEYS
from inspector.screens.compare.shown import column_ui, pair, sweep_points, table_rows
from inspector.screens.compare.sweep import PlotsPane, swept
from inspector.screens.compare.table import FigureCache, FiguresPane
from inspector.screens.compare.tabs import PaneTabs, Shown
from inspector.screens.compare.why import WhyPane
from inspector.screens.debugger import USABLE, WIDE
from inspector.state.columns import LETTERS, MOST
from inspector.state.comparison import Comparison
from inspector.state.view import View
from inspector.widgets.footer import Footer
from inspector.widgets.line_view import Pane
from inspector.widgets.status import StatusLine

COLUMN_WIDTH = 38
"""Cells that a column has at least, where there is more than one."""
LADDER, WHY, FIGURES, PLOTS = "compare-ladder", "compare-why", "compare-figures", "compare-plots"
BELOW = {LADDER: "Ladder", WHY: "Why", FIGURES: "Figures", PLOTS: "Plots"}


class CompareScreen(RunScreen[None]):
    """Columns in lockstep. Answers once the user goes back to the debugger."""

    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [*KEYS]
    DEFAULT_CSS = """
    CompareScreen #columns { height: 1fr; }
    CompareScreen ColumnPane { width: 1fr; }
    CompareScreen #below { height: 1fr; }
    CompareScreen #beside { width: 1fr; }
    CompareScreen #below Pane { width: 1fr; }
    CompareScreen #compare-tabs { height: 1; padding: 0 1; }
    /* Panes cover them; what they paint would be thrown away. */
    CompareScreen #columns, CompareScreen #below, CompareScreen #beside { visibility: hidden; }
    CompareScreen Pane { visibility: visible; }
    """

    def __init__(
        self,
        comparison: Comparison,
        *,
        changed: Callable[[], None],
        as_text: Callable[[], None],
        can_run: Callable[[], bool],
        play: Callable[[], bool],
        stand: Callable[[], bool],
    ) -> None:
        """``changed`` has the app draw; ``as_text`` shows the two columns as one text.

        ``play`` begins to play a recording, and ``stand`` stops that; False: there is nothing to.
        """
        super().__init__()
        self.comparison = comparison
        self._changed = changed
        self._as_text = as_text
        self._can_run = can_run
        self._play, self._stand = play, stand
        self._opened = LADDER
        self._third = FIGURES
        self._zoomed = ""
        self._aligned = False
        self._first_shown = 0
        self._figures = FigureCache()
        # At hand: looking for them takes a part of the time that a key has.
        self._status, self._tabs = StatusLine(id="status"), PaneTabs(id="compare-tabs")
        self._columns = [ColumnPane(letter, place) for place, letter in enumerate(LETTERS)]
        self._ladder, self._why = LadderPane(id=LADDER), WhyPane(id=WHY)
        self._table, self._plots = FiguresPane(id=FIGURES), PlotsPane(id=PLOTS)
        third = (self._why, self._table, self._plots)
        beside = Vertical(*third, id="beside")
        self._boxes: dict[Widget, Sequence[Pane]] = {
            Horizontal(*self._columns, id="columns"): self._columns,
            Horizontal(self._ladder, beside, id="below"): (self._ladder, *third),
            beside: third,
        }
        """Each with the panes in it: it has a place where one of them has."""

    def compose(self) -> ComposeResult:
        columns, below, _ = self._boxes
        yield from (self._status, columns, self._tabs, below)
        yield Static(id="too-small")
        yield Footer()

    def on_mount(self) -> None:
        self._lay_out()
        self._focus_column()

    # --- layout -------------------------------------------------------------------------------

    def on_resize(self, event: events.Resize) -> None:
        self._lay_out()

    @property
    def _wide(self) -> bool:
        return self.size.width >= WIDE[0] and self.size.height >= WIDE[1]

    @property
    def _below(self) -> list[str]:
        """Panes below the columns that there is something for."""
        return [name for name in BELOW if name != PLOTS or self._plotted]

    def _lay_out(self) -> None:
        small = self.size.width < USABLE[0] or self.size.height < USABLE[1]
        self.set_class(small, "-small")
        if small:
            wanted = f"{self.size.width}x{self.size.height} is too small: llm-inspect needs "
            wanted += f"{USABLE[0]}x{USABLE[1]}"
            self.query_one("#too-small", Static).update(Content(wanted))
        shown = self._on_screen()
        for box, panes in self._boxes.items():
            for pane in panes:
                _display(pane, pane.id in shown)
            _display(box, not small and any(pane.display for pane in panes))
        _display(self._tabs, not (small or self._zoomed))
        self._show_tabs()
        # Not ``show``: the next frame is due only some time after this one.
        self._changed()

    def _on_screen(self) -> set[str]:
        """Ids of the panes that are to be seen."""
        if self._zoomed:
            return {self._zoomed}
        room = max(1, self.size.width // COLUMN_WIDTH)
        count, focused = len(self.comparison.columns), self.comparison.focused
        room = min(room, count)
        first = min(max(self._first_shown, focused - room + 1), focused, count - room)
        self._first_shown = max(0, first)
        columns = {f"column-{self._first_shown + at}" for at in range(room)}
        if not self._wide:
            return columns | {self._opened}
        third = self._opened if self._opened in (FIGURES, PLOTS) else self._third
        self._third = third
        return columns | {LADDER, WHY, third}

    def _show_tabs(self) -> None:
        seen = sum(pane.display for pane in self._columns)
        count = len(self.comparison.columns)
        shown = Shown(self._first_shown + 1, seen, count, self.comparison.same_dice)
        names = {} if self._wide else {name: BELOW[name] for name in self._below}
        self._tabs.show(shown, names, self._opened)

    @on(PaneTabs.Opened)
    def _tab_clicked(self, message: PaneTabs.Opened) -> None:
        self._open(message.name)

    # --- showing ------------------------------------------------------------------------------

    def show(self, busy_s: float | None) -> None:
        """Draw the columns as they are now on every pane that can be seen."""
        if not (self.is_mounted and self._ladder.is_attached):
            return
        view = self.comparison.column.view
        with self.app.batch_update():
            self._status.show(view, busy_s)
            for pane, one in zip(self._columns, self.comparison.columns, strict=False):
                if pane.display:
                    ui = column_ui(self.comparison, one, aligned=self._aligned)
                    pane.show_column(one.view, ui)
            self._show_below(view)

    def _show_below(self, view: View) -> None:
        """Draw the panes below, as far as they can be seen."""
        if self._ladder.display:
            self._ladder.show(view)
        if self._why.display:
            self._why.show_pair(view, pair(self.comparison))
        if self._table.display:
            self._table.show_rows(view, table_rows(self.comparison, self._figures))
        if self._plots.display:
            self._plots.show_points(view, sweep_points(self.comparison, self._figures))

    @property
    def _plotted(self) -> bool:
        """True if the columns differ in numbers that a plot can be drawn over."""
        return len(swept(sweep_points(self.comparison, self._figures))) in (1, 2)

    def tick(self, busy_s: float | None) -> None:
        """Only the status line: a pass is taking long."""
        self._status.show(self.comparison.column.view, busy_s)

    # --- focus --------------------------------------------------------------------------------

    @on(events.DescendantFocus)
    def _focused(self, event: events.DescendantFocus) -> None:
        widget = event.widget
        if isinstance(widget, ColumnPane) and widget.place != self.comparison.focused:
            self.comparison.focus(widget.place)
            self._lay_out()

    def _focus_column(self) -> None:
        self.set_focus(self._columns[self.comparison.focused])

    def action_column(self, place: int) -> None:
        """Give a column the focus, and bring it into sight."""
        if place < len(self.comparison.columns):
            self.comparison.focus(place)
            if self._zoomed.startswith("column-"):
                self._zoomed = f"column-{place}"
            self._lay_out()
            self._focus_column()

    def action_beside(self, by: int) -> None:
        self.action_column(max(0, self.comparison.focused + by))

    def action_next_pane(self, by: int) -> None:
        """From the columns to the panes below, one after the other."""
        names = [f"column-{self.comparison.focused}", *self._below]
        now = self.focused.id if self.focused is not None else None
        at = names.index(now) if now in names else 0
        self._open(names[(at + by) % len(names)])

    def _open(self, name: str) -> None:
        """Give a pane the focus, and room where it has none."""
        if name in BELOW:
            self._opened = name
        if self._zoomed:
            self._zoomed = name
        self._lay_out()
        self.set_focus(self.query_one(f"#{name}"))

    def action_zoom(self) -> None:
        """The focused pane alone, or all again."""
        focused = self.focused
        name = focused.id if isinstance(focused, Pane) and focused.id else self._opened
        self._zoomed = "" if self._zoomed else name
        self._lay_out()

    def action_close(self) -> None:
        if self._zoomed:
            self.action_zoom()
        else:
            self.dismiss()

    # --- keys ---------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """False: the key means nothing here. None: a model is needed, and there is none."""
        if not hasattr(self, f"action_{action}"):
            return False
        if action == "column":
            return isinstance(parameters[0], int) and parameters[0] < len(self.comparison.columns)
        needs_model = action in ("alone", "add", "dice", "pause_column")
        return None if needs_model and not self._can_run() else True

    def action_step(self) -> None:
        self.comparison.step()
        self._changed()

    def action_step_ten(self) -> None:
        self.comparison.step(10)
        self._changed()

    def action_step_back(self) -> None:
        self.comparison.back()
        self._changed()

    def action_continue(self) -> None:
        if not self._play():
            self.comparison.run()
            self._changed()

    def action_pause_or_run(self) -> None:
        if not (self._stand() or (not self.comparison.running and self._play())):
            self.comparison.toggle()
            self._changed()

    def action_interrupt(self) -> None:
        if not self._stand():
            self.comparison.pause()
            self._changed()

    def action_first(self) -> None:
        self.comparison.first()
        self._changed()

    def action_last(self) -> None:
        self.comparison.last()
        self._changed()

    def action_pause_column(self) -> None:
        self.comparison.toggle_column()
        self._changed()

    def action_alone(self) -> None:
        self.comparison.alone()
        self._changed()

    def action_dice(self) -> None:
        self.comparison.swap_dice()
        self._lay_out()

    def action_align(self) -> None:
        self._aligned = not self._aligned
        self._changed()

    def action_against(self) -> None:
        self.comparison.next_against()
        self._changed()

    def action_as_text(self) -> None:
        self._as_text()

    def action_remove(self) -> None:
        try:
            self.comparison.remove()
        except ValueError as error:
            self._refuse(error)
        self._lay_out()
        self._focus_column()

    def action_add(self) -> None:
        if len(self.comparison.columns) >= MOST:
            self._refuse(f"there are {MOST} columns already: D removes one")
            return
        self.app.push_screen(AskColumn(), self._add)

    def _add(self, wanted: Wanted | None) -> None:
        if wanted is None:
            return
        try:
            self.comparison.add(wanted.settings, wanted.seed, wanted.title)
        except ValueError as error:
            self._refuse(error)
        self.action_column(len(self.comparison.columns) - 1)

    def _refuse(self, reason: object) -> None:
        self.notify(visible(str(reason)), severity="warning", markup=False)

    @on(GoTo)
    def _go_to(self, message: GoTo) -> None:
        """A click on a token moves all cursors to its position."""
        message.stop()
        depth = self.comparison.log.tree.depth(message.node)
        if depth is not None:
            for column in self.comparison.columns:
                column.go_to(depth)
            self._changed()


def _display(widget: Widget, wanted: bool) -> None:
    """Show or hide; what is so already is not laid out again."""
    if widget.display is not wanted:
        widget.display = wanted
