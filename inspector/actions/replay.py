"""The inspector on a saved session: without a model, or with one that goes on from any node."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from textual.binding import BindingType
from textual.timer import Timer

from engine.commands import Configure, Restore, Submit
from engine.records.events import RunState, StateChanged
from engine.records.model import ModelFacts
from engine.run.tree import ROOT
from inspector.app import Inspector
from inspector.exit_codes import EXIT_USAGE
from inspector.keys import REPLAYING
from inspector.modal import modal_open
from inspector.state.client import Client
from inspector.state.replay_client import (
    NOT_STORED,
    RECORDING,
    REFUSAL,
    ReplayClient,
    Tempo,
    differences,
    obstacle,
)
from inspector.state.request import Request
from sessions.file.format import SessionError
from sessions.reader import Session


@dataclass(frozen=True)
class Playing:
    """Tempo of a replay: ``speed`` times its own; None: at once, like a debugger."""

    speed: float | None = None
    streaming: bool = True
    """True if tokens are shown as they come; else all together, when the last one would come."""


# Textual's timers divide by their length.
_SHORTEST_WAIT_S = 0.001


class ReplayInspector(Inspector):
    """The same panes and keys; ``attach`` starts an engine where there is to be one."""

    BINDINGS: ClassVar[list[BindingType]] = list(REPLAYING)

    def __init__(
        self,
        session: Session,
        asked: Request,
        *,
        attach: Callable[[], Client] | None = None,
        playing: Playing | None = None,
        **options: object,
    ) -> None:
        self._session = session
        self._attachment = attach
        self._playing = playing or Playing()
        self._recorded: ModelFacts | None = None
        self._tempo: Tempo | None = None
        self._began = 0.0
        self._timer: Timer | None = None
        super().__init__(asked, self._replayed(), self._engine, **options)  # type: ignore[arg-type]
        self.session_name = str(session.path)

    def _replayed(self) -> ReplayClient:
        return ReplayClient(self._session, lambda line: self.say(line, warn=True))

    def _engine(self) -> Client:
        return self._attachment() if self._attachment is not None else self._replayed()

    # --- beginning --------------------------------------------------------------------------------

    def begin(self) -> None:
        """Show the recording; the engine, where one is wanted, is attached once it is there."""
        session, log = self._session, self.controller.log
        log.not_stored = "" if session.full_logits else NOT_STORED
        records = session.records(steps=False)
        self.controller.replay(records, session.steps, session.tree)
        self._recorded = log.facts
        if session.told:
            self.say(session.told)
        self._recall_breakpoints()
        self.controller.cursor = ROOT if self._playing.speed else log.tip(ROOT, {})
        if self._attachment is not None:
            self._client = self._attachment()
            self._listen(self._client)
            for command in (self.asked.open, self.asked.configure):
                self.send(command)

    def _recall_breakpoints(self) -> None:
        """Have the breakpoints and watches of the recorded run; played anew, they count anew."""
        kept = self._session.breakpoints
        if kept is None:
            return
        refused = self.controller.breakpoints.recall(kept, anew=self._playing.speed is not None)
        if refused:
            more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
            self.say(refused[0] + more, warn=True)

    def model_is_there(self, facts: ModelFacts) -> None:
        """Hand the recorded tree to an engine that can go on with it, and say what differs."""
        if facts is self._recorded:
            return
        reason = obstacle(self._session, facts)
        if reason:
            self.say(reason, warn=True)
            self._give_up()
            return
        changes = differences(self._session, facts)
        if changes:
            words = "; ".join(f"{one.name}: {one.a} then, {one.b} now" for one in changes)
            self.say(f"not the same as when it was recorded: {words}", warn=True)
        else:
            self.say("the same model as when it was recorded")
        self.controller.log.not_stored = ""
        restore: Restore | None = self.controller.restore_command()
        if restore is not None:
            self.send(restore)
        self.controller.tell_breakpoints()

    def _give_up(self) -> None:
        """Go on without the model: it is not the one."""
        self._client.notify = lambda: None
        self._client.close()
        self._attachment = None
        self._client = self._replayed()
        self.controller.log.facts = self._recorded
        self._listen(self._client)

    def action_restart(self) -> None:
        """A new engine, where there is one."""
        if self._attachment is None:
            self.say(REFUSAL, warn=True)
        else:
            super().action_restart()

    # --- playing ----------------------------------------------------------------------------------

    def action_continue(self) -> None:
        """Play what is recorded at its tempo, where one is wanted; else as ever."""
        if self._playing.speed is None or not self.controller.view.ahead:
            super().action_continue()
        else:
            self._play(self._playing.speed)

    def action_pause_or_run(self) -> None:
        if self._tempo is not None:
            self._stop()
        else:
            self.action_continue()

    def _play(self, speed: float) -> None:
        self._stop()
        view = self.controller.view
        streaming = self._playing.streaming
        self._tempo = Tempo(self._session, view.branch, view.cursor, speed, streaming=streaming)
        self._began = time.monotonic()
        self._go_on()

    def _go_on(self) -> None:
        """Say how it is played, and wait for what comes next."""
        how = "streaming" if self._playing.streaming else "not streaming"
        reason = f"replayed {self._playing.speed:g}x, {how}"
        self.controller.take([StateChanged(RunState.RUNNING, reason)])
        self._wait()
        self.paint()

    @property
    def busy_s(self) -> float | None:
        # Between two tokens that are played no pass runs that could take long.
        return None if self._tempo is not None else super().busy_s

    def action_stream(self) -> None:
        """Tokens as they come, or the whole text with its last token; also while it plays."""
        if self._playing.speed is None:
            self.say("this recording is not played: --speed 1 plays it at its own tempo", warn=True)
            return
        self._playing = replace(self._playing, streaming=not self._playing.streaming)
        streaming, left = self._playing.streaming, "c plays it"
        if self._tempo is not None:
            self._tempo.streaming = streaming
            left = f"in {self._tempo.left_s(time.monotonic() - self._began):,.1f} s"
            self._go_on()
        if streaming:
            self.say(f"streaming: tokens as they came, the last one when it came ({left})")
        else:
            self.say(f"not streaming: the whole text, when its last token came ({left})")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "stream":
            return not modal_open(self)
        return super().check_action(action, parameters)

    def _wait(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        if self._tempo is not None:
            wait = self._tempo.wait_s(time.monotonic() - self._began)
            self._timer = self.set_timer(max(wait, _SHORTEST_WAIT_S), self._arrive)

    def _arrive(self) -> None:
        tempo = self._tempo
        if tempo is None:
            return
        for node in tempo.arrived(time.monotonic() - self._began):
            self.controller.cursor = node
            if self.controller.breakpoints.reached(node):
                self._stop()
                return
        if tempo:
            self._wait()
            self.paint()
        else:
            self._stop()

    def _stop(self) -> None:
        """Stand still where the cursor is."""
        if self._timer is not None:
            self._timer.stop()
        if self._tempo is not None:
            self._tempo = self._timer = None
            self.controller.take([StateChanged(RunState.PAUSED, RECORDING)])
            self.paint()

    def _handle_exception(self, error: Exception) -> None:
        """End with one line where a step cannot be read; Textual would print a traceback."""
        if isinstance(error, SessionError):
            self.damage = self.damage or str(error)
            self._return_code = EXIT_USAGE
            self._close_messages_no_wait()
        else:
            super()._handle_exception(error)

    def on_unmount(self) -> None:
        super().on_unmount()
        with contextlib.suppress(OSError):
            self._session.close()


def request_of(session: Session, asked: Request) -> Request:
    """``asked``, with the session's own settings and prompt."""
    settings, prompt = session.settings, session.prompt
    configure = asked.configure
    if settings is not None:
        configure = Configure(
            settings.preset,
            spec=settings.chain_spec,
            seed=settings.seed,
            max_tokens=asked.configure.max_tokens,
        )
    text, chat = (prompt.text, prompt.chat) if prompt is not None else ("", False)
    return Request(asked.open, configure, Submit(text, chat=chat), asked.breakpoints, asked.save)
