"""The debugger screen: all panes where there is room, two at a time where there is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.geometry import Offset, Region
from textual.widgets import Static

from inspector.keys import DESK, NEXT_PANE, pane_binding, pane_key
from inspector.messages import Force, NeedDense, NeedNext, Try
from inspector.modal import PaneScreen
from inspector.panes.dials.pane import DialsPane
from inspector.panes.ladder.pane import LadderPane
from inspector.panes.registry import PANES
from inspector.panes.shape.pane import ShapePane
from inspector.panes.stacks.pane import StacksPane
from inspector.screens.body import Body
from inspector.screens.desk import Axis
from inspector.screens.jump import JumpScreen
from inspector.screens.layout import DIALS, LADDER, SPECS, TABS, TALL, Layout, TabStrip, places
from inspector.screens.layouts import Layouts, LayoutScreen
from inspector.state.breakpoints import Watched
from inspector.state.view import RunLog, View
from inspector.widgets.footer import Footer
from inspector.widgets.key_hint import KeyHint
from inspector.widgets.line_view import Pane
from inspector.widgets.picture import DENSE, NEXT, Want
from inspector.widgets.status import StatusLine
from inspector.widgets.tour_strip import TourStrip
from inspector.widgets.watches import WatchStrip

WIDE = (120, 36)
"""From this size on, columns by rows, all panes are on screen at once."""
USABLE = (40, 12)
"""Below this size there is only a message."""


class DebuggerScreen(PaneScreen[None]):
    """All panes of one run."""

    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        *NEXT_PANE,
        *DESK,
        *(pane_binding(number, one.pane.NAME) for number, one in enumerate(PANES, start=1)),
    ]
    HELP = """
One press of **n** runs one forward pass of the model and shows what it did. **b** goes back:
nothing is computed and nothing is lost.

The sign behind a figure says where it comes from: **•** measured, **ƒ** derived from measured
figures, **~** estimated. A dash (—) means that it cannot be known, or not yet.
"""

    def __init__(self, layouts: Layouts | None = None) -> None:
        super().__init__()
        self._view, self._watched = View(RunLog()), Watched()
        self._layouts = layouts or Layouts()
        self._layout = Layout()
        self._layout.use(self._layouts.desk)
        self._laid_out: tuple[object, ...] = ()
        self._panes: Sequence[Pane] = ()
        self._status: StatusLine | None = None
        """There is none before the screen is composed."""

    def compose(self) -> ComposeResult:
        yield (status := StatusLine(id="status"))
        keys = {one.name: pane_key(number) for number, one in enumerate(PANES, start=1)}
        panes = [
            SPECS[name].pane(id=name, number=keys.get(name, "s"))
            for place in places()
            for name in place
        ]
        with Body(self._layout, id="body"):
            yield TabStrip(id=TABS)
            yield from panes
        yield (watches := WatchStrip(id="watches"))
        yield (hint := KeyHint())
        yield TourStrip()
        yield Static(id="too-small")
        yield Footer()
        self._panes, self._status, self._watches, self._hint = panes, status, watches, hint

    def on_mount(self) -> None:
        self._lay_out()
        self._focus_on(self._layout.opened)
        # A recording is there before the panes are.
        self.show(self._view, None, self._watched)

    # --- layout -----------------------------------------------------------------------------------

    def on_resize(self, event: events.Resize) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        width, height = self.size
        small = width < USABLE[0] or height < USABLE[1]
        self.set_class(small, "-small")
        panes = self._layout
        panes.wide = width >= WIDE[0] and height >= WIDE[1]
        panes.tall = height >= TALL
        if small:
            wanted = f"{USABLE[0]}x{USABLE[1]}"
            self.query_one("#too-small", Static).update(
                Content(f"{width}x{height} is too small: llm-inspect needs {wanted}")
            )
        self._open(set(panes.regions(Region(0, 0, width, height))))
        # Which panes have a place is known only then.
        self.call_after_refresh(self._ask_for_what_lacks)

    def _open(self, names: set[str]) -> None:
        """Have these panes on screen, and no others."""
        for pane in self._panes:
            wanted = pane.id in names
            if wanted and not pane.display:
                # Hidden, it was not told of what happened.
                pane.show(self._view)
            if wanted is not pane.display:
                pane.display = wanted
        tabs = self.query_one(TabStrip)
        tabs.display = TABS in names
        tabs.show(self._layout.opened)
        if self._laid_out != (state := (self._layout.state, self.size)):
            self._laid_out = state
            self.query_one(Body).rearrange()

    @on(events.DescendantFocus)
    def _focused(self, event: events.DescendantFocus) -> None:
        if isinstance(event.widget, Pane) and event.widget.id:
            self._turn_to(event.widget.id)

    def action_focus_pane(self, number: int) -> None:
        """Give the pane with this number the focus, and room where it has none."""
        if 1 <= number <= len(PANES):
            self._focus_on(PANES[number - 1].name)

    def action_next_pane(self, by: int) -> None:
        """Give the pane ``by`` places further the focus, and room where it has none."""
        if self.dials_open:
            # Another pane in their place would close them.
            self.focus_next() if by > 0 else self.focus_previous()
            return
        names = [one.name for one in PANES]
        focused = self.focused.id if self.focused is not None else None
        at = names.index(focused) if focused in names else -1 if by > 0 else 0
        self._focus_on(names[(at + by) % len(names)])

    def _focus_on(self, name: str) -> None:
        self._turn_to(name)
        # At once: the next key may be there already.
        self.set_focus(self.query_one(f"#{name}"))

    def _turn_to(self, name: str) -> None:
        """Make room for a pane."""
        self._layout.turn_to(name)
        self._lay_out()

    def action_zoom(self) -> None:
        """The focused pane alone, or all again."""
        focused = self.focused
        name = focused.id if isinstance(focused, Pane) else self._layout.opened
        self._layout.zoomed = None if self._layout.zoomed else name
        self._lay_out()

    def action_grow(self, axis: str, by: int) -> None:
        """Make the focused pane wider or higher."""
        focused = self.focused
        if isinstance(focused, Pane) and focused.id:
            self._layout.grow(self.query_one(Body).size.region, focused.id, Axis(axis), by)
            self._lay_out()

    def action_layouts(self) -> None:
        """Open the window of the layouts."""
        room = self.query_one(Body).size.region
        if not self._layout.wide:
            room = Region(0, 0, *WIDE)
        window = LayoutScreen(self._layouts, self._layout, room, self._lay_out)
        self.app.push_screen(window, lambda _: self._look_somewhere())

    def _look_somewhere(self) -> None:
        """Keep the focus on a pane that is on screen."""
        focused = self.focused
        if not isinstance(focused, Pane) or not focused.display:
            shown = [pane.id or "" for pane in self._panes if pane.display]
            self._focus_on(LADDER if LADDER in shown else shown[-1])

    def action_jump(self) -> None:
        """Show a letter on every pane."""
        titles = {name: spec.pane.NAME for name, spec in SPECS.items()}
        places = {
            pane.id or "": Offset(pane.region.x + 2, pane.region.y) for pane in self._panes_in_sight
        }
        self.app.push_screen(JumpScreen(titles, places), self._jumped)

    def _jumped(self, name: str | None) -> None:
        if name is not None:
            self._focus_on(name)

    def step_out(self) -> bool:
        """Out of what covers the panes: one alone, or the dials. False where nothing does."""
        if self._layout.zoomed:
            self.action_zoom()
        elif self.dials_open and not self._layout.has_place(DIALS):
            self.action_dials()
        elif not self._layout.wide and self.query_one(StacksPane).display:
            self.action_stacks()
        else:
            return False
        return True

    # --- trying -----------------------------------------------------------------------------------

    def action_dials(self) -> None:
        """Open the dials; or close them, and drop what was tried."""
        if self._opened(DIALS):
            self._put_back(DIALS)
            self.post_message(Try(None))
        else:
            self._focus_on(DIALS)

    def _opened(self, name: str) -> bool:
        """True if a pane is on screen; of one with a place of its own, if it has the focus."""
        pane = self.query_one(f"#{name}")
        return pane.has_focus if self._layout.has_place(name) else pane.display

    def _put_back(self, name: str) -> None:
        self._layout.close(name)
        self._focus_on(LADDER)

    @property
    def dials_open(self) -> bool:
        """True if there are dials to turn."""
        return self.is_mounted and self.query_one(DialsPane).display

    def turn(self, steps: int, *, far: bool = False) -> None:
        """Turn the chosen dial."""
        self.query_one(DialsPane).turn(steps, far=far)

    def action_stacks(self) -> None:
        """The same logits in several samplers, in the ladder's place; or the ladder again."""
        if self._opened("stacks"):
            self._put_back("stacks")
        else:
            self._focus_on("stacks")

    def action_draws(self, count: int) -> None:
        """Draw many times from the final distribution at the cursor."""
        shape = self.query_one(ShapePane)
        self._turn_to("shape")
        self.set_focus(shape)
        shape.repeat(count, self._view)

    # --- showing ----------------------------------------------------------------------------------

    def show(self, view: View, busy_s: float | None, watched: Watched) -> None:
        """Draw this view on every pane that can be seen."""
        self._view, self._watched = view, watched
        with self.app.batch_update():
            self.tick(view, busy_s)
            if self._status is not None:
                self._watches.show(watched)
                self._hint.show(view)
            self._show_panes()

    def show_tried(self, view: View, busy_s: float | None) -> None:
        """Draw a view that differs in what is tried alone; a turned dial must be seen at once."""
        self._view = view
        with self.app.batch_update():
            self.tick(view, busy_s)
            self._show_panes(tried=True)

    def tick(self, view: View, busy_s: float | None) -> None:
        """Only the status line: a pass is taking long."""
        if self._status is not None:
            self._status.show(view, busy_s)

    def _show_panes(self, *, tried: bool = False) -> None:
        for pane in self._panes:
            # One that has no place yet, at the very beginning, draws this once it has.
            if pane.display and (not tried or SPECS[pane.id or ""].tried):
                pane.show(self._view)
        self._ask_for_what_lacks()

    @property
    def _panes_in_sight(self) -> list[Pane]:
        return [pane for pane in self._panes if pane.display and pane.size.area]

    def wants(self, want: Want) -> bool:
        """True if a pane on screen lacks something."""
        return any(want in pane.wants for pane in self._panes_in_sight)

    def _ask_for_what_lacks(self) -> None:
        """Ask for what a pane on screen lacks of the cursor's step, or of the next one."""
        view = self._view
        # An engine at full speed has better things to do.
        lacking = view.step is not None and view.dense is None and view.settled
        if lacking and self.wants(DENSE):
            self.post_message(NeedDense(view.cursor))
        if view.settled and self.wants(NEXT):
            self.post_message(NeedNext(view.cursor))

    @on(Pane.Chosen)
    def _chosen(self, message: Pane.Chosen) -> None:
        if isinstance(message.pane, LadderPane):
            token_id = message.pane.token_id_of(message.row)
            if token_id is not None:
                self.post_message(Force(token_id, after=message.pane.shows_next))
