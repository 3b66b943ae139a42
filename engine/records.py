"""The immutable records that flow from the engine to everything else.

Whatever a pane, a file or a test knows about a run it knows from these. They hold numpy arrays and
plain values only, so that a process which never imports torch can read them. Records compare by
identity (``eq=False``): arrays have no single truth value, and screens compare old with new.

Units: times are milliseconds, sizes are bytes, entropies and log-probabilities are in nats.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from engine.kv.blocks import BLOCK_SIZE
from engine.kv.prefix import PrefixReport
from engine.kv.state import PoolState
from engine.measurements import CacheCurves, DriftMeasured, Measured
from engine.model_facts import ModelFacts
from engine.vocabulary import Token, Vocabulary

IntArray = NDArray[np.int32]
FloatArray = NDArray[np.float32]
HalfArray = NDArray[np.float16]
DoubleArray = NDArray[np.float64]
CutArray = NDArray[np.int8]

SURVIVES = -1
"""Value of ``cut_by`` for a candidate that no stage has cut."""
CUT_BY_MODEL = -2
"""Value of ``cut_by`` for a candidate that the model itself gave a logit of minus infinity."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The value of one dial and where it came from."""

    value: float | int | str | bool | None
    source: str


@dataclass(frozen=True, eq=False, slots=True)
class StageTrace:
    """What one stage did to the distribution.

    ``survivors`` counts tokens still possible after the stage. ``mass_removed`` is the share of the
    stage's own (normalised) input that it cut. ``log_z`` is the log-sum-exp of the survivors'
    logits after the stage, so that a survivor's probability is ``exp(logit_after - log_z)``.
    ``derived`` has what the stage worked out from its dials at this step, such as the temperature
    that a dynamic one came to.
    """

    name: str
    label: str
    params: dict[str, Any]
    off: bool
    survivors: int
    mass_removed: float
    entropy_before: float
    entropy: float
    log_z: float
    derived: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class TopTable:
    """The leading candidates of one step, with their fate at every stage.

    Rows are ordered by raw logit (descending, lowest id first among equals); the chosen token is
    always one of them. ``probs[0]`` is the model's own distribution, ``probs[i]`` the one after
    stage ``i``; a cut candidate's probability is 0 from the stage that cut it on. ``cut_by`` is the
    index of that stage, or ``SURVIVES`` / ``CUT_BY_MODEL``.
    """

    ids: IntArray  # (n,)
    raw_logits: FloatArray  # (n,)
    raw_logprobs: DoubleArray  # (n,)
    probs: DoubleArray  # (stages + 1, n)
    cut_by: CutArray  # (n,)
    ranks: IntArray  # (n,) raw rank, 1 is the most likely
    tokens: tuple[Token, ...]


class _Told(Protocol):
    """An object that Rich's printers can ask for what is worth showing of it."""

    def __rich_repr__(self) -> Iterator[tuple[str, Any]]: ...


def brief(told: _Told) -> str:
    """The plain ``repr`` of an object with a ``__rich_repr__``."""
    shown = ", ".join(f"{name}={value!r}" for name, value in told.__rich_repr__())
    return f"{type(told).__name__}({shown})"


class How(StrEnum):
    """How a token came to be chosen."""

    SAMPLED = "sampled"
    GREEDY = "greedy"
    FORCED = "forced"


@dataclass(frozen=True, slots=True)
class Draw:
    """The one random act of a step.

    ``u`` fell in ``[low, high)`` of the survivors' cumulative distribution, laid out from the most
    to the least likely. ``u`` is None when no randomness was used (greedy, forced).
    """

    token_id: int
    how: How
    u: float | None
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class StepTiming:
    """Where a step's time went. ``forward + sample + detokenize + other`` is ``total``.

    Averages keep to ``steady`` steps. The others: ``warmup``, the first of its shape; ``reused``,
    which took logits that were there already and ran no pass; ``reread``, whose branch was not in
    the cache and had to be read again first.
    """

    forward_ms: float
    sample_ms: float
    detokenize_ms: float
    other_ms: float
    total_ms: float
    warmup: bool = False
    reused: bool = False
    reread: bool = False

    @property
    def steady(self) -> bool:
        """Whether the step cost what an ordinary decode step costs."""
        return not (self.warmup or self.reused or self.reread)


@dataclass(frozen=True, slots=True)
class KVState:
    """The KV cache after a pass, summed from the real tensors.

    ``stored`` counts positions held (per layer the largest), ``seen`` the positions the model has
    read; they differ in sliding-window layers. ``nbytes`` is None where there is no such cache.
    ``computed`` is how many positions this pass really read; ``cached`` how many it found there.
    """

    seen: int
    stored: int
    nbytes: int | None
    computed: int
    cached: int
    block_size: int = BLOCK_SIZE
    copied_blocks: int = 0
    """Blocks that the pass copied because it wrote into one that another branch shared."""
    evicted_blocks: int = 0
    """Blocks of other branches that were thrown out to make room for the pass."""


class StopKind(StrEnum):
    """Why a run ends at a node."""

    STOP_TOKEN = "stop_token"
    LENGTH = "length"
    CONTEXT = "context"


@dataclass(frozen=True, slots=True)
class Stop:
    """The end of a run: its kind, and in words which token or limit it was and who declared it."""

    kind: StopKind
    detail: str


@dataclass(frozen=True, eq=False)
class StepRecord:
    """One decode step: the distribution, what the chain did to it, the draw and its cost."""

    node: int
    parent: int
    position: int
    token: Token
    draw: Draw
    raw_logprob: float
    final_prob: float
    rank: int
    entropy_raw: float
    entropy_final: float
    log_z_raw: float
    varentropy_raw: float
    stages: tuple[StageTrace, ...]
    chain_spec: str
    seed: int
    top: TopTable
    timing: StepTiming
    kv: KVState
    stop: Stop | None = None
    preset: str = "guide"
    """The stack whose rules the chain follows; with ``chain_spec`` it rebuilds the chain."""
    state: Mapping[str, float] = field(default_factory=dict)
    """What stages carry on after this token (stage name -> number), such as mirostat's mu."""

    @property
    def surprisal(self) -> float:
        """``-raw_logprob``: how unexpected the token was to the model, in nats."""
        return -self.raw_logprob

    def __rich_repr__(self) -> Iterator[tuple[str, Any]]:
        """The figures that fit on a few lines; Rich's printers and notebooks ask for them."""
        yield "node", self.node
        yield "parent", self.parent
        yield "position", self.position
        yield "token", self.token.bytes.decode("utf-8", "replace")
        yield "token_id", self.token.id
        yield "how", self.draw.how.value
        yield "rank", self.rank
        yield "raw_logprob", round(self.raw_logprob, 4)
        yield "final_prob", round(self.final_prob, 4)
        yield "entropy_raw", round(self.entropy_raw, 4)
        yield "entropy_final", round(self.entropy_final, 4)
        yield "survivors", {one.name: one.survivors for one in self.stages}
        yield "chain", self.chain_spec
        yield "total_ms", round(self.timing.total_ms, 2)
        if self.stop is not None:
            yield "stop", self.stop.detail

    def __repr__(self) -> str:
        return brief(self)


NAME_LENGTH = 60
"""Characters that the name of a branch has at most."""


@dataclass(frozen=True, slots=True)
class BranchNamed:
    """What the branch that begins with ``node`` is called from now on; "" takes its name away."""

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
        """Such as ``breakpoint 1: entropy > 3``."""
        if self.asserts:
            return f"assertion {self.number} does not hold: {self.text}"
        return f"breakpoint {self.number}: {self.text}"


@dataclass(frozen=True, slots=True)
class BreakpointsSet:
    """The breakpoints and watches of a run from now on, with what was counted so far."""

    points: tuple[Breakpoint, ...] = ()
    watches: tuple[str, ...] = ()


class Origin(StrEnum):
    """Who put a prompt token there."""

    USER = "prompt"
    TEMPLATE = "template"
    TOKENIZER = "tokenizer"


@dataclass(frozen=True, eq=False)
class PromptRecord:
    """The prompt as the model reads it. The run's root node (0) stands for all of it."""

    text: str
    tokens: tuple[Token, ...]
    origins: tuple[Origin, ...]
    chat: bool
    tokenize_ms: float
    notes: tuple[str, ...] = ()

    @cached_property
    def ids(self) -> tuple[int, ...]:
        return tuple(token.id for token in self.tokens)


@dataclass(frozen=True, slots=True)
class LayerTime:
    """Time spent in one layer of one pass; ``attention`` and ``mlp`` are parts of ``total``."""

    attention_ms: float | None
    mlp_ms: float | None
    total_ms: float


@dataclass(frozen=True, eq=False)
class PrefillChunk:
    """One pass of the prefill: positions ``start .. start + count`` read in ``ms``.

    ``layers`` is empty when the model's layers could not be found (``layers_note`` says why).
    """

    start: int
    count: int
    ms: float
    layers: tuple[LayerTime, ...]
    warmup: bool
    layers_note: str = ""


@dataclass(frozen=True, eq=False)
class PrefillRecord:
    """The reading of the prompt, or of a branch again. ``cached + computed`` is its length."""

    chunks: tuple[PrefillChunk, ...]
    cached: int
    computed: int
    total_ms: float
    kv: KVState
    done: bool
    reason: str = "prompt"
    """Why these positions were read: ``prompt``, or what made a re-read necessary."""
    prefix: PrefixReport | None = None
    """What of a prompt was found, by what rule, and why not more."""


class RunState(StrEnum):
    """What the engine is doing."""

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
    """The engine's state, and in words why it changed (a stop reason, a pause, an error)."""

    state: RunState
    reason: str = ""


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """A phase of loading; ``fraction`` is None where the length is not known."""

    phase: str
    fraction: float | None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class SettingsChanged:
    """The effective sampler settings: every dial with its value and source, and the chain."""

    preset: str
    chain_spec: str
    seed: int
    dials: dict[str, Setting]
    notes: tuple[str, ...] = ()
    """What the preset's stack does unasked, and which settings of the model it leaves out."""


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
    | Vocabulary
    | Tokenized
    | Measured
    | DriftMeasured
    | CacheCurves
    | EngineError
)
