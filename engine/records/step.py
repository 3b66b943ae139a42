"""One token of the run: its distribution by stage, the draw, timing, and why a run ends there."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from engine.records.arrays import CutArray, DoubleArray, FloatArray, IntArray
from engine.records.cache import KVState
from engine.records.engine import EngineTimes
from engine.records.partial import Interval
from engine.records.vocabulary import Token

SURVIVES = -1
"""Value of ``cut_by`` for a candidate that no stage has cut."""


CUT_BY_MODEL = -2
"""Value of ``cut_by`` for a candidate that the model itself gave a logit of minus infinity."""


@dataclass(frozen=True, eq=False, slots=True)
class StageTrace:
    """Effect of one sampler stage on the distribution.

    ``survivors`` counts tokens still possible after the stage. ``mass_removed`` is the share of the
    stage's own (normalised) input that it cut. ``log_z`` is the log-sum-exp of the survivors'
    logits after the stage, so that a survivor's probability is ``exp(logit_after - log_z)``.
    ``derived`` has what the stage worked out from its dials at this step, such as the temperature
    that a dynamic one came to. Figures that unknown candidates can change are an ``Interval``.
    """

    name: str
    label: str
    params: dict[str, Any]
    off: bool
    survivors: int | Interval
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
    slack: DoubleArray | None = None
    """So much lower or higher each of ``probs`` may be, where only leading candidates are known.

    A token whose own slack by the model is not 0 is not one of those; its raw log-probability is
    at most the one given.
    """

    def prob(self, level: int, row: int) -> float:
        """A probability: a number or an Interval."""
        value, slack = float(self.probs[level, row]), 0.0
        if self.slack is not None:
            slack = float(self.slack[level, row])
        return Interval.of(max(0.0, value - slack), value + slack)

    def raw_logprob(self, row: int) -> float:
        """The model's log-probability: a number or an Interval."""
        value = float(self.raw_logprobs[row])
        return value if self.seen(row) else Interval(-math.inf, value)

    def rank(self, row: int) -> int | Interval:
        """The raw rank; an Interval without an upper end where only the least is known."""
        rank = int(self.ranks[row])
        return rank if self.seen(row) else Interval(rank, math.inf)

    def seen(self, row: int) -> bool:
        """True if the model's own figures of a row are known."""
        return self.slack is None or self.slack[0, row] == 0.0


class _Told(Protocol):
    """An object that Rich's printers can ask for what is worth showing of it."""

    def __rich_repr__(self) -> Iterator[tuple[str, Any]]: ...


def brief(told: _Told) -> str:
    """The plain ``repr`` of an object with a ``__rich_repr__``."""
    shown = ", ".join(f"{name}={value!r}" for name, value in told.__rich_repr__())
    return f"{type(told).__name__}({shown})"


class How(StrEnum):
    """Way in which a token was chosen."""

    SAMPLED = "sampled"
    GREEDY = "greedy"
    FORCED = "forced"


class DrawnOn(StrEnum):
    """Scale that the number of a draw lies on."""

    SURVIVORS = "survivors"
    """The survivors' cumulative distribution."""
    VERDICT = "verdict"
    """0 to 1, for a draft that is accepted below min(1, p/q)."""
    RESIDUAL = "residual"
    """The cumulative distribution of max(0, p - q), after a draft was rejected."""
    DRAFT = "draft"
    """The draft's own distribution; the target used no number."""


@dataclass(frozen=True, slots=True)
class Draw:
    """The one random act of a step.

    ``u`` fell in ``[low, high)`` of the survivors' cumulative distribution, laid out from the most
    to the least likely; in a speculative round, of what ``on`` says. ``u`` is None when no
    randomness was used (greedy, forced).
    """

    token_id: int
    how: How
    u: float | None
    low: float
    high: float
    on: DrawnOn = DrawnOn.SURVIVORS


@dataclass(frozen=True, slots=True)
class StepTiming:
    """Time of a step by part. ``forward + sample + detokenize + other`` is ``total``.

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
    engine: EngineTimes | None = None
    """The pass by the clock of the engine that ran it, where that is another one than ours."""

    @property
    def steady(self) -> bool:
        """True if the step cost what an ordinary decode step costs."""
        return not (self.warmup or self.reused or self.reread)


class Came(StrEnum):
    """Way in which a token came into the tree."""

    PLAIN = "plain"
    """Drawn, or forced, without a draft."""
    ACCEPTED = "accepted"
    """Drafted, and accepted by the target."""
    CORRECTED = "corrected"
    """Drawn by the target where it rejected a draft."""
    BONUS = "bonus"
    """Drawn by the target behind drafts that were all accepted."""


class StopKind(StrEnum):
    """Reason for which a run ends at a node."""

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
    """One decode step: the distribution, what the chain did to it, the draw and its cost.

    Where a backend knows only the leading candidates, figures that the others can change are an
    ``Interval``, the chosen token's probabilities among them.
    """

    node: int
    parent: int
    position: int
    token: Token
    draw: Draw
    raw_logprob: float
    final_prob: float
    rank: int | Interval
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
    """State of the stages after this token (stage name -> number), such as mirostat's mu."""
    came: Came = Came.PLAIN
    round: int = 0
    """The node of the first token of the speculative round that it came in; 0 for none."""

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
        if self.came is not Came.PLAIN:
            yield "came", self.came.value
        if self.stop is not None:
            yield "stop", self.stop.detail

    def __repr__(self) -> str:
        return brief(self)
