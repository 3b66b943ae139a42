"""Records besides steps: state, loading, settings, branches, breakpoints, errors."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from engine.records.alone import AloneMeasured
from engine.records.arrays import FloatArray
from engine.records.cache import PoolState
from engine.records.columns import ColumnsSet, PassRecord
from engine.records.measured import CacheCurves, DriftMeasured, Lossless, Measured, ModulesTimed
from engine.records.model import ModelFacts
from engine.records.prompt import PrefillRecord, PromptRecord
from engine.records.round import DraftSettings, RoundRecord
from engine.records.sampler_check import SamplerCheck
from engine.records.step import StepRecord
from engine.records.thinking import ThinkingSettings
from engine.records.upcoming import Upcoming
from engine.records.vocabulary import Token, Vocabulary


@dataclass(frozen=True, slots=True)
class Setting:
    """The value of one dial and where it came from."""

    value: float | int | str | bool | None
    source: str


NAME_LENGTH = 60
"""Characters that the name of a branch has at most."""


@dataclass(frozen=True, slots=True)
class BranchNamed:
    """The new name of the branch that begins with ``node``; "" takes its name away."""

    node: int
    name: str


@dataclass(frozen=True, slots=True)
class BranchDeleted:
    """``node`` and all that comes after it are out of the tree; with ``undone`` they are back."""

    node: int
    undone: bool = False


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """One breakpoint as it stands. ``hits`` counts the steps where it struck.

    The next ``ignore`` hits do not stop the run. An assertion strikes where its condition does
    not hold. ``untold`` is the reason given the first time that the condition could not be told.
    """

    number: int
    text: str
    enabled: bool = True
    hits: int = 0
    ignore: int = 0
    asserts: bool = False
    told: int = 0
    """Steps at which the condition could be told."""
    untold: str = ""

    @property
    def name(self) -> str:
        """The breakpoint in words, such as ``breakpoint 1: entropy > 3``."""
        if self.asserts:
            return f"assertion {self.number} does not hold: {self.text}"
        return f"breakpoint {self.number}: {self.text}"


@dataclass(frozen=True, slots=True)
class BreakpointsSet:
    """The breakpoints and watches of a run from now on, with what was counted so far."""

    points: tuple[Breakpoint, ...] = ()
    watches: tuple[str, ...] = ()


class RunState(StrEnum):
    """State of the engine process."""

    STARTING = "starting"
    LOADING = "loading"
    READY = "ready"
    PREFILL = "prefill"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class StateChanged:
    """The engine's state, and in words why it changed (a stop reason, a pause, an error).

    ``unasked``: by a reading of the prompt that nobody waits for; no command is answered by it.
    """

    state: RunState
    reason: str = ""
    unasked: bool = False


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """A phase of loading; ``fraction`` is None where the length is not known."""

    phase: str
    fraction: float | None
    detail: str = ""

    @property
    def step(self) -> tuple[str, str]:
        """Phase and part: only of loading itself does the detail name a part (torch, weights)."""
        part = self.detail if self.phase == "load" and self.fraction is None else ""
        return self.phase, part


@dataclass(frozen=True, slots=True)
class SettingsChanged:
    """The effective sampler settings: every dial with its value and source, and the chain."""

    preset: str
    chain_spec: str
    seed: int
    dials: dict[str, Setting]
    notes: tuple[str, ...] = ()
    """Notes on what the preset's stack does unasked, and settings of the model it leaves out."""
    draft: DraftSettings = field(default_factory=DraftSettings)
    thinking: ThinkingSettings = field(default_factory=ThinkingSettings)


@dataclass(frozen=True, eq=False)
class DenseLogits:
    """The whole raw logit vector of one node, sent on request: float32, shape (vocab_size,)."""

    node: int
    logits: FloatArray


@dataclass(frozen=True, slots=True)
class Tokenized:
    """A text as tokens that go on a text which has begun, sent on request; or why it has none."""

    text: str
    tokens: tuple[Token, ...]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class EngineError:
    """One clear line: what went wrong and what to do. ``fatal`` means the engine is gone."""

    message: str
    fatal: bool = False
    detail: str = ""


Record = (
    StepRecord
    | RoundRecord
    | BranchNamed
    | BranchDeleted
    | BreakpointsSet
    | PromptRecord
    | PrefillRecord
    | ModelFacts
    | StateChanged
    | LoadProgress
    | SettingsChanged
    | PoolState
    | DenseLogits
    | Upcoming
    | Vocabulary
    | Tokenized
    | Measured
    | DriftMeasured
    | AloneMeasured
    | CacheCurves
    | Lossless
    | ColumnsSet
    | PassRecord
    | ModulesTimed
    | SamplerCheck
    | EngineError
)
