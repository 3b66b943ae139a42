"""A saved session in the engine's place: it answers what it holds, and says what it cannot do."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from engine.commands import (
    Command,
    Configure,
    DeleteBranch,
    MeasureCurves,
    MeasureDrift,
    NameBranch,
    Pause,
    Run,
    SendLogits,
    SendVocabulary,
    Step,
    StepMany,
    Submit,
    Tokenize,
    UndoDelete,
)
from engine.records.columns import PassRecord
from engine.records.events import Record, RunState, StateChanged
from engine.records.model import ModelFacts
from engine.records.prompt import PromptRecord
from engine.records.step import StepRecord
from engine.records.step_table import figures_of
from sessions.file.format import SessionError
from sessions.reader import Session
from sessions.tempo import arrivals_ms

if TYPE_CHECKING:
    from sessions.compare.diff import Change

RECORDING = "a recording"
REFUSAL = "this is a recording: --live attaches the model"
NOT_STORED = "the rest is not stored"
"""The reason for which a step has no whole logits."""

_ASKS_FOR_A_MODEL = (
    *(Configure, DeleteBranch, MeasureCurves, MeasureDrift, NameBranch),
    *(Run, Step, StepMany, Submit, Tokenize, UndoDelete),
)


class ReplayClient:
    """An engine client without an engine. ``say`` gets a line where a model would be needed."""

    can_run = False

    def __init__(self, session: Session, say: Callable[[str], None] = lambda line: None) -> None:
        self.session = session
        self.say = say
        self.notify: Callable[[], None] = lambda: None
        self._records: deque[Record] = deque([StateChanged(RunState.PAUSED, RECORDING)])

    def send(self, command: Command) -> None:
        match command:
            case SendLogits(node):
                self._answer(self.session.dense(node))
            case SendVocabulary():
                self._answer(self.session.vocabulary)
            case Pause():
                self._answer(StateChanged(RunState.PAUSED, RECORDING))
            case _ if isinstance(command, _ASKS_FOR_A_MODEL):
                self.say(REFUSAL)
                self._answer(StateChanged(RunState.PAUSED, RECORDING))

    def take(self, timeout: float | None = 0.0) -> list[Record]:
        records = list(self._records)
        self._records.clear()
        return records

    def kill(self) -> None:
        """There is nothing to end."""

    def close(self, grace: float = 1.0) -> None:
        """There is nothing to end; the session is closed by who opened it."""

    def _answer(self, record: Record | None) -> None:
        if record is not None:
            self._records.append(record)
            self.notify()


def obstacle(session: Session, facts: ModelFacts) -> str:
    """The reason for which a recorded run cannot go on with this model; empty where it can."""
    recorded = session.facts
    if recorded is not None and recorded.vocab_size != facts.vocab_size:
        return (
            f"recorded with a vocabulary of {recorded.vocab_size:,} tokens, and {facts.name} has "
            f"{facts.vocab_size:,}: attach {recorded.name} with --model"
        )
    return ""


def differences(session: Session, facts: ModelFacts) -> list[Change]:
    """Differences of this model and machine from those of the recording."""
    from sessions.compare.diff import model_changes

    return list(model_changes(session.facts, facts))


class Tempo:
    """Arrival times of the tokens after each cursor, ``speed`` times as fast as recorded."""

    def __init__(
        self,
        session: Session,
        branches: Iterable[tuple[Sequence[StepRecord], int]],
        speed: float,
        *,
        streaming: bool,
        passes: Sequence[PassRecord] = (),
    ) -> None:
        """``branches``: each the steps from the first token to the last one, and the cursor.

        ``passes`` over columns: tokens of one pass come at once.
        """
        due: dict[int, float] = {}
        self._last: list[int] = []
        for branch, cursor in branches:
            arrivals = arrivals_ms(session.prompt, session.prefill, branch, passes)
            nodes: list[int] = figures_of(branch)["node"].tolist()
            at = nodes.index(cursor) + 1 if cursor in nodes else 0
            began = arrivals[at - 1] if at else 0.0
            for node, arrival in zip(nodes[at:], arrivals[at:], strict=True):
                # Branches may begin with the same tokens.
                due.setdefault(node, (arrival - began) / 1000.0 / speed)
            self._last += nodes[-1:]
        self._nodes = sorted(due, key=due.__getitem__)
        self._due = [due[node] for node in self._nodes]
        self.streaming = streaming
        """True if tokens are shown as they come; else the whole text when its last one comes."""

    def __bool__(self) -> bool:
        return bool(self._nodes)

    def arrived(self, elapsed_s: float) -> list[int]:
        """The nodes that have come by now, each told once; without streaming each branch's last."""
        if not self.streaming:
            found = self._last if self._nodes and self.left_s(elapsed_s) <= 0.0 else []
            self._due, self._nodes = ([], []) if found else (self._due, self._nodes)
            return found
        count = sum(due <= elapsed_s for due in self._due)
        found, self._nodes, self._due = self._nodes[:count], self._nodes[count:], self._due[count:]
        return found

    def wait_s(self, elapsed_s: float) -> float:
        """Seconds until the next one comes."""
        due = self._due[:1] if self.streaming else self._due[-1:]
        return max(0.0, due[0] - elapsed_s) if due else 0.0

    def left_s(self, elapsed_s: float) -> float:
        """Seconds until the last one comes, streaming or not."""
        return max(0.0, self._due[-1] - elapsed_s) if self._due else 0.0


def prompt_of(session: Session) -> PromptRecord:
    """The session's prompt. Raises SessionError where it holds none."""
    if session.prompt is None:
        raise SessionError(f"{session.path} holds no prompt: there is nothing to replay")
    return session.prompt
