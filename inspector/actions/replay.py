"""A saved session on the screen: without a model, or with one that goes on from any node."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from engine.commands import Configure, Submit
from engine.records.model import ModelFacts
from inspector.actions.host import Host
from inspector.actions.player import Player, Playing
from inspector.state.client import Client
from inspector.state.replay_client import NOT_STORED, ReplayClient, differences, obstacle
from inspector.state.request import Request
from sessions.reader import Session


@dataclass(frozen=True)
class Recording:
    """A session to show, and how; ``attach`` starts an engine where there is to be one."""

    session: Session
    attach: Callable[[], Client] | None = None
    playing: Playing = field(default_factory=Playing)
    read_only: bool = False
    at_end: bool = True
    """Shown from the end of the branch that the run was left on, or from the prompt."""


class Replay:
    """Puts a recording where a run would be, and hands it to an engine that can go on with it."""

    def __init__(self, host: Host, recording: Recording) -> None:
        self._host = host
        self._recording = recording
        self._recorded: ModelFacts | None = None
        self.player = Player(host, recording.session, recording.playing)

    def begin(self) -> None:
        """Show the recording; the engine, where one is wanted, is attached once it is there."""
        host, session = self._host, self._recording.session
        controller = host.controller
        self._take_in(session)
        if session.told:
            host.say(session.told)
        played = bool(self._recording.playing.speed)
        self._recall_breakpoints(anew=played)
        # On the branch that the run was left on; what is played begins before it.
        controller.cursor.node = session.tip
        if played or not self._recording.at_end:
            controller.cursor.first()
        if self._recording.attach is not None:
            host.engine.use(self._recording.attach())
            for command in (host.asked.open, host.asked.configure):
                host.engine.send(command)

    def _take_in(self, session: Session) -> None:
        controller, log = self._host.controller, self._host.controller.log
        log.not_stored = "" if session.full_logits else NOT_STORED
        records = session.records(steps=False)
        controller.replay(records, session.steps, session.tree, session.rounds)
        self._recorded = log.facts

    def show(self, session: Session) -> None:
        """Show another recording, without a model, in this one's place."""
        self.end()
        self._recording = replace(self._recording, session=session)
        self._host.engine.use(ReplayClient(session))
        self._take_in(session)

    def _recall_breakpoints(self, *, anew: bool) -> None:
        """Have the breakpoints and watches of the recorded run; played anew, they count anew."""
        kept = self._recording.session.breakpoints
        if kept is None:
            return
        refused = self._host.controller.breakpoints.recall(kept, anew=anew)
        if refused:
            more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
            self._host.say(refused[0] + more, warn=True)

    def model_is_there(self, facts: ModelFacts) -> None:
        """Hand the recorded tree to an engine that can go on with it, and say what differs."""
        host, session = self._host, self._recording.session
        if facts is self._recorded:
            return
        reason = obstacle(session, facts)
        if reason:
            # Without the model, then: it is not the one.
            host.say(reason, warn=True)
            host.engine.use(ReplayClient(session))
            host.controller.log.facts = self._recorded
            return
        changes = differences(session, facts)
        if changes:
            words = "; ".join(f"{one.name}: {one.a} then, {one.b} now" for one in changes)
            host.say(f"not the same as when it was recorded: {words}", warn=True)
        else:
            host.say("the same model as when it was recorded")
        host.controller.log.not_stored = ""
        restore = host.controller.restore_command()
        if restore is not None:
            host.engine.send(restore)
        host.controller.tell_breakpoints()

    def end(self) -> None:
        with contextlib.suppress(OSError):
            self._recording.session.close()


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
            draft=settings.draft,
            thinking=settings.thinking,
        )
    text, chat = (prompt.text, prompt.chat) if prompt is not None else ("", False)
    return Request(asked.open, configure, Submit(text, chat=chat), asked.breakpoints, asked.save)
