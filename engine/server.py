"""The engine's side of the pipe: commands in, records out, one pass at a time."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from itertools import islice
from multiprocessing.connection import Connection

from engine.backends import open_backend
from engine.backends.abilities import Numbering
from engine.backends.base import Backend, BackendError
from engine.backends.tokens import ids_of, tokenized
from engine.columns import columns_of
from engine.commands import (
    Close,
    Column,
    Command,
    Configure,
    DeleteBranch,
    Measure,
    MeasureAlone,
    MeasureCeilings,
    Measurement,
    NameBranch,
    Open,
    Pause,
    Restore,
    Run,
    SendLogits,
    SendVocabulary,
    SetBreakpoints,
    Settings,
    ShowNext,
    Step,
    StepMany,
    Submit,
    Tokenize,
    UndoDelete,
)
from engine.conditions.breakpoints import Breakpoints
from engine.conditions.condition import Condition, ConditionError
from engine.drafts.active import Drafts
from engine.inbox import Inbox
from engine.models.checks import ModelError
from engine.records.columns import ColumnsSet
from engine.records.events import (
    DenseLogits,
    EngineError,
    LoadProgress,
    Record,
    RunState,
    SettingsChanged,
    StateChanged,
)
from engine.records.step import StepRecord
from engine.run.checks import StepperError
from engine.run.stepper import Stepper
from engine.sampling.candidates import SamplingError
from engine.sampling.chain import Effective, SpecError, effective
from engine.steps import next_of, steps_of
from engine.timing import now_ms

_HELD = 256
"""Number of newest steps' records that the engine keeps; the app has them all."""

_POOL_EVERY_MS = 100.0
"""Interval in which a run sends the state of its pool; it also does at its end."""

_EXPECTED = (BackendError, ConditionError, ModelError, SamplingError, SpecError, StepperError)


class Engine:
    """Carries out commands on one Stepper. Records leave through ``send``."""

    def __init__(self, send: Callable[[Record], None], receive: Connection) -> None:
        self._send = send
        self._inbox = Inbox(receive)
        self._backend: Backend | None = None
        self._stepper: Stepper | None = None
        self._configure = Configure()
        self._opened = Open()
        self._open_failed = False
        self._pool_sent = 0.0
        # Chains that only steps of this run have named, and that have been told of.
        self._told: set[tuple[str, str]] = set()
        self._drafts = Drafts(self._progress)
        # The newest speculative round that was sent, and the columns.
        self._round_sent = 0
        self._columns_told = ColumnsSet()

    def serve(self) -> None:
        """Carry out commands until Close, or until nobody is at the other end."""
        try:
            while True:
                command = self._inbox.next()
                if isinstance(command, Close):
                    return
                self._carry_out(command)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return
        finally:
            self._drafts.close()
            if self._backend is not None:
                self._backend.close()

    def _carry_out(self, command: Command) -> None:
        if self._open_failed and not isinstance(command, Open):
            # What was asked of a model that could not be loaded; the one error has been said.
            return
        try:
            self._handle(command)
        except _EXPECTED as error:
            self._fail(str(error))
        except MemoryError:
            self._fail("out of memory: try a smaller model or a shorter prompt")
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise
        except Exception as error:  # the engine outlives what it did not foresee
            self._fail(f"{type(error).__name__}: {error}", traceback.format_exc())

    def _fail(self, message: str, detail: str = "") -> None:
        self._send(EngineError(" ".join(message.split()), detail=detail))
        if self._backend is None:
            self._state(RunState.DEAD, "no model is loaded")
        else:
            self._state(RunState.PAUSED, "after an error")

    def _state(self, state: RunState, reason: str = "", *, unasked: bool = False) -> None:
        self._send(StateChanged(state, reason, unasked))

    def _handle(self, command: Command) -> None:
        match command:
            case Open():
                self._open(command)
            case Configure():
                self._configure = command
                self._apply_settings()
            case Submit():
                self._send(self._run.submit(command.text, chat=command.chat, system=command.system))
                self._forget_told()
                self._state(RunState.READY)
            case Restore():
                self._restore(command)
            case Step() | Run():
                self._advance(command)
            case StepMany():
                self._advance_columns(command)
            case NameBranch():
                self._send(self._run.name(command.node, command.name))
            case DeleteBranch():
                self._send(self._run.delete(command.node))
                self._send_pool()
            case UndoDelete():
                self._send(self._run.undelete())
            case SetBreakpoints():
                self._set_breakpoints(command)
            case ShowNext():
                self._show_next(command)
            case SendLogits():
                self._send(DenseLogits(command.node, self._run.dense(command.node)))
            case SendVocabulary():
                self._send(self._loaded.vocabulary())
            case Tokenize():
                self._send(tokenized(self._loaded, command.text))
            case Pause():
                self._inbox.paused = True
            case _ if isinstance(command, Measurement):
                self._measure(command)

    def _measure(self, command: Measurement) -> None:
        from engine.measure.answer import answer  # 3 MiB, which a run has no use for

        gives_way = isinstance(command, MeasureAlone | MeasureCeilings)
        called = self._inbox.holds_any if gives_way else self._inbox.is_called
        self._send(answer(command, self._run, self._opened, self._progress, called))
        if isinstance(command, Measure):
            self._state(RunState.READY)

    # --- loading ----------------------------------------------------------------------------

    def _open(self, command: Open) -> None:
        self._open_failed = True
        self._opened = command
        self._state(RunState.LOADING)
        self._backend = open_backend(command.backend, dict(command.options), self._progress)
        self._stepper = Stepper(self._backend, held=_HELD)
        self._drafts.attach(self._backend, command)
        self._open_failed = False
        self._send(self._backend.facts)
        self._send_pool()
        self._apply_settings()
        self._state(RunState.READY)

    def _progress(self, phase: str, fraction: float | None, detail: str = "") -> None:
        self._send(LoadProgress(phase, fraction, detail))

    def _apply_settings(self) -> None:
        if self._stepper is None:
            return
        wanted, stepper = self._configure, self._stepper
        stepper.settings = self._resolved(wanted)
        stepper.seed = wanted.seed
        if wanted.max_tokens is not None:
            stepper.max_tokens = wanted.max_tokens
        if wanted.chunk is not None:
            stepper.reading.chunk = wanted.chunk
        try:
            stepper.thinking.use(wanted.thinking)
            self._drafts.use(wanted.draft)
        finally:
            stepper.speculation = self._drafts.speculation
            self._tell(stepper.settings, stepper.seed)

    def _resolved(self, wanted: Settings) -> Effective:
        return effective(
            wanted.preset,
            wanted.dials,
            spec=wanted.spec,
            generation_config=self._loaded.facts.generation_config,
            resolve=self._ids_of,
            live=wanted.live,
        )

    def _own_settings(self, command: Step | Run | Column) -> Effective | None:
        """The settings that a command names, told of once; None where it goes on with the run's."""
        if command.settings is None:
            return None
        stepper, own = self._run, self._resolved(command.settings)
        chain = own.chain.preset, own.spec
        if chain not in self._told and own.chain != stepper.settings.chain:
            self._told.add(chain)
            self._tell(own, stepper.seed if command.seed is None else command.seed)
            # What was told last is what the run goes on with.
            self._tell(stepper.settings, stepper.seed)
        return own

    def _forget_told(self) -> None:
        """Whoever follows the run has another one from now on."""
        self._told.clear()
        self._round_sent, self._columns_told = 0, ColumnsSet()

    def _tell(self, settings: Effective, seed: int) -> None:
        preset, spec, notes = settings.chain.preset, settings.spec, settings.notes
        draft, thinking = self._drafts.settings, self._run.thinking.settings
        self._send(SettingsChanged(preset, spec, seed, settings.dials, notes, draft, thinking))

    def _ids_of(self, text: str) -> list[int]:
        return ids_of(self._loaded, text)

    def _set_breakpoints(self, command: SetBreakpoints) -> None:
        """Take over the list. Raises BackendError for a token that this model has not."""
        stepper = self._run
        stepper.breakpoints = Breakpoints(command.points)
        watches = [Condition(text) for text in command.watches]
        stepper.watched = ()
        stepper.watch(*stepper.breakpoints.tokens)
        stepper.watch(*(text for one in watches for text in one.tokens))

    @property
    def _loaded(self) -> Backend:
        if self._backend is None:
            raise StepperError("no model is loaded yet")
        return self._backend

    @property
    def _run(self) -> Stepper:
        if self._stepper is None:
            raise StepperError("no model is loaded yet")
        return self._stepper

    # --- stepping ---------------------------------------------------------------------------

    def _restore(self, command: Restore) -> None:
        self._forget_told()
        if isinstance(self._backend, Numbering):
            self._backend.learn(command.tokens)
        self._run.restore(
            command.prompt, command.prefill, command.records, next_node=command.next_node
        )
        self._state(RunState.PAUSED, "taken over from the records")

    def _advance(self, command: Step | Run) -> None:
        """Step on from the node that the command names, and say where that ended."""
        stepper, node = self._run, command.parent
        settings = self._own_settings(command)
        if command.settings is not None and command.settings.draft is not None:
            stepper.speculation = self._drafts.opened(command.settings.draft)
        if not self._begin_running():
            return
        if isinstance(command, Step):
            steps = steps_of(command, stepper, settings, self._pause_wanted)
        else:
            run = stepper.run(self._pause_wanted, at=node, seed=command.seed, settings=settings)
            steps = islice(run, command.count)
        try:
            for record in steps:
                node = record.node
                self._send_step(record)
                self._send_pool_at_times()
        finally:
            stepper.speculation = self._drafts.speculation
            self._send_pool()
        stop = stepper.tree.stops.get(node)
        reached = stepper.verdict.reason
        if stop is not None:
            told = f"{reached}; {stop.detail}" if reached else stop.detail
            self._state(RunState.STOPPED, told)
        else:
            self._state(RunState.PAUSED, reached)

    def _advance_columns(self, command: StepMany) -> None:
        """Step on in all columns, and say where that ended."""
        columns = columns_of(
            command, self._run, self._drafts, self._own_settings, self._columns_told
        )
        if columns.state != self._columns_told:
            self._columns_told = columns.state
            self._send(columns.state)
        if not self._begin_running():
            return
        try:
            for steps, record in columns.run(command.count, self._pause_wanted):
                for step in steps:
                    self._send_step(step)
                self._send(record)
                self._send_pool_at_times()
        finally:
            self._send_pool()
        ended = RunState.PAUSED if columns.steps else RunState.STOPPED
        self._state(ended, columns.reason)

    def _begin_running(self) -> bool:
        """Read what is left of the prompt; False when a pause came in between."""
        self._inbox.paused = False
        if not self._read_prompt():
            self._state(RunState.PAUSED, "reading the prompt")
            return False
        self._state(RunState.RUNNING)
        return True

    def _show_next(self, command: ShowNext) -> None:
        """Nobody needs it: it makes way for any other command."""
        self._inbox.paused, unread = False, not self._prompt_is_read
        read = self._read_prompt(unasked=True)
        if unread:
            self._send_pool()
            ended = (RunState.READY, "") if read else (RunState.PAUSED, "reading the prompt")
            self._state(*ended, unasked=True)
        found = next_of(command, self._run, self._resolved) if read else None
        if found is not None:
            self._send(found)

    def _send_step(self, step: StepRecord) -> None:
        """Send a step; the first of a round with the round and all its steps, which are there."""
        if not step.round:
            self._send(step)
        elif step.round != self._round_sent:
            self._round_sent = step.round
            found = self._run.rounds[step.round]
            self._send(found)
            for node in found.nodes:
                self._send(self._run.nodes[node])

    @property
    def _prompt_is_read(self) -> bool:
        record = self._run.prefill_record
        return record is not None and record.done

    def _read_prompt(self, *, unasked: bool = False) -> bool:
        """Read what is left of the prompt; False when a pause came in between."""
        if self._prompt_is_read:
            return True
        self._state(RunState.PREFILL, unasked=unasked)
        for record in self._run.prefill():
            self._send(record)
            self._send_pool_at_times()
            if not record.done and self._pause_wanted():
                return False
        return True

    def _send_pool(self) -> None:
        state = self._run.pool_state()
        self._pool_sent = now_ms()
        if state is not None:
            self._send(state)

    def _send_pool_at_times(self) -> None:
        if now_ms() - self._pool_sent >= _POOL_EVERY_MS:
            self._send_pool()

    def _pause_wanted(self) -> bool:
        return self._inbox.pause_wanted(self._answer_between)

    def _answer_between(self, command: Command) -> None:
        try:
            self._handle(command)
        except _EXPECTED as error:
            self._send(EngineError(" ".join(str(error).split())))
