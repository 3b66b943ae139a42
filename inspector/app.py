"""The Textual app: holds the engine's client and turns keys, clicks and records into one view."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from textual import on
from textual.actions import ActionParseResult, parse
from textual.app import SystemCommand
from textual.binding import BindingType
from textual.dom import DOMNode
from textual.screen import Screen

import themes
from engine.machine_file import cache_dir
from engine.records.measured import Ceilings
from engine.records.model import ModelFacts
from inspector.actions.allowed import Allowed
from inspector.actions.breakpoints import Breakpoints
from inspector.actions.comparing import Comparing
from inspector.actions.forks import Forks
from inspector.actions.keeping import Keeping
from inspector.actions.measure import Measurements
from inspector.actions.player import Player
from inspector.actions.recover import Recovery
from inspector.actions.replay import Recording, Replay
from inspector.actions.running import Running
from inspector.actions.sessions import Sessions
from inspector.actions.trying import Trying
from inspector.commands import KeyCommands
from inspector.flows import FlowApp
from inspector.keys import APP
from inspector.messages import Draft, Force, GoTo, NeedDense, RecordsArrived, Try
from inspector.modal import modal_open
from inspector.painter import Painter
from inspector.screens.breakpoints import BreakpointsScreen
from inspector.screens.debugger import DebuggerScreen
from inspector.screens.dialog import Dialog
from inspector.screens.layouts import Layouts
from inspector.state.ceilings import Known
from inspector.state.client import Client
from inspector.state.controller import Controller
from inspector.state.engine import Engine
from inspector.state.held_steps import HeldSteps
from inspector.state.recorder import Recorder
from inspector.state.replay_client import REFUSAL
from inspector.state.request import Request
from inspector.theming import heed_no_color, use_theme
from inspector.tour.tour import Tour
from inspector.widgets.picture import CEILINGS
from sessions.library import Library

_Kind = TypeVar("_Kind", bound=Screen[Any])
_TICK_S = 0.5


class Inspector(FlowApp[None]):
    """The inspector on one run. ``connect`` makes and starts a new engine client."""

    TITLE = "llm-inspect"
    CSS_PATH = Path(__file__).with_name("app.tcss")
    COMMANDS = FlowApp.COMMANDS | {KeyCommands}
    BINDINGS: ClassVar[list[BindingType]] = [*APP]

    next_session: Path | None = None
    """A session to open once this app has ended."""

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
        layouts: Layouts | None = None,
        tour: bool = False,
    ) -> None:
        """``ceilings`` finds what this machine can do at best with a model of these facts, and
        ``keep_ceilings`` keeps what was measured of that; it raises OSError.

        ``recorder`` keeps the run; ``library`` is where other sessions are looked for.
        ``recording`` is shown where a run would be: see ``replaying``. ``tour``: guide through it.
        """
        super().__init__()
        self.asked = asked
        self.engine = Engine(
            client,
            connect,
            tell=lambda: self.post_message(RecordsArrived()),
            pace=lambda: self.keeping.pace(),
            warn=partial(self.say, warn=True),
        )
        self._keys = dict(keys or {})
        self._layouts = layouts
        self._facts: ModelFacts | None = None
        self.controller = Controller(self.engine.send)
        self.controller.log.asked = asked.submit.text
        self.controller.breakpoints.take_over(asked.breakpoints)
        self.measurements = Measurements(self, ceilings, keep_ceilings)
        self.trying = Trying(self)
        self.comparing = Comparing(self)
        self.keeping = Keeping(self, recorder)
        self.forks = Forks(self, self.trying, self.keeping)
        self.breakpoints = Breakpoints(self, self.keeping)
        replayed = str(recording.session.path) if recording is not None else ""
        self.sessions = Sessions(self, self.keeping, library, replayed)
        self._recovery = Recovery(self, self.sessions, library) if library is not None else None
        self.replay = Replay(self, recording) if recording is not None else None
        self.tour = Tour(self, self.replay.show) if tour and self.replay is not None else None
        self.running = Running(self, self.player)
        self._allowed = Allowed(self, self._recovery, recording, toured=tour)
        # Who wants nothing kept wants nothing on the disk.
        folder = cache_dir() if recorder is not None and recorder.wanted else None
        self.controller.log.new_nodes = partial(HeldSteps, folder)
        self._painter = Painter(
            self.controller, self._draw, self.set_timer, lambda: self.comparing.is_open
        )
        use_theme(self, theme)

    def get_default_screen(self) -> DebuggerScreen:
        return DebuggerScreen(self._layouts)

    # --- life -----------------------------------------------------------------------------------

    def on_mount(self) -> None:
        self.set_keymap(self._keys)
        self.theme_changed_signal.subscribe(self, lambda theme: heed_no_color(self))
        self.engine.listen()
        self.keeping.begin()
        if self._recovery is not None:
            self._recovery.begin()
        if self.replay is not None:
            self.replay.begin()
            if self.tour is not None:
                self.call_after_refresh(self.tour.begin)
        else:
            self.engine.send(self.asked.configure)
            self.controller.tell_breakpoints()
            self.engine.send(self.asked.submit)
        self.comparing.begin()
        self.set_interval(_TICK_S, self._tick)

    def on_unmount(self) -> None:
        self.engine.close()
        self.keeping.end()
        if self.replay is not None:
            self.replay.end()

    def end(self, next_session: Path | None = None) -> None:
        """End; the opener goes on with ``next_session``."""
        self.next_session = next_session
        self.exit()

    def action_restart(self) -> None:
        self.engine.restart(self.controller, self.asked)

    # --- records and painting -------------------------------------------------------------------

    @on(RecordsArrived)
    def _records(self) -> None:
        before = self.controller.log.state.state
        self.controller.take(records := self.keeping.keep(self.engine.client.take()))
        self.comparing.take(records)
        self.keeping.keep_breakpoints()
        for dialog in self._open(Dialog):
            dialog.heard(self.controller.log)
        self._look_at_model()
        self.trying.records_came()
        self._painter.records_came(before)

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
        debuggers = self._open(DebuggerScreen)
        self.measurements.tick(lambda: any(one.wants(CEILINGS) for one in debuggers))
        if self.controller.busy and not self.comparing.tick(self.busy_s):
            for debugger in debuggers:
                debugger.tick(self.controller.view, self.busy_s)

    @property
    def player(self) -> Player | None:
        return self.replay.player if self.replay is not None else None

    @property
    def busy_s(self) -> float | None:
        """Seconds since the engine last gave a sign of life during a pass; None when idle."""
        if self.player is not None and self.player.tempo is not None:
            # Between two tokens that are played no pass runs that could take long.
            return None
        return self._painter.pass_s

    def _open(self, kind: type[_Kind]) -> list[_Kind]:
        """The screens of a kind that are open. While the app starts or ends there may be none."""
        return [screen for screen in self.screen_stack if isinstance(screen, kind)]

    @property
    def debugger(self) -> DebuggerScreen:
        return self._open(DebuggerScreen)[0]

    def paint(self) -> None:
        """Show the run as it is now on every pane that can be seen."""
        self._painter.paint()

    def _draw(self) -> None:
        self.controller.log.can_measure = self.engine.can_run
        watched = self.controller.breakpoints.watched(self.controller.cursor.node)
        compared = self.comparing.draw(self.busy_s)
        for debugger in [] if compared else self._open(DebuggerScreen):
            debugger.show(self.controller.view, self.busy_s, watched)
        for screen in self._open(BreakpointsScreen):
            screen.show()
        self.breakpoints.tell_news()

    # --- keys -----------------------------------------------------------------------------------

    def action_step(self) -> None:
        self.controller.step()
        self.paint()

    def action_step_ten(self) -> None:
        self.controller.run(10)
        self.paint()

    def action_step_round(self) -> None:
        self.controller.step_round()
        self.paint()

    def action_step_back(self) -> None:
        self.controller.cursor.back()
        self.paint()

    def action_continue(self) -> None:
        self.running.go_on()

    def action_pause_or_run(self) -> None:
        self.running.pause_or_run()

    def action_stream(self) -> None:
        if self.player is not None:
            self.player.stream()

    def action_redraw(self) -> None:
        self.forks.redraw()

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

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Only what no key of ours does."""
        yield SystemCommand("Theme", "Change the colours", self.action_change_theme)
        if self.engine.can_run:
            from inspector.actions import shapes

            yield SystemCommand(shapes.NAME, shapes.TOLD, partial(shapes.show_shapes, self))

    async def action_help(self) -> None:
        from inspector.actions.help import show_help

        await self.flow(show_help(self, self.BINDINGS, self._keys))

    def action_copy(self) -> None:
        self.sessions.copy()

    async def action_step_out(self) -> None:
        if not self.debugger.step_out() and self.tour is not None:
            await self.action_quit()

    def action_tour(self, by: int) -> None:
        if self.tour is not None:
            self.tour.move(by)

    def action_help_quit(self) -> None:
        self.running.interrupt()

    @on(GoTo)
    def _go_to(self, message: GoTo) -> None:
        self.controller.cursor.go_to(message.node)
        self.paint()

    @on(Force)
    def _force(self, message: Force) -> None:
        self.forks.force(message.token_id, after=message.after)

    @on(Try)
    def _try(self, message: Try) -> None:
        self.trying.take(message)

    @on(Draft)
    def _draft_so(self, message: Draft) -> None:
        self.trying.draft(message.settings)

    def action_turn(self, steps: int, far: bool = False) -> None:
        self.debugger.turn(steps, far=far)

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

    def action_time_modules(self) -> None:
        self.measurements.time_modules()

    def action_measure_ceilings(self) -> None:
        self.measurements.measure_ceilings()

    async def action_napkin(self) -> None:
        await self.flow(self.measurements.napkin())

    async def action_save(self) -> None:
        await self.flow(self.sessions.save())

    async def action_export(self) -> None:
        await self.flow(self.sessions.export(self.comparing.comparison))

    async def action_sessions(self) -> None:
        await self.flow(self.sessions.browse())

    async def action_interrupted(self) -> None:
        if self._recovery is not None:
            await self.flow(self._recovery.answer())

    async def action_compare_branches(self) -> None:
        await self.flow(self.comparing.here())

    async def action_quit(self) -> None:
        if modal_open(self) or not self.debugger.step_out():
            await self.flow(self.sessions.leave())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """False: the key means nothing now. None: it is shown, greyed out: see ``run_action``."""
        return self._allowed.now(action)

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Carry out an action; of a key that is greyed out, say why."""
        if await super().run_action(action, default_namespace, namespaces):
            return True
        _, name, parameters = parse(action) if isinstance(action, str) else action
        refused = self.check_action(name, parameters) is None
        if refused and not modal_open(self):
            self.say(REFUSAL, warn=True)
        return refused

    @on(NeedDense)
    def _need_dense(self, message: NeedDense) -> None:
        message.ask(self.controller)
