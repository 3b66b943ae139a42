"""What the keys mean: the cursor, and which command goes to the engine. No screen in here."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from engine.commands import Command, Pause, Restore, Run, SendLogits, SendVocabulary, Step
from engine.records import EngineError, Record, RunState, StateChanged, StepRecord
from inspector.view import ROOT, RunLog, View

_BUSY = (RunState.STARTING, RunState.LOADING, RunState.PREFILL, RunState.RUNNING)


class Controller:
    """One run under the user's hands. ``send`` takes commands to the engine."""

    def __init__(self, send: Callable[[Command], None]) -> None:
        self.log = RunLog()
        self.cursor = ROOT
        self._send = send
        # A command is on its way and no state has come back for it yet.
        self._sent = False
        # Steps asked for while a pass was running: held keys must not be lost, nor fork the tip.
        self._queued = 0
        # The parent whose new child the cursor is to move to (a fork beside the cursor).
        self._follow: int | None = None
        self._asked: set[int] = set()

    @property
    def view(self) -> View:
        return View(self.log, self.cursor)

    @property
    def busy(self) -> bool:
        """Whether a pass runs or is about to."""
        return self._sent or self.log.state.state in _BUSY

    @property
    def running(self) -> bool:
        """Whether the engine goes on by itself (run, prefill), so that a pause means something."""
        return self.log.state.state in (RunState.RUNNING, RunState.PREFILL) or self._sent

    def take(self, records: Iterable[Record]) -> None:
        """Take in records. The cursor follows a new token that was drawn right after it."""
        for record in records:
            self.log.add(record)
            match record:
                case StepRecord() if record.parent in (self.cursor, self._follow):
                    self.cursor, self._follow = record.node, None
                case StateChanged():
                    self._sent = False
                    self._settle(record.state)
                case EngineError():
                    self._queued = 0

    def _settle(self, state: RunState) -> None:
        if state in (RunState.PAUSED, RunState.READY) and self._queued:
            self._queued -= 1
            self.step()
        elif state in (RunState.STOPPED, RunState.DEAD):
            self._queued = 0

    # --- moving -------------------------------------------------------------------------------

    def step(self) -> None:
        """Follow the recorded child, or have one pass run."""
        following = self.log.children.get(self.cursor)
        if following:
            self.cursor = following[-1]
        elif self.busy:
            self._queued += 1
        else:
            self._do(Step(self.cursor))

    def back(self) -> None:
        """To the parent; nothing is computed and nothing lost."""
        step = self.log.nodes.get(self.cursor)
        if step is not None:
            self.cursor = step.parent

    def first(self) -> None:
        self.cursor = ROOT

    def last(self) -> None:
        self.cursor = self.log.tip(self.cursor)

    def go_to(self, node: int) -> None:
        """Move to a node that exists; anything else is ignored."""
        if node == ROOT or node in self.log.nodes:
            self.cursor = node

    # --- running ------------------------------------------------------------------------------

    def run(self, count: int | None = None) -> None:
        """Go on by ``count`` steps (or until the run stops): recorded ones first."""
        if count is not None:
            while count and (following := self.log.children.get(self.cursor)):
                self.cursor = following[-1]
                count -= 1
            if count == 0:
                return
        else:
            self.last()
        if not self.busy:
            self._do(Run(self.cursor, count))

    def pause(self) -> None:
        self._queued = 0
        self._send(Pause())

    def toggle(self) -> None:
        """Pause what runs; run what is paused."""
        if self.running:
            self.pause()
        else:
            self.run()

    def force(self, token_id: int) -> None:
        """Beside the cursor's token, take ``token_id`` instead: a new branch."""
        self._beside(lambda parent: Step(parent, force=token_id))

    def redraw(self) -> None:
        """Beside the cursor's token, draw again with the first seed not used there yet."""
        step = self.log.nodes.get(self.cursor)
        if step is None:
            return
        siblings = self.log.children[step.parent]
        seed = 1 + max(self.log.nodes[node].seed for node in siblings)
        self._beside(lambda parent: Step(parent, seed=seed))

    def _beside(self, command: Callable[[int], Step]) -> None:
        step = self.log.nodes.get(self.cursor)
        if step is not None and not self.busy:
            self._follow = step.parent
            self._do(command(step.parent))

    def _do(self, command: Command) -> None:
        self._sent = True
        self._send(command)

    # --- asking -------------------------------------------------------------------------------

    def need_dense(self, node: int) -> None:
        """Ask once for a node's whole logits, and once for the names of all tokens."""
        if self.log.vocabulary is None and -1 not in self._asked:
            self._asked.add(-1)
            self._send(SendVocabulary())
        dense = self.log.dense
        if node in self.log.nodes and (dense is None or dense.node != node):
            self._send(SendLogits(node))

    def restore_command(self) -> Restore | None:
        """What a new engine needs to go on where the last one died; None before any prompt."""
        self._sent, self._queued, self._follow = False, 0, None
        self._asked.clear()
        if self.log.prompt is None:
            return None
        return Restore(self.log.prompt, self.log.prefill, dict(self.log.nodes), self.cursor)
