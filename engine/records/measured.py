"""Records of what is measured beside a run, when somebody asks for it. Times are milliseconds."""

from __future__ import annotations

from dataclasses import dataclass

from engine.records.prompt import LayerTime
from engine.records.round import DraftSettings
from engine.records.vocabulary import Token


@dataclass(frozen=True, slots=True)
class Drift:
    """``other`` against ``reference``, both raw logits of one position.

    ``max_abs`` is the largest difference of two logits, ``max_relative`` that over the largest
    reference logit. ``kl`` is KL(reference || other) in nats. ``top`` and ``other_top`` are the
    most likely ids (the lowest of equals); ``margin`` and ``other_margin`` how far, in logits, each
    lies ahead of its own second. ``worst_id`` is where the largest difference is.
    """

    max_abs: float
    max_relative: float
    worst_id: int
    kl: float
    top: int
    other_top: int
    margin: float
    other_margin: float

    @property
    def flips(self) -> bool:
        """True if greedy decoding would take another token."""
        return self.top != self.other_top

    @property
    def close(self) -> bool:
        """True if the race was close enough for such a difference to decide it."""
        return self.margin <= 2 * self.max_abs


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Bandwidth and operations a second of one device when nothing else was asked of it."""

    device: str
    device_name: str
    dtype: str
    threads: int
    read_bytes_per_second: float
    flops_per_second: float
    method: str
    cpu_share: float | None = None
    """Share of the time that its threads could have run and did; None where no CPU was measured.

    Well below 1 something else ran: the figures are lower than what the machine can do.
    """


GENERATE, LLAMACPP = "generate", "llamacpp"
RIVALS = (GENERATE, LLAMACPP)
"""Names of those that a benchmark can take turns with."""


@dataclass(frozen=True, slots=True)
class Contest:
    """The Stepper and a rival took turns in one process: each round's median step, in ms."""

    rival: str
    rival_dtype: str
    tokens: int
    """Tokens of a turn; its steps are those after the first token."""
    ours_ms: tuple[float, ...]
    theirs_ms: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """Answer to ``Measure``: the ceilings, and turns with a rival."""

    ceilings: Ceilings
    contest: Contest | None


MEASURING_DRIFT = "measuring drift"


MEASURING_CURVES = "comparing with and without a cache"


MEASURING_MODULES = "timing modules"


SERVERS_MACHINE = "n/a: the server's machine cannot be measured from here"
MEASURING_CEILINGS = "measuring this machine"
"""The phases of LoadProgress while a run is measured."""


@dataclass(frozen=True, slots=True)
class DriftRow:
    """Another way to the same logits, held against the reference; or why there is none.

    ``top`` is the token that greedy decoding would take then.
    """

    label: str
    drift: Drift | None = None
    top: Token | None = None
    obstacle: str = ""


@dataclass(frozen=True, slots=True)
class DriftMeasured:
    """Drift of the logits that ``node`` was drawn from, and of other ways to read the same text.

    At the prompt (node 0) they are the logits after it. ``reference`` says how the text of
    ``positions`` tokens was read freshly, and ``top`` is the most likely token then.
    """

    node: int
    positions: int
    reference: str
    top: Token
    rows: tuple[DriftRow, ...]


@dataclass(frozen=True, slots=True)
class CacheCurves:
    """Cost of one more token with K and V kept and without, at several lengths of one text.

    Turn by turn, a pass brings the text of ``node``'s branch to ``lengths[i]`` positions: with
    ``cache`` (in words) it reads one of them, without it all. Times are medians of ``reps[i]``
    turns, in ms. ``note`` says what is missing, if anything is. Raises ValueError where the columns
    do not fit each other, or hold what is no length or no time.
    """

    node: int
    lengths: tuple[int, ...]
    with_ms: tuple[float, ...]
    without_ms: tuple[float, ...]
    reps: tuple[int, ...]
    cache: str
    note: str = ""

    def __post_init__(self) -> None:
        columns = (self.lengths, self.with_ms, self.without_ms, self.reps)
        if len({len(column) for column in columns}) != 1:
            raise ValueError("the columns of measured curves must be of one length")
        if not all(1 <= count < 2**31 for count in (*self.lengths, *self.reps)):
            raise ValueError("measured curves hold a count that cannot be")
        if not all(0 <= time < 1e12 for time in (*self.with_ms, *self.without_ms)):
            raise ValueError("measured curves hold a time that cannot be")


@dataclass(frozen=True, slots=True)
class TimedPass:
    """Passes of ``tokens`` positions that end at ``context``, with their modules timed and without.

    ``plain_ms`` is the median of ``reps`` passes as a run makes them, ``timed_ms`` of as many by
    turns that time each module; the times by module are medians of those. ``outside`` maps what
    stands before and behind the layers to its time. Raises ValueError for what cannot be.
    """

    tokens: int
    context: int
    plain_ms: float
    timed_ms: float
    reps: int
    layers: tuple[LayerTime, ...]
    outside: dict[str, float]

    def __post_init__(self) -> None:
        times = [self.plain_ms, self.timed_ms, *self.outside.values()]
        for one in self.layers:
            times += [one.total_ms, one.attention_ms or 0.0, one.mlp_ms or 0.0, one.norm_ms or 0.0]
        if not all(0 <= time < 1e12 for time in times):
            raise ValueError("times by module hold a time that cannot be")
        if not all(0 <= count < 2**31 for count in (self.tokens, self.context, self.reps)):
            raise ValueError("times by module hold a count that cannot be")

    @property
    def cost_ms(self) -> float:
        """Cost of the timing itself: a pass with it less one without."""
        return self.timed_ms - self.plain_ms


@dataclass(frozen=True, slots=True)
class ModulesTimed:
    """Answer to ``MeasureModules``: a decode step and a prefill at ``node``, module by module.

    None, and ``note`` says why, where one could not be timed.
    """

    node: int
    step: TimedPass | None
    prefill: TimedPass | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class SampleTest:
    """Two samples held together: a chi-square test over ``cells``, and their total variation.

    ``p_value`` is None where all draws are alike. ``by_chance`` and ``error`` are mean and standard
    deviation of the variation of two samples of this size from one distribution.
    """

    name: str
    cells: int
    statistic: float
    p_value: float | None
    variation: float
    by_chance: float
    error: float


LEAST_P = 1e-4
"""The p-value below which two samples count as drawn from two distributions."""


@dataclass(frozen=True, slots=True)
class Lossless:
    """``draws`` continuations with speculative decoding held against as many without.

    Both samples' p is that of passes over several positions; ``rounding`` is the total variation
    from what passes over single positions give, which round otherwise.
    """

    draft: DraftSettings
    draws: int
    rounds: int
    drafted: int
    accepted: int
    tests: tuple[SampleTest, ...]
    rounding: float = 0.0

    @property
    def passed(self) -> bool:
        """True if something could be told apart, and nothing was."""
        told = [one.p_value for one in self.tests if one.p_value is not None]
        return bool(told) and min(told) >= LEAST_P
