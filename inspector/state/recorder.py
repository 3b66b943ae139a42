"""Keeps a run in a session file as it goes, in a thread of its own: a disk may take its time."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from engine.records.alone import AloneMeasured
from engine.records.events import (
    BranchNamed,
    BreakpointsSet,
    DenseLogits,
    LoadProgress,
    Record,
    SettingsChanged,
    StateChanged,
    Tokenized,
)
from engine.records.measured import Measured
from engine.records.model import ModelFacts
from engine.records.prompt import PromptRecord
from engine.records.step import StepRecord
from engine.records.upcoming import Upcoming
from engine.records.vocabulary import Vocabulary
from engine.run.tree import ROOT
from inspector.state.view import RunLog
from sessions.file.format import SessionError
from sessions.file.paths import NameTakenError
from sessions.reader import open_session
from sessions.writer import SessionWriter

Place = Callable[[str], Path]
"""Choose the file for the run of a prompt. Raises SessionError."""
_NAMES_TRIED = 1000
_MOST_WAITING = 256
"""Records that may wait for the file before who brings more waits too."""
_PACE_S = 0.05
"""Seconds of that for each record: a disk that hangs slows a run down, and never stops it."""
_OF_THE_MOMENT = (LoadProgress, Measured, StateChanged, Tokenized, Upcoming)


class Recorder:
    """Writes the records of one run after another; nothing here waits for the disk but ``close``.

    A file is begun with the first token: a prompt that nothing was drawn for is not worth one.
    With ``place`` None nothing is kept until ``begin``. ``changed`` is called from the thread.
    """

    def __init__(
        self,
        place: Place | None,
        *,
        full_logits: bool = False,
        goes_on: Path | None = None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """``goes_on``: a session that the run begins with; the first file is begun as its copy."""
        self.path: Path | None = None
        """The file that is being written."""
        self.error = ""
        """The reason for which the run is not being saved; empty while it is, or is not wanted."""
        self.full_logits = full_logits
        self.changed = changed
        self.wanted = place is not None
        """True if the run is meant to be kept."""
        self._place = place
        self._goes_on = goes_on
        self._writer: SessionWriter | None = None
        self._early: list[Record] = []
        self._facts: ModelFacts | None = None
        self._settings: SettingsChanged | None = None
        self._breakpoints: BreakpointsSet | None = None
        self._news: deque[str] = deque()
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    # --- from any thread --------------------------------------------------------------------------

    def record(self, records: Iterable[Record]) -> None:
        for record in records:
            if not isinstance(record, _OF_THE_MOMENT):
                self._do(partial(self._add, record))

    def pace(self) -> None:
        """Wait a moment while the file is far behind; for the thread that brings records."""
        end = time.monotonic() + _PACE_S
        while self._jobs.qsize() > _MOST_WAITING and time.monotonic() < end:
            time.sleep(_PACE_S / 10)

    def move(self, path: Path) -> None:
        """Go on under another name, to which the file moves."""
        self._do(partial(self._move, path))

    def begin(self, path: Path, records: Iterable[Record]) -> None:
        """Keep the run from now on in a new file, which begins with ``records``."""
        self.wanted = True
        self._do(partial(self._begin, path, list(records)))

    def take_news(self) -> Iterator[str]:
        """Lines for the user that have not been shown yet."""
        while self._news:
            yield self._news.popleft()

    def flush(self, timeout: float = 10.0) -> bool:
        """Wait until all that was asked for is done; whether that was in time."""
        done = threading.Event()
        self._do(done.set)
        return done.wait(timeout)

    def close(self, timeout: float = 10.0) -> None:
        """Finish the file, and wait for that. Safe to call twice."""
        if self._thread is None:
            return
        self._do(self._finish)
        self._jobs.put(None)
        self._thread.join(timeout)
        self._thread = None

    def _do(self, job: Callable[[], None]) -> None:
        if self._thread is None:
            # A daemon: a disk that hangs must not keep the program from ending.
            self._thread = threading.Thread(target=self._work, name="recorder", daemon=True)
            self._thread.start()
        self._jobs.put(job)

    # --- in the thread ----------------------------------------------------------------------------

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except SessionError as error:
                self._fail(str(error))

    def _fail(self, line: str) -> None:
        self._writer = None
        if line != self.error:
            self.error = line
            self._say(f"not saved: {line}")

    def _say(self, line: str) -> None:
        self._news.append(line)
        self.changed()

    def _add(self, record: Record) -> None:
        match record:
            case ModelFacts():
                self._facts = record
            case SettingsChanged():
                self._settings = record
            case BreakpointsSet():
                self._breakpoints = record
            case PromptRecord():
                self._finish()
                self.error, self.path = "", None
                before = (self._facts, self._settings, self._breakpoints)
                self._early = [one for one in before if one is not None]
            case DenseLogits() | Vocabulary() if not self.full_logits:
                return
        if self._writer is not None:
            self._writer.add(record)
        elif self._place is not None and not self.error:
            self._early.append(record)
            if isinstance(record, StepRecord):
                self._start(self._place)

    def _start(self, place: Place) -> None:
        early, self._early = self._early, []
        prompt = next((one.text for one in early if isinstance(one, PromptRecord)), "")
        self._writer = self._opened(place, prompt)
        self.path = self._writer.path
        if self._goes_on is not None:
            with open_session(self._goes_on) as before:
                self._written.add_all(before.records())
            self._goes_on = None
        self._written.add_all(early)
        self.changed()

    @property
    def _written(self) -> SessionWriter:
        assert self._writer is not None, "opened in the line before"
        return self._writer

    def _opened(self, place: Place, prompt: str) -> SessionWriter:
        """A new file; where another program was faster to take the name, under the next one."""
        taken: NameTakenError | None = None
        for _ in range(_NAMES_TRIED):
            try:
                writer = SessionWriter(place(prompt), full_logits=self.full_logits)
            except NameTakenError as error:
                taken = taken or error
            except SessionError:
                if taken is None:
                    raise
                # There is no next name for a file that the user has named.
                break
            else:
                if taken is not None:
                    self._say(f"another program took the name: saved as {writer.path}")
                return writer
        assert taken is not None, "else a file was opened"
        raise taken

    def _begin(self, path: Path, records: list[Record]) -> None:
        self._finish()
        try:
            writer = SessionWriter(path, full_logits=self.full_logits)
            writer.add_all([*records, *([self._breakpoints] if self._breakpoints else [])])
        except SessionError as error:
            self._say(f"not saved: {error}")
            return
        self._writer, self._early, self.path, self.error = writer, [], path, ""
        self._say(f"saved as {path}")

    def _move(self, path: Path) -> None:
        if self._writer is None:
            return
        try:
            self._writer.move(path)
        except SessionError as error:
            # A name that is taken is no reason to stop writing where it was.
            if self._writer.failed is not None:
                raise
            self._say(str(error))
            return
        self.path = path
        self._say(f"saved as {path}")

    def _finish(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()


def records_of(log: RunLog) -> Iterator[Record]:
    """All records of a log, in an order in which a live run sends them."""
    nodes = [node for node in sorted(log.nodes) if node != ROOT and node not in log.tree.deleted]
    now = _settings_of(log, log.nodes[nodes[0]]) if nodes else log.settings
    yield from (one for one in (log.facts, now, log.prompt, log.prefill) if one)
    passes = {max(one.nodes, default=ROOT): one for one in log.passes}
    yield from (log.columns,) if log.columns.columns else ()
    for node in nodes:
        step = log.nodes[node]
        wanted = _settings_of(log, step)
        if wanted is not None and wanted is not now:
            yield wanted
            now = wanted
        if node in log.rounds:
            yield log.rounds[node]
        yield step
        if node in passes:
            yield passes[node]
    if log.settings is not None and log.settings is not now:
        yield log.settings
    yield from (BranchNamed(node, name) for node, name in log.names.items() if name)
    yield from log.drifts.values()
    if log.alone:
        yield AloneMeasured(log.facts.dtype if log.facts else "", tuple(log.alone.values()))
    yield from (one for one in (log.curves, log.pool) if one is not None)


def _settings_of(log: RunLog, step: StepRecord) -> SettingsChanged | None:
    """The settings that a step was drawn with, as they were told at that time."""
    return log.all_settings.get((step.preset, step.chain_spec), log.settings)
