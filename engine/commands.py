"""Commands to the engine: small frozen values that cross the pipe to its process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.conditions.breakpoints import Breakpoint
from engine.records.alone import DrawnColumn
from engine.records.prompt import PrefillRecord, PromptRecord
from engine.records.round import DraftSettings
from engine.records.step import StepRecord
from engine.records.thinking import ThinkingSettings
from engine.records.vocabulary import Token


@dataclass(frozen=True, slots=True)
class Open:
    """Load a model through a backend of the registry; ``options`` are that backend's own."""

    backend: str = "hf"
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Settings:
    """Sampler settings as somebody gave them; the engine resolves the rest."""

    preset: str = "guide"
    dials: Mapping[str, Any] = field(default_factory=dict)
    spec: str = ""
    live: frozenset[str] = frozenset()
    """Dials that were turned in the running session, not given at its start."""
    draft: DraftSettings | None = None
    """Speculative decoding; None: as it is."""


@dataclass(frozen=True, slots=True)
class Configure(Settings):
    """The run's settings, its seed and its limits from now on; answered with all effective ones.

    ``None`` leaves a limit as it is.
    """

    seed: int = 0
    max_tokens: int | None = None
    chunk: int | None = None
    thinking: ThinkingSettings | None = None
    """Tags and budget of thinking; None: the model's own tags, and no budget."""


@dataclass(frozen=True, slots=True)
class Submit:
    """A new prompt; the tree before it is gone."""

    text: str
    chat: bool = False
    system: str | None = None


@dataclass(frozen=True, eq=False)
class Restore:
    """Take over a recorded tree (after an engine died, or from a file).

    ``next_node`` is a number that no node has had yet, not even a deleted one.
    """

    prompt: PromptRecord
    prefill: PrefillRecord | None
    records: Mapping[int, StepRecord]
    next_node: int = 1

    @property
    def tokens(self) -> Iterator[Token]:
        """Every token that the records name."""
        yield from self.prompt.tokens
        for step in self.records.values():
            yield from (step.token, *step.top.tokens)


@dataclass(frozen=True, slots=True)
class Step:
    """One new child of ``parent``, reading the prompt first where that is still to do.

    With ``force`` nothing is drawn: these ids follow, one after another. Settings and seed that
    are not named are the run's current ones.
    """

    parent: int
    force: tuple[int, ...] = ()
    seed: int | None = None
    settings: Settings | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """Step from ``parent`` on until the run stops, ``count`` steps are done, or a pause.

    With settings or a seed of its own it is a new branch, all of whose steps are drawn with these.
    """

    parent: int
    count: int | None = None
    seed: int | None = None
    settings: Settings | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """A column that goes on behind ``parent``; ``number`` names it, ``title`` is for people.

    Settings and seed that are not named are the run's current ones; columns of one seed have the
    same dice at the same position. With ``force`` its next token is that one, not a drawn one.
    One that is ``held`` is a column of the comparison, and takes no step.
    """

    number: int
    parent: int
    settings: Settings | None = None
    seed: int | None = None
    force: int | None = None
    title: str = ""
    held: bool = False


@dataclass(frozen=True, slots=True)
class StepMany:
    """One new child of each column's parent, from one pass over all that need one; ``count`` times.

    With ``count`` None until every column has ended, or a pause. Columns end one by one, at a stop
    or an error of their own; a breakpoint in any of them pauses all. Columns that come, go or are
    paused are another StepMany, sent when this one is done.
    """

    columns: tuple[Column, ...]
    count: int | None = 1


@dataclass(frozen=True, slots=True)
class NameBranch:
    """Call the branch that begins with ``node`` so; "" takes its name away."""

    node: int
    name: str


@dataclass(frozen=True, slots=True)
class DeleteBranch:
    """Forget ``node`` and all that comes after it."""

    node: int


@dataclass(frozen=True, slots=True)
class UndoDelete:
    """Bring back the branch that was deleted last, if no token has come since."""


@dataclass(frozen=True, slots=True)
class SetBreakpoints:
    """Replace all breakpoints. Tokens that ``watches`` name are recorded at every step too."""

    points: tuple[Breakpoint, ...] = ()
    watches: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pause:
    """Stop between two passes."""


@dataclass(frozen=True, slots=True)
class SendLogits:
    """Answer with the whole logit vector that ``node`` was drawn from."""

    node: int


@dataclass(frozen=True, slots=True)
class ShowNext:
    """Answer with ``Upcoming``: what the token after ``parent`` will be drawn from; draw nothing.

    The prompt is read first where that is still to do; another command that comes ends that.
    There is no answer where a branch had to be read again, or the settings leave no token.
    """

    parent: int
    settings: Settings | None = None


@dataclass(frozen=True, slots=True)
class SendVocabulary:
    """Answer with every token of the model."""


@dataclass(frozen=True, slots=True)
class Tokenize:
    """Answer with the tokens that make up ``text`` where it goes on a text that has begun."""

    text: str


@dataclass(frozen=True, slots=True)
class Measure:
    """Measure the ceilings that the loaded model runs under; with ``rival``, take turns with it.

    A turn is ``tokens`` tokens after ``prompt``; there are ``rounds``, after a short one that
    warms up. Ceilings take about three times ``seconds``. The tree before it is gone.
    """

    prompt: str
    rival: str | None = None
    tokens: int = 32
    rounds: int = 5
    seconds: float = 0.6


@dataclass(frozen=True, slots=True)
class MeasureCeilings:
    """Answer with ``Measured``: what this machine can do at best with the loaded model's dtype.

    It takes about three times ``seconds``. The run stays as it is; one that goes on would stop for
    it, and would be measured with. With ``gives_way`` the next command that comes ends it at once,
    and there is no answer.
    """

    seconds: float = 0.6
    gives_way: bool = False


@dataclass(frozen=True, slots=True)
class MeasureDrift:
    """Answer with how far the logits that ``node`` was drawn from lie from a fresh read's.

    At the prompt (node 0), the logits after it. The run stays as it is.
    """

    node: int


@dataclass(frozen=True, eq=False, slots=True)
class MeasureAlone:
    """Answer with ``AloneMeasured``: each column's text read alone, and its tokens drawn again.

    The run stays as it is. The next command that comes ends it, with the columns that are done.
    """

    columns: tuple[DrawnColumn, ...]


@dataclass(frozen=True, slots=True)
class MeasureCurves:
    """Answer with what a token costs with a KV cache and without along ``node``'s branch.

    The run stays as it is.
    """

    node: int


@dataclass(frozen=True, slots=True)
class MeasureModules:
    """Answer with ``ModulesTimed``: times by module of a step after ``node``, and of its reading.

    The run stays as it is.
    """

    node: int


@dataclass(frozen=True, slots=True)
class MeasureLossless:
    """Answer with ``Lossless``: whether drafts change what is drawn behind the prompt."""

    draws: int


@dataclass(frozen=True, slots=True)
class CheckSampler:
    """Answer with ``SamplerCheck``: our preset of the engine's stack against its own sampler.

    Both are given the distribution that ``node`` was drawn from, with ``dials`` set.
    """

    node: int
    dials: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Close:
    """End the engine."""


Measurement = (
    Measure
    | MeasureCeilings
    | MeasureDrift
    | MeasureAlone
    | MeasureCurves
    | MeasureModules
    | MeasureLossless
    | CheckSampler
)
"""Commands that measure something beside the run."""

Command = (
    Open
    | Configure
    | Submit
    | Restore
    | Step
    | Run
    | StepMany
    | NameBranch
    | DeleteBranch
    | UndoDelete
    | SetBreakpoints
    | Pause
    | SendLogits
    | ShowNext
    | SendVocabulary
    | Tokenize
    | Measurement
    | Close
)
