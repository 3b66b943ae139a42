"""Meaning of the keys: cursor moves, and commands to the engine. No screen here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Any

from engine.commands import (
    CheckSampler,
    Command,
    Configure,
    DeleteBranch,
    MeasureCeilings,
    NameBranch,
    Pause,
    Restore,
    Run,
    SendLogits,
    SendVocabulary,
    SetBreakpoints,
    Step,
    Submit,
    Tokenize,
    UndoDelete,
)
from engine.records.events import (
    BranchDeleted,
    EngineError,
    LoadProgress,
    Record,
    RunState,
    StateChanged,
)
from engine.records.measured import MEASURING_CEILINGS
from engine.records.prompt import PromptRecord
from engine.records.round import RoundRecord
from engine.records.step import StepRecord, StopKind
from engine.run.tree import ROOT, Tree
from inspector.state.breakpoints import BreakpointState
from inspector.state.cursor import Cursor
from inspector.state.next_token import NextToken
from inspector.state.view import RunLog, View

_NOT_THERE = (RunState.STARTING, RunState.LOADING)
_BUSY = (RunState.STARTING, RunState.LOADING, RunState.PREFILL, RunState.RUNNING)


class Controller:
    """One run under the user's hands. ``send`` takes commands to the engine."""

    def __init__(self, send: Callable[[Command], None]) -> None:
        self.log = RunLog()
        self.cursor = Cursor(self.log)
        """The cursor that keys move, and from which the run goes on."""
        self.next_token = NextToken(self.cursor, send)
        self.breakpoints = BreakpointState(self.log)
        self._send = send
        # What the engine knows of the breakpoints.
        self._told = SetBreakpoints()
        # A command is on its way and no state has come back for it yet.
        self._sent = False
        # Steps that were asked for while a pass ran, held keys among them, are counted in the log.
        # Whether what was asked of the engine ends by itself after so many steps.
        self._counted = True
        self._run_when_ready = False
        # The parent whose new child the cursor is to move to (a fork beside the cursor).
        self._follow: int | None = None
        # How many tokens it follows yet (None: all), and whether a breakpoint ends that.
        self._left: int | None = None
        self._stops = False
        self._asked: set[int] = set()
        self._wanted: int | None = None

    @property
    def view(self) -> View:
        """The log as the cursor sees it."""
        return self.cursor.view

    @property
    def busy(self) -> bool:
        """True if a pass runs or is about to."""
        return self._sent or self.log.state.state in _BUSY

    @property
    def running(self) -> bool:
        """True if the engine goes on by itself (run, prefill), so that a pause means something."""
        return self.log.state.state in (RunState.RUNNING, RunState.PREFILL) or self._sent

    def take(self, records: Iterable[Record]) -> None:
        """Take in records. The cursor follows a new token that was drawn right after it."""
        for record in records:
            first = self.log.prompt is None
            self.log.add(record)
            match record:
                case StepRecord():
                    self._arrive(record)
                case PromptRecord():
                    self._begin(first=first)
                case BranchDeleted():
                    self._deletion(record)
                case StateChanged(unasked=True) if self._sent:
                    pass  # The command that was sent since then is answered behind it.
                case StateChanged():
                    self._sent = False
                    if record.reason:
                        # Something stopped it: what was asked for before that is not wanted now.
                        self.log.queued = 0
                    self._settle(record.state)
                case EngineError():
                    self.log.queued = 0

    def _arrive(self, step: StepRecord) -> None:
        """Follow a new token, as far as tokens were asked for: a round may bring more."""
        follows = self._left != 0 and step.parent in (self.cursor.node, self._follow)
        if follows:
            self.cursor.node, self._follow = step.node, None
            self._left = None if self._left is None else self._left - 1
        if follows or step.round in (0, step.node):
            # Others are in a round that was stopped in: they are reached when they are gone to.
            stops = self.breakpoints.reached(step.node)
            self._left = 0 if stops and self._stops else self._left

    def _begin(self, *, first: bool) -> None:
        """A new tree, of which nothing has been visited."""
        self.cursor.restart()
        if not first:
            # What was asked for while the model was loading is meant for the prompt given with it.
            self.log.queued = 0
        self._follow, self._wanted = None, None

    def _deletion(self, record: BranchDeleted) -> None:
        if record.undone:
            self.cursor.node = record.node
        else:
            self.cursor.leave_deleted(record.node)

    def _settle(self, state: RunState) -> None:
        if state in (RunState.PAUSED, RunState.READY):
            if self.log.prompt is None:
                return  # The model is loaded, but its prompt is still to come: with another READY.
            if self._run_when_ready:
                self._run_when_ready = False
                self.run()
            while self.log.queued and not self.busy:
                self.log.queued -= 1
                self.step()
        elif state in (RunState.STOPPED, RunState.DEAD):
            self.log.queued = 0
            self._run_when_ready = False
        if self.log.ceilings_awaited and not self.busy:
            self.measure_ceilings()

    def replay(
        self,
        records: Iterable[Record],
        nodes: MutableMapping[int, StepRecord],
        tree: Tree,
        rounds: MutableMapping[int, RoundRecord],
    ) -> None:
        """Take in a recorded run: its tree, its rounds, and all other records of it."""
        self.take(records)
        self.log.take_over(nodes, tree, rounds)

    # --- moving -------------------------------------------------------------------------------

    def stay(self) -> None:
        """Follow no token that was not asked for here."""
        self._left, self._follow = 0, None

    def step(self) -> None:
        """Follow the recorded child, or have one pass run."""
        if self.cursor.forward():
            return
        if self.busy:
            self.log.queued += 1
        else:
            self._do(Step(self.cursor.node))

    def step_round(self) -> None:
        """To the last token of the speculative round that goes on here, or comes next.

        A plain token is one by itself. While a pass runs, nothing new is asked for.
        """
        if self.cursor.forward():
            self.cursor.round_end()
        elif not self.busy:
            self._do(Step(self.cursor.node))
            # The engine sends all tokens of the round.
            self._left = None

    # --- running ------------------------------------------------------------------------------

    def run(self, count: int | None = None) -> None:
        """Go on by ``count`` steps, or until something stops the run: recorded steps first."""
        left = count
        while left != 0 and self.cursor.forward():
            if self.breakpoints.reached(self.cursor.node):
                return
            left = None if left is None else left - 1
        if left == 0:
            return
        if not self.busy:
            self._do(Run(self.cursor.node, left))
            self._counted = left is not None
        elif left is not None and self._counted:
            self.log.queued += left
        elif self.next_token.reading or self.log.state.state in _NOT_THERE:
            # It begins when the model is there, and has read the prompt that it reads by itself.
            self._run_when_ready = True

    @property
    def at_budget(self) -> bool:
        """True if the token budget is what keeps the run from going on from the cursor."""
        step = self.log.nodes.get(self.cursor.node)
        stop = step.stop if step is not None and self.cursor.at_tip else None
        return stop is not None and stop.kind is StopKind.LENGTH and not self.busy

    def go_beyond(self, settings: Configure) -> None:
        """Go on from a token at which the budget was used up, with another one."""
        self._send(settings)
        self._run_when_ready = True
        self._do(Step(self.cursor.node))

    def reverse(self) -> bool:
        """Back to the last step where a breakpoint strikes; False, and to the prompt, if none."""
        found = self.breakpoints.before(self.cursor.node)
        self.cursor.node = ROOT if found is None else found
        return found is not None

    def tell_breakpoints(self) -> None:
        """Let the engine know what has changed about breakpoints and watches."""
        command = self.breakpoints.command
        if command != self._told:
            self._told = command
            self._send(command)

    def pause(self) -> None:
        self.log.queued = 0
        self._run_when_ready = False
        self._send(Pause())

    def toggle(self) -> None:
        """Pause what runs; run what is paused."""
        if self.running:
            self.pause()
        else:
            self.run()

    # --- branches -----------------------------------------------------------------------------

    def force(self, token_id: int, *, after: bool = False) -> bool:
        """Take ``token_id`` instead of the cursor's token; False where nothing is to be done.

        At the prompt, and with ``after``, beside the tokens that come next, if there are any.
        A branch that begins with it there already is gone to; it gets no twin.
        """
        log, step = self.log, None if after else self.log.nodes.get(self.cursor.node)
        parent = self.cursor.node if step is None else step.parent
        drawn = step is not None and step.token.id == token_id
        children = log.tree.children.get(parent, ())
        if self.busy or drawn or not (children or self.view.upcoming()):
            return False
        for node in children:
            if log.nodes[node].token.id == token_id:
                self.cursor.node = node
                return True
        self.fork(Step(parent, force=(token_id,)))
        return True

    def redraw(self) -> None:
        """Beside the cursor's token, draw again with the first seed not used there yet."""
        self._beside(lambda parent: Step(parent, seed=self.unused_seed(parent)))

    def unused_seed(self, parent: int) -> int | None:
        """The first seed with which nothing was drawn after ``parent``; None: the run's own."""
        seeds = [self.log.nodes[node].seed for node in self.log.tree.children.get(parent, ())]
        return 1 + max(seeds) if seeds else None

    def fork(self, step: Step) -> None:
        """Make a new branch, and go along with it; while a pass runs, nothing."""
        if not self.busy:
            self._follow = step.parent
            self._do(step)

    def submit(self, prompt: Submit) -> None:
        """Begin a new run with this prompt; the old tree stays if the engine refuses it."""
        self._do(prompt)

    def name_branch(self, node: int, name: str) -> None:
        self._send(NameBranch(node, name))

    def delete(self, node: int) -> None:
        """Delete a node and all that comes after it; while a pass runs, nothing."""
        if not self.busy:
            self._send(DeleteBranch(node))

    @property
    def can_undo(self) -> bool:
        return bool(self.log.tree.undoable)

    def undo(self) -> None:
        if self.can_undo and not self.busy:
            self._send(UndoDelete())

    def apply(self, settings: Configure, *, here: bool) -> None:
        """Let the run go on with other settings; what was tried is then no longer tried.

        In recorded text that is a fork: of the next token, or ``here``, of the cursor's own, which
        the same dice draw again. While the engine runs, its next passes use them, and no more.
        """
        self._send(settings)
        self.cursor.what_if = None
        step = self.log.nodes.get(self.cursor.node)
        if here and step is not None:
            seed = step.seed
            self._beside(lambda parent: Step(parent, seed=seed))
        elif not self.cursor.at_tip and not self.busy:
            self._do(Step(self.cursor.node))

    def _beside(self, command: Callable[[int], Step]) -> None:
        step = self.log.nodes.get(self.cursor.node)
        if step is not None:
            self.fork(command(step.parent))

    def _do(self, command: Command) -> None:
        self.tell_breakpoints()
        self.next_token.forget()
        self._sent, self._counted = True, True
        match command:
            case Step():
                self._left, self._stops = max(1, len(command.force)), False
            case Run():
                self._left, self._stops = command.count, True
        self._send(command)

    # --- asking -------------------------------------------------------------------------------

    def need_next(self, node: int) -> None:
        """Ask for what the token after the cursor will be drawn from: ``log.upcoming``."""
        if not self.busy and node == self.cursor.node:
            self.next_token.ask()

    def need_vocabulary(self) -> None:
        """Ask once for the names of all tokens."""
        if self.log.vocabulary is None and -1 not in self._asked:
            self._asked.add(-1)
            self._send(SendVocabulary())

    def tokenize(self, text: str) -> None:
        """Ask for the tokens of a text; the answer is ``log.tokenized``."""
        self._send(Tokenize(text))

    def need_dense(self, node: int) -> None:
        """Ask once for a node's whole logits, and once for the names of all tokens."""
        if self.log.not_stored:
            return
        self.need_vocabulary()
        dense = self.log.dense
        missing = dense is None or dense.node != node
        # Panes ask at every paint; an engine that cannot answer must not be asked that often.
        if node in self.log.nodes and missing and self._wanted != node:
            self._wanted = node
            self._send(SendLogits(node))

    def check_sampler(self, node: int, dials: Mapping[str, Any]) -> None:
        """Ask for our preset to be held against the engine's own sampler: ``log.checks``."""
        self._send(CheckSampler(node, dials))

    def measure_ceilings(self) -> None:
        """Ask what this machine can do at best, as soon as nothing runs: ``log.measured``."""
        self.log.ceilings_awaited = self.busy
        if not self.busy:
            self._send(MeasureCeilings())

    def measure_ceilings_aside(self) -> None:
        """The same, while nothing is asked for: the next command ends it."""
        if not self.busy:
            self.log.loading = LoadProgress(MEASURING_CEILINGS, None)
            self._send(MeasureCeilings(gives_way=True))

    def restore_command(self) -> Restore | None:
        """The command that has a new engine go on with the run; None before any prompt."""
        self._sent, self._follow = False, None
        self.log.queued = 0
        self.log.ceilings_awaited = False
        self._asked.clear()
        self.next_token.forget(engine=True)
        self.log.tree.undoable.clear()
        self._wanted = None
        self._told = SetBreakpoints()
        if self.log.prompt is None:
            return None
        nodes, hidden = self.log.nodes, self.log.tree.deleted
        there = {node: nodes[node] for node in nodes if node not in hidden}
        next_node = 1 + max(nodes, default=ROOT)
        return Restore(self.log.prompt, self.log.prefill, there, next_node)
