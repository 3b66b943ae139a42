"""The Textual app: holds the engine's client and turns keys, clicks and records into one view."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from textual import on
from textual.binding import BindingType
from textual.screen import Screen
from textual.timer import Timer

import themes
from engine.commands import Command, Open, Restore
from engine.machine_file import cache_dir
from engine.plain_files import reason
from engine.records.events import RunState
from engine.records.measured import Ceilings, Measured
from engine.records.model import ModelFacts
from engine.text import visible
from inspector.actions.forks import Forks
from inspector.actions.host import Answer
from inspector.actions.measure import MeasuringApp
from inspector.actions.sessions import SavingApp
from inspector.commands import KeyCommands
from inspector.keys import BRANCHING, GENERAL, SAMPLER, TRYING
from inspector.messages import Force, GoTo, NeedDense, RecordsArrived, Try
from inspector.modal import modal_open
from inspector.panes.gauges.pane import GaugesPane
from inspector.screens.breakpoints import BreakpointsScreen
from inspector.screens.debugger import DebuggerScreen
from inspector.screens.dialog import Dialog
from inspector.state.ceilings import Known
from inspector.state.client import Client
from inspector.state.controller import Controller
from inspector.state.held_steps import HeldSteps
from inspector.state.recorder import Recorder
from inspector.state.request import Request
from inspector.theming import heed_no_color, use_theme
from sessions.library import Library

# Records may come faster than anyone can read; keys are painted at once all the same.
_FRAME_S = 1 / 8
# Where the cursor stays behind, new tokens change little of what is on screen.
_PARKED_FRAME_S = 1 / 2
_TICK_S = 0.5


class Inspector(SavingApp, MeasuringApp):
    """The inspector on one run. ``connect`` makes and starts a new engine client."""

    TITLE = "llm-inspect"
    CSS_PATH = Path(__file__).with_name("app.tcss")
    COMMANDS = SavingApp.COMMANDS | {KeyCommands}
    BINDINGS: ClassVar[list[BindingType]] = [*GENERAL, *BRANCHING, *SAMPLER, *TRYING]
    ENABLE_COMMAND_PALETTE = True

    def __init__(
        self,
        asked: Request,
        client: Client,
        connect: Callable[[], Client],
        *,
        keys: Mapping[str, str] | None = None,
        theme: str = themes.DEFAULT,
        ceilings: Callable[[ModelFacts], Known | None] = lambda facts: None,
        keep_ceilings: Callable[[ModelFacts, Ceilings], None] = lambda facts, ceilings: None,
        recorder: Recorder | None = None,
        library: Library | None = None,
    ) -> None:
        """``ceilings`` finds what this machine can do at best with a model of these facts, and
        ``keep_ceilings`` keeps what was measured of that; it raises OSError.

        ``recorder`` keeps the run; ``library`` is where other sessions are looked for.
        """
        super().__init__()
        self.asked = asked
        self._client = client
        self._connect = connect
        self._keys = dict(keys or {})
        self._find_ceilings, self._keep_ceilings = ceilings, keep_ceilings
        self._held_against: ModelFacts | None = None
        self._known: Known | None = None
        self._measured: Measured | None = None
        self.controller = Controller(self.send)
        self.controller.breakpoints.take_over(asked.breakpoints)
        self.recorder, self.library = recorder, library
        self.forks = Forks(self)
        # Who wants nothing kept wants nothing on the disk.
        folder = cache_dir() if recorder is not None and recorder.wanted else None
        self.controller.log.new_nodes = partial(HeldSteps, folder)
        self._next_paint: Timer | None = None
        self._last_paint = 0.0
        self._pass_began = time.monotonic()
        use_theme(self, theme)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        current = self.current_theme
        return themes.fallback_variables(dark=current.dark, ansi=current.ansi)

    def get_default_screen(self) -> DebuggerScreen:
        return DebuggerScreen()

    # --- life -----------------------------------------------------------------------------------

    def on_mount(self) -> None:
        self.set_keymap(self._keys)
        self.theme_changed_signal.subscribe(self, lambda theme: heed_no_color(self))
        self._listen(self._client)
        self.begin_keeping()
        self.begin()
        self.set_interval(_TICK_S, self._tick)

    def begin(self) -> None:
        """Give the engine its first work."""
        self.send(self.asked.configure)
        self.controller.tell_breakpoints()
        self.send(self.asked.submit)

    def model_is_there(self, facts: ModelFacts) -> None:
        """A model has been loaded."""

    def on_unmount(self) -> None:
        self._client.notify = lambda: None
        self._client.close()
        self.end_keeping()

    @property
    def kept(self) -> bool:
        """True if a file holds what is on screen."""
        return self._kept

    @property
    def can_run(self) -> bool:
        """True if there is an engine with a model, and not only a recording."""
        return self._client.can_run

    async def ask(self, screen: Screen[Answer]) -> Answer:
        """Open a screen, and wait for its answer; only in a flow."""
        # Shielded: a key may still close the screen of a flow that the end of the app has stopped.
        return await asyncio.shield(self.push_screen(screen, wait_for_dismiss=True))

    async def flow(self, flow: Coroutine[Any, Any, None]) -> None:
        """Begin what asks the user something, and return once it asks."""
        self.run_worker(flow, group="flows")
        # Its first step is done after this: the next key is meant for the screen that it opens.
        await asyncio.sleep(0)

    def send(self, command: Command) -> None:
        self._client.send(command)

    def _listen(self, client: Client) -> None:
        def notify() -> None:
            self.post_message(RecordsArrived())

        client.notify = notify
        # What came before anybody listened.
        self.post_message(RecordsArrived())

    def action_restart(self) -> None:
        """A new engine that goes on with the same run; what runs now is ended."""
        self._client.notify = lambda: None
        self._client.kill()
        self._client.close(grace=0.0)
        facts = self.controller.log.facts
        wanted = self.asked.open
        if facts is not None and "dtype" in wanted.options:
            # Measured again, another dtype might win, and the run would not be the same.
            wanted = Open(wanted.backend, {**wanted.options, "dtype": facts.dtype})
        restore: Restore | None = self.controller.restore_command()
        self._client = self._connect()
        self._listen(self._client)
        for command in (wanted, self.asked.configure, restore or self.asked.submit):
            self.send(command)
        self.controller.tell_breakpoints()

    # --- records and painting -------------------------------------------------------------------

    @on(RecordsArrived)
    def _records(self) -> None:
        before = self.controller.log.state.state
        records = self.keep(self._client.take())
        self.controller.take(records)
        self.keep_breakpoints()
        for screen in self.screen_stack:
            if isinstance(screen, Dialog):
                screen.heard(self.controller.log)
        self._look_up_ceilings()
        state = self.controller.log.state.state
        if state != before or self.controller.busy:
            self._pass_began = time.monotonic()
        at_tip = not self.controller.log.children.get(self.controller.cursor)
        frame = _FRAME_S if at_tip else _PARKED_FRAME_S
        wait = self._last_paint + frame - time.monotonic()
        # An engine that stands still has answered something that a user waits for.
        if wait <= 0 or not self.controller.busy:
            self.paint()
        elif self._next_paint is None:
            self._next_paint = self.set_timer(wait, self.paint)

    def _look_up_ceilings(self) -> None:
        """Once a model is loaded: what the gauges hold its speed against."""
        facts = self.controller.log.facts
        if facts is not None and facts is not self._held_against:
            self._held_against, self._known = facts, self._find_ceilings(facts)
            self.model_is_there(facts)
        found = self.controller.log.measured
        if facts is not None and found is not None and found is not self._measured:
            self._measured = found
            self._known = Known(found.ceilings, datetime.now(UTC), "")
            try:
                self._keep_ceilings(facts, found.ceilings)
            except OSError as error:
                self.say(f"measured, but not kept for the next time: {reason(error)}", warn=True)

    def _tick(self) -> None:
        if self.controller.busy:
            self.debugger.tick(self.controller.view, self.busy_s)

    @property
    def busy_s(self) -> float | None:
        """Seconds since the engine last gave a sign of life during a pass; None when idle."""
        if not self.controller.busy or self.controller.log.state.state is RunState.DEAD:
            return None
        return time.monotonic() - self._pass_began

    @property
    def debugger(self) -> DebuggerScreen:
        for screen in self.screen_stack:
            if isinstance(screen, DebuggerScreen):
                return screen
        raise LookupError("the debugger screen is not up")

    def paint(self) -> None:
        """Show the run as it is now on every pane that can be seen."""
        if self._next_paint is not None:
            # A key was quicker; and its timer, left alone, would come besides the next one.
            self._next_paint.stop()
            self._next_paint = None
        self._last_paint = time.monotonic()
        if any(isinstance(screen, DebuggerScreen) for screen in self.screen_stack):
            for pane in self.debugger.query(GaugesPane):
                pane.can_measure = self.can_run
                if self._known is not None:
                    pane.ceilings, pane.stale = self._known.ceilings, self._known.stale
            watched = self.controller.breakpoints.watched(self.controller.cursor)
            self.debugger.show(self.controller.view, self.busy_s, watched)
        # Not self.screen: while the app ends there is none.
        for screen in self.screen_stack:
            if isinstance(screen, BreakpointsScreen):
                screen.show()
        self._tell_news()

    def _tell_news(self) -> None:
        for line in self.controller.breakpoints.take_news():
            self.notify(visible(line), severity="warning", markup=False)

    # --- keys -----------------------------------------------------------------------------------

    def action_step(self) -> None:
        self.controller.step()
        self.paint()

    def action_step_ten(self) -> None:
        self.controller.run(10)
        self.paint()

    def action_step_back(self) -> None:
        self.controller.back()
        self.paint()

    def action_continue(self) -> None:
        self.controller.run()
        self.paint()

    def action_pause_or_run(self) -> None:
        self.controller.toggle()
        self.paint()

    def action_redraw(self) -> None:
        self.controller.redraw()
        self.paint()

    def action_reverse(self) -> None:
        if not self.controller.breakpoints.points.active:
            self.notify("no breakpoint is on: B opens the list", severity="warning")
        elif not self.controller.reverse():
            self.notify("no breakpoint strikes before: this is the prompt")
        self.paint()

    def action_breakpoints(self) -> None:
        def changed() -> None:
            self.controller.tell_breakpoints()
            self.keep_breakpoints()
            self.paint()

        controller = self.controller
        self.push_screen(
            BreakpointsScreen(controller.breakpoints, lambda: controller.cursor, changed)
        )

    def action_first(self) -> None:
        self.controller.first()
        self.paint()

    def action_last(self) -> None:
        self.controller.last()
        self.paint()

    def action_help(self) -> None:
        if self.screen.query("HelpPanel"):
            self.action_hide_help_panel()
        else:
            self.action_show_help_panel()

    @on(GoTo)
    def _go_to(self, message: GoTo) -> None:
        self.controller.go_to(message.node)
        self.paint()

    @on(Force)
    def _force(self, message: Force) -> None:
        self.controller.force(message.token_id)
        self.paint()

    @on(Try)
    def _try(self, message: Try) -> None:
        before = self.controller.what_if
        self.controller.what_if = message.chain
        message.taken = True
        if (before is None) != (message.chain is None):
            # Not at every turn: the footer makes all its keys anew.
            self.debugger.refresh_bindings()
        self.debugger.show_tried(self.controller.view, self.busy_s)

    @property
    def _dials_open(self) -> bool:
        return any(isinstance(one, DebuggerScreen) and one.dials_open for one in self.screen_stack)

    def action_turn(self, steps: int) -> None:
        self.debugger.turn(steps)

    def action_leap(self, steps: int) -> None:
        self.debugger.turn(steps, far=True)

    def action_apply(self, here: bool) -> None:
        self.forks.apply(here=here)

    async def action_fork(self) -> None:
        await self.flow(self.forks.fork())

    def action_sibling(self, by: int) -> None:
        self.forks.sibling(by)

    async def action_name_branch(self) -> None:
        await self.flow(self.forks.name())

    async def action_delete_branch(self) -> None:
        await self.flow(self.forks.delete())

    def action_undo_delete(self) -> None:
        self.forks.undo()

    async def action_prompt(self) -> None:
        await self.flow(self.forks.prompt())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        # The dials' keys mean nothing while they are closed, nor below a window.
        if action in ("turn", "leap"):
            return self._dials_open and not modal_open(self)
        if action == "apply":
            return self.controller.what_if is not None and not modal_open(self)
        return super().check_action(action, parameters)

    @on(NeedDense)
    def _need_dense(self, message: NeedDense) -> None:
        self.controller.need_dense(message.node)
