"""Recording of the run on screen, and news of how that goes."""

from __future__ import annotations

from engine.commands import SendLogits, SendVocabulary
from engine.records.events import BreakpointsSet, DenseLogits, Record
from engine.records.prompt import PromptRecord
from engine.records.step import StepRecord
from inspector.actions.host import Host
from inspector.state.recorder import Recorder


class Keeping:
    """The file that holds what is on screen. ``recorder``: None where there is no run."""

    def __init__(self, host: Host, recorder: Recorder | None) -> None:
        self._host = host
        self.recorder = recorder
        self._breakpoints = BreakpointsSet()

    def begin(self) -> None:
        if self.recorder is not None:
            self.recorder.changed = self._changed

    def _changed(self) -> None:
        """In the recorder's thread."""
        self._host.call_later(self.tell)

    def keep(self, records: list[Record]) -> list[Record]:
        """Have records kept. Returns those that the screen has a use for."""
        recorder = self.recorder
        if recorder is None:
            return records
        recorder.record(records)
        if recorder.full_logits:
            for record in records:
                if isinstance(record, PromptRecord):
                    self._host.engine.send(SendVocabulary())
                elif isinstance(record, StepRecord):
                    self._host.engine.send(SendLogits(record.node))
        cursor = self._host.controller.cursor.node
        # Whole logits that were asked for only to be kept would take those away that are looked at.
        made = {record.node for record in records if isinstance(record, StepRecord)}
        return [
            one
            for one in records
            if not isinstance(one, DenseLogits) or one.node == cursor or one.node in made
        ]

    def pace(self) -> None:
        """Hold up the thread that brings records while the file is far behind."""
        if self.recorder is not None:
            self.recorder.pace()

    def keep_breakpoints(self) -> None:
        """Have the breakpoints and watches kept: a change at once, counts when the run stands."""
        controller = self._host.controller
        now, kept = controller.breakpoints.record, self._breakpoints
        if self.recorder is None or now == kept:
            return
        if _defined(now) != _defined(kept) or not controller.busy:
            self._breakpoints = now
            self.recorder.record([now])

    def end(self) -> None:
        if self.recorder is not None:
            self.keep_breakpoints()
            self.recorder.close()

    def tell(self) -> None:
        """Show what the recorder has to say, and mark a run that is not being kept."""
        if self.recorder is None:
            return
        for line in self.recorder.take_news():
            self._host.say(line, warn=bool(self.recorder.error))
        log = self._host.controller.log
        if log.unsaved != self.recorder.error:
            log.unsaved = self.recorder.error
            self._host.paint()

    @property
    def kept(self) -> bool:
        """True if all there is lies in a file, or there is nothing."""
        recorder = self.recorder
        if recorder is None or not self._host.controller.log.nodes:
            return True
        return recorder.wanted and not recorder.error

    @property
    def error(self) -> str:
        """The reason why the run is not being kept; empty while it is."""
        return self.recorder.error if self.recorder is not None else ""


def _defined(breakpoints: BreakpointsSet) -> tuple[object, ...]:
    """The part that the user set, without what was counted."""
    points = [(one.number, one.text, one.enabled, one.asserts) for one in breakpoints.points]
    return points, breakpoints.watches
