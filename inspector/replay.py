"""A saved session in the engine's place: it answers what it holds, and says what it cannot do."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from engine.commands import (
    Command,
    Configure,
    DeleteBranch,
    NameBranch,
    Pause,
    Run,
    SendLogits,
    SendVocabulary,
    Step,
    Submit,
    Tokenize,
    UndoDelete,
)
from engine.records import ModelFacts, PromptRecord, Record, RunState, StateChanged
from sessions.diff import Change, model_changes
from sessions.format import SessionError
from sessions.reader import Session
from sessions.tempo import arrivals_ms

RECORDING = "a recording"
REFUSAL = "this is a recording: --live attaches the model"
NOT_STORED = "the rest is not stored"
"""Why a step has no whole logits."""

_ASKS_FOR_A_MODEL = (
    Configure,
    DeleteBranch,
    NameBranch,
    Run,
    Step,
    Submit,
    Tokenize,
    UndoDelete,
)


class ReplayClient:
    """An engine client without an engine. ``say`` gets a line where a model would be needed."""

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
    """Why the recorded run cannot go on with this model; empty where it can."""
    recorded = session.facts
    if recorded is not None and recorded.vocab_size != facts.vocab_size:
        return (
            f"recorded with a vocabulary of {recorded.vocab_size:,} tokens, and {facts.name} has "
            f"{facts.vocab_size:,}: attach {recorded.name} with --model"
        )
    return ""


def differences(session: Session, facts: ModelFacts) -> list[Change]:
    """What is not the same with this model and this machine as when the run was recorded."""
    return list(model_changes(session.facts, facts))


class Tempo:
    """When each token that follows the cursor arrives, ``speed`` times as fast as it did."""

    def __init__(
        self, session: Session, way: list[int], cursor: int, speed: float, *, streaming: bool
    ) -> None:
        """``way``: the nodes from the first token to the end of the branch."""
        steps = [session.steps[node] for node in way]
        arrivals = arrivals_ms(session.prompt, session.prefill, steps)
        at = way.index(cursor) + 1 if cursor in way else 0
        began = arrivals[at - 1] if at else 0.0
        self._due = [(arrival - began) / 1000.0 / speed for arrival in arrivals[at:]]
        self._nodes = way[at:]
        if not streaming:
            # The whole text at once, at the moment at which its last token would have come.
            self._due, self._nodes = self._due[-1:], self._nodes[-1:]

    def __bool__(self) -> bool:
        return bool(self._nodes)

    def arrived(self, elapsed_s: float) -> list[int]:
        """The nodes that have come by now, each told once."""
        count = sum(due <= elapsed_s for due in self._due)
        found, self._nodes, self._due = self._nodes[:count], self._nodes[count:], self._due[count:]
        return found

    def wait_s(self, elapsed_s: float) -> float:
        """Seconds until the next one comes."""
        return max(0.0, self._due[0] - elapsed_s) if self._due else 0.0


def prompt_of(session: Session) -> PromptRecord:
    """The session's prompt. Raises SessionError where it holds none."""
    if session.prompt is None:
        raise SessionError(f"{session.path} holds no prompt: there is nothing to replay")
    return session.prompt
