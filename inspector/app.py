"""The Textual app: holds the engine's client and turns keys, clicks and records into one view."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from textual import on
from textual.binding import BindingType
from textual.screen import Screen
from textual.timer import Timer
from textual.worker import WorkerFailed

import themes
from engine.commands import Command, Open, Restore
from engine.machine_file import cache_dir
from engine.records.events import RunState
from engine.records.measured import Ceilings
from engine.records.model import ModelFacts
from engine.text import visible
from inspector.actions.breakpoints import Breakpoints
from inspector.actions.forks import Forks
from inspector.actions.host import Answer
from inspector.actions.keeping import Keeping
from inspector.actions.measure import Measurements
from inspector.actions.player import Player, Playing
from inspector.actions.recover import Recovery
from inspector.actions.replay import Recording, Replay, request_of
from inspector.actions.sessions import Sessions
from inspector.actions.trying import Trying
from inspector.commands import KeyCommands
from inspector.exit_codes import EXIT_USAGE
from inspector.keys import (
    BRANCHING,
    GENERAL,
    MEASURING,
    REPLAYING,
    SAMPLER,
    SESSIONS,
    TRYING,
)
from inspector.messages import Force, GoTo, NeedDense, RecordsArrived, Try
from inspector.modal import modal_open
from inspector.panes.gauges.pane import GaugesPane
from inspector.safe_screen import SafeApp
from inspector.screens.breakpoints import BreakpointsScreen
from inspector.screens.debugger import DebuggerScreen
from inspector.screens.dialog import Dialog
from inspector.state.ceilings import Known
from inspector.state.client import Client
from inspector.state.controller import Controller
from inspector.state.held_steps import HeldSteps
from inspector.state.recorder import Recorder
from inspector.state.replay_client import REFUSAL, ReplayClient
from inspector.state.request import Request
from inspector.theming import heed_no_color, use_theme
from sessions.file.format import SessionError
from sessions.library import Library
from sessions.reader import Session

# Records may come faster than anyone can read; keys are painted at once all the same.
_FRAME_S = 1 / 8
# Where the cursor stays behind, new tokens change little of what is on screen.
_PARKED_FRAME_S = 1 / 2
_TICK_S = 0.5
_OPENING = frozenset(
    ["save", "export", "sessions", "compare_branches", "drift", "compare_cache", "measure_ceilings"]
)


class Inspector(SafeApp[None]):
    """The inspector on one run. ``connect`` makes and starts a new engine client."""

    TITLE = "llm-inspect"
    CSS_PATH = Path(__file__).with_name("app.tcss")
    COMMANDS = SafeApp.COMMANDS | {KeyCommands}
    BINDINGS: ClassVar[list[BindingType]] = [
        *MEASURING,
        *SESSIONS,
        *GENERAL,
        *BRANCHING,
        *SAMPLER,
        *TRYING,
        *REPLAYING,
    ]
    ENABLE_COMMAND_PALETTE = True

    next_session: Path | None = None
    """A session to open once this app has ended."""
    damage = ""
    """The reason for which the app had to end: rows of the session contradict each other."""

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
        recording: Recording | None = None,
    ) -> None:
        """``ceilings`` finds what this machine can do at best with a model of these facts, and
        ``keep_ceilings`` keeps what was measured of that; it raises OSError.

        ``recorder`` keeps the run; ``library`` is where other sessions are looked for.
        ``recording`` is shown where a run would be: see ``replaying``.
        """
        super().__init__()
        self.asked = asked
        self._client = client
        self._connect = connect
        self._keys = dict(keys or {})
        self._facts: ModelFacts | None = None
        self.controller = Controller(self.send)
        self.controller.breakpoints.take_over(asked.breakpoints)
        self.measurements = Measurements(self, ceilings, keep_ceilings)
        self.trying = Trying(self)
        self.forks = Forks(self, self.trying)
        self.keeping = Keeping(self, recorder)
        self.breakpoints = Breakpoints(self, self.keeping)
        replayed = str(recording.session.path) if recording is not None else ""
        self.sessions = Sessions(self, self.keeping, library, replayed)
        self._recovery = Recovery(self, self.sessions, library) if library is not None else None
        self.replay = Replay(self, recording) if recording is not None else None
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
        self._listen()
        self.keeping.begin()
        if self._recovery is not None:
            self._recovery.begin()
        if self.replay is not None:
            self.replay.begin()
        else:
            self.send(self.asked.configure)
            self.controller.tell_breakpoints()
            self.send(self.asked.submit)
        self.set_interval(_TICK_S, self._tick)

    def on_unmount(self) -> None:
        self._client.notify = lambda: None
        self._client.close()
        self.keeping.end()
        if self.replay is not None:
            self.replay.end()

    def end(self, next_session: Path | None = None) -> None:
        """End; the opener goes on with ``next_session``."""
        self.next_session = next_session
        self.exit()

    def _handle_exception(self, error: Exception) -> None:
        """End with one line where a step cannot be read; Textual would print a traceback."""
        cause = error.error if isinstance(error, WorkerFailed) else error
        if isinstance(cause, SessionError):
            self.damage = self.damage or str(cause)
            self._return_code = EXIT_USAGE
            self._close_messages_no_wait()
        else:
            super()._handle_exception(error)

    # --- what actions need (see Host) -----------------------------------------------------------

    @property
    def kept(self) -> bool:
        """True if a file holds what is on screen."""
        return self.keeping.kept

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

    async def picture(self) -> str:
        """The screen as SVG, once what is to be seen on it is drawn."""
        drawn = asyncio.Event()
        self.call_after_refresh(drawn.set)
        await drawn.wait()
        return self.export_screenshot()

    def say(self, line: str, *, warn: bool = False) -> None:
        """Show a line for a while."""
        self.notify(visible(line), severity="warning" if warn else "information", markup=False)

    def send(self, command: Command) -> None:
        self._client.send(command)

    def use(self, client: Client, *, grace: float = 1.0) -> None:
        """Close the engine's client within ``grace`` seconds, and go on with this one."""
        self._client.notify = lambda: None
        self._client.close(grace)
        self._client = client
        self._listen()

    def _listen(self) -> None:
        def notify() -> None:
            self.post_message(RecordsArrived())
            self.keeping.pace()

        self._client.notify = notify
        if isinstance(self._client, ReplayClient):
            self._client.say = partial(self.say, warn=True)
        # What came before anybody listened.
        self.post_message(RecordsArrived())

    def action_restart(self) -> None:
        """A new engine that goes on with the same run; what runs now is ended."""
        if not self.can_run:
            self.say(REFUSAL, warn=True)
            return
        self._client.kill()
        facts = self.controller.log.facts
        wanted = self.asked.open
        if facts is not None and "dtype" in wanted.options:
            # Measured again, another dtype might win, and the run would not be the same.
            wanted = Open(wanted.backend, {**wanted.options, "dtype": facts.dtype})
        restore: Restore | None = self.controller.restore_command()
        self.use(self._connect(), grace=0.0)
        for command in (wanted, self.asked.configure, restore or self.asked.submit):
            self.send(command)
        self.controller.tell_breakpoints()

    # --- records and painting -------------------------------------------------------------------

    @on(RecordsArrived)
    def _records(self) -> None:
        before = self.controller.log.state.state
        records = self.keeping.keep(self._client.take())
        self.controller.take(records)
        self.keeping.keep_breakpoints()
        for screen in self.screen_stack:
            if isinstance(screen, Dialog):
                screen.heard(self.controller.log)
        self._look_at_model()
        state = self.controller.log.state.state
        if state != before or self.controller.busy:
            self._pass_began = time.monotonic()
        at_tip = self.controller.cursor.at_tip
        frame = _FRAME_S if at_tip else _PARKED_FRAME_S
        wait = self._last_paint + frame - time.monotonic()
        # An engine that stands still has answered something that a user waits for.
        if wait <= 0 or not self.controller.busy:
            self.paint()
        elif self._next_paint is None:
            self._next_paint = self.set_timer(wait, self.paint)

    def _look_at_model(self) -> None:
        """Once a model is loaded, and once this machine has been measured."""
        facts = self.controller.log.facts
        if facts is not None and facts is not self._facts:
            self._facts = facts
            self.measurements.model_is_there(facts)
            if self.replay is not None:
                self.replay.model_is_there(facts)
        self.measurements.take()

    def _tick(self) -> None:
        if self.controller.busy:
            self.debugger.tick(self.controller.view, self.busy_s)

    @property
    def busy_s(self) -> float | None:
        """Seconds since the engine last gave a sign of life during a pass; None when idle."""
        if self._player is not None and self._player.tempo is not None:
            # Between two tokens that are played no pass runs that could take long.
            return None
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
            known = self.measurements.known
            for pane in self.debugger.query(GaugesPane):
                pane.can_measure = self.can_run
                if known is not None:
                    pane.ceilings, pane.stale = known.ceilings, known.stale
            watched = self.controller.breakpoints.watched(self.controller.cursor.node)
            self.debugger.show(self.controller.view, self.busy_s, watched)
        # Not self.screen: while the app ends there is none.
        for screen in self.screen_stack:
            if isinstance(screen, BreakpointsScreen):
                screen.show()
        self.breakpoints.tell_news()

    # --- keys -----------------------------------------------------------------------------------

    def action_step(self) -> None:
        self.controller.step()
        self.paint()

    def action_step_ten(self) -> None:
        self.controller.run(10)
        self.paint()

    def action_step_back(self) -> None:
        self.controller.cursor.back()
        self.paint()

    @property
    def _player(self) -> Player | None:
        """The player of a recording at its tempo."""
        return self.replay.player if self.replay is not None else None

    def action_continue(self) -> None:
        if self._player is None or not self._player.play():
            self.controller.run()
            self.paint()

    def action_pause_or_run(self) -> None:
        player = self._player
        if player is None or not player.stop():
            if self.controller.running or player is None or not player.play():
                self.controller.toggle()
            self.paint()

    def action_stream(self) -> None:
        if self._player is not None:
            self._player.stream()

    def action_redraw(self) -> None:
        self.controller.redraw()
        self.paint()

    def action_reverse(self) -> None:
        self.breakpoints.reverse()

    async def action_breakpoints(self) -> None:
        await self.flow(self.breakpoints.edit())

    def action_first(self) -> None:
        self.controller.cursor.first()
        self.paint()

    def action_last(self) -> None:
        self.controller.cursor.last()
        self.paint()

    def action_help(self) -> None:
        if self.screen.query("HelpPanel"):
            self.action_hide_help_panel()
        else:
            self.action_show_help_panel()

    @on(GoTo)
    def _go_to(self, message: GoTo) -> None:
        self.controller.cursor.go_to(message.node)
        self.paint()

    @on(Force)
    def _force(self, message: Force) -> None:
        self.controller.force(message.token_id)
        self.paint()

    @on(Try)
    def _try(self, message: Try) -> None:
        self.trying.take(message)

    @property
    def _dials_open(self) -> bool:
        return any(isinstance(one, DebuggerScreen) and one.dials_open for one in self.screen_stack)

    def action_turn(self, steps: int) -> None:
        self.debugger.turn(steps)

    def action_leap(self, steps: int) -> None:
        self.debugger.turn(steps, far=True)

    def action_apply(self, here: bool) -> None:
        self.trying.apply(here=here)

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

    async def action_drift(self) -> None:
        await self.flow(self.measurements.drift())

    def action_compare_cache(self) -> None:
        self.measurements.compare_cache()

    def action_measure_ceilings(self) -> None:
        self.measurements.measure_ceilings()

    async def action_save(self) -> None:
        await self.flow(self.sessions.save())

    async def action_export(self) -> None:
        await self.flow(self.sessions.export())

    async def action_sessions(self) -> None:
        await self.flow(self.sessions.browse())

    async def action_compare_branches(self) -> None:
        await self.flow(self.sessions.compare_branches())

    async def action_quit(self) -> None:
        await self.flow(self.sessions.leave())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        match action:
            # The dials' keys mean nothing while they are closed, nor below a window.
            case "turn" | "leap":
                return self._dials_open and not modal_open(self)
            case "apply":
                return self.controller.cursor.what_if is not None and not modal_open(self)
            case "stream":
                return self.replay is not None and not modal_open(self)
            # While a window asks something, another must not open above it.
            case _ if action in _OPENING:
                return not modal_open(self)
            case _:
                return super().check_action(action, parameters)

    @on(NeedDense)
    def _need_dense(self, message: NeedDense) -> None:
        self.controller.need_dense(message.node)


def replaying(
    session: Session,
    asked: Request,
    *,
    attach: Callable[[], Client] | None = None,
    playing: Playing | None = None,
    **options: Any,
) -> Inspector:
    """The inspector on a saved session; ``attach`` starts an engine where there is to be one."""
    return Inspector(
        request_of(session, asked),
        ReplayClient(session),
        attach or partial(ReplayClient, session),
        recording=Recording(session, attach, playing or Playing()),
        **options,
    )
