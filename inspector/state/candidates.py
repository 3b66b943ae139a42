"""CandidateRows by raw rank, and each one's fate at every stage.

A step's record holds the leading candidates. With the step's whole logits, a chain is run over all
of them, the recorded one or another; without, another chain makes another record of them, as far
as they tell. Both are ``CandidateRows``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from engine.records.arrays import DoubleArray, IntArray
from engine.records.partial import Interval
from engine.records.step import Draw, DrawnOn, How, StageTrace, StepRecord
from engine.records.upcoming import Upcoming
from engine.records.vocabulary import Token
from engine.sampling.chain import Ladder
from engine.sampling.draw import stretch

_CHUNK = 64
_MOST_STRETCHES = 2048
"""More than a screen has cells: what lies behind them is narrower than one."""


@dataclass(frozen=True, slots=True)
class CandidateRow:
    """One candidate: its place in the model's own order, and its fate."""

    token_id: int
    token: Token | None
    """None while the token's name is not known."""
    rank: int | Interval
    raw_logit: float | None
    """None where log-probabilities are all that is known."""
    raw_logprob: float
    probs: tuple[float, ...]
    """The model's own probability, then the one after each stage."""
    cut_by: int
    """Index of the stage that cut it, ``SURVIVES`` or ``CUT_BY_MODEL``."""


@dataclass(frozen=True, eq=False)
class Stretches:
    """The survivors' stretches of the cumulative distribution, in the order of the draw.

    From 0 on, as many as there is reason to draw; what is missing up to 1 belongs to others.
    """

    ids: IntArray  # (n,)
    probs: DoubleArray  # (n,)


class CandidateRows(Protocol):
    """CandidateRows ordered by raw rank, made one by one when they are asked for."""

    @property
    def stages(self) -> tuple[StageTrace, ...]: ...
    @property
    def draw(self) -> Draw: ...
    @property
    def total(self) -> int | None:
        """Number of ids the model gives a logit, if known; rows may be fewer."""

    @property
    def entropy(self) -> float:
        """Of the model's own distribution, in nats."""

    @property
    def largest(self) -> float:
        """The largest probability before or after any stage: the length of a full bar."""

    @property
    def shown(self) -> tuple[float, float]:
        """The share of the model's and of the final distribution that the rows hold."""

    @property
    def note(self) -> str:
        """A note after the last row."""

    def __len__(self) -> int: ...
    def __getitem__(self, row: int, /) -> CandidateRow: ...
    def row_of(self, token_id: int) -> int | None: ...
    def stretches(self) -> Stretches: ...
    def place_of(self, token_id: int) -> tuple[float, float] | None:
        """The stretch of a token on the cumulative bar; None where that is not known."""


@dataclass(frozen=True, eq=False)
class Recorded:
    """The rows that a step's record holds."""

    step: StepRecord
    total: int | None = None
    note: str = ""

    @property
    def stages(self) -> tuple[StageTrace, ...]:
        return self.step.stages

    @property
    def draw(self) -> Draw:
        return self.step.draw

    @property
    def entropy(self) -> float:
        return self.step.entropy_raw

    @property
    def largest(self) -> float:
        return float(self.step.top.probs.max())

    @property
    def shown(self) -> tuple[float, float]:
        sums = self.step.top.probs.sum(axis=1)
        return float(sums[0]), float(sums[-1])

    def __len__(self) -> int:
        return int(self.step.top.ids.size)

    def __getitem__(self, row: int) -> CandidateRow:
        top = self.step.top
        return CandidateRow(
            token_id=int(top.ids[row]),
            token=top.tokens[row],
            rank=top.rank(row),
            raw_logit=float(top.raw_logits[row]) if top.slack is None else None,
            raw_logprob=top.raw_logprob(row),
            probs=tuple(top.prob(level, row) for level in range(len(top.probs))),
            cut_by=int(top.cut_by[row]),
        )

    def row_of(self, token_id: int) -> int | None:
        found = np.flatnonzero(self.step.top.ids == token_id)
        return int(found[0]) if found.size else None

    def stretches(self) -> Stretches:
        top, final = self.step.top, self.step.top.probs[-1]
        order = np.lexsort((top.ids, -final))[: np.count_nonzero(final)]
        found = Stretches(top.ids[order], final[order])
        if found.probs.sum() < 1.0 - 1e-9 and not self._in_order(found):
            # A stage that reorders may have put survivors first that the record does not hold.
            return Stretches(found.ids[:0], found.probs[:0])
        return found

    def place_of(self, token_id: int) -> tuple[float, float] | None:
        if token_id == self.draw.token_id and self._placed:
            return self.draw.low, self.draw.high
        known = self.stretches()
        at = np.flatnonzero(known.ids == token_id)
        if not at.size:
            return None
        end = float(known.probs[: at[0] + 1].sum())
        return end - float(known.probs[at[0]]), end

    @property
    def _placed(self) -> bool:
        """True if the draw tells where its token lies among the survivors."""
        return self.draw.how is not How.FORCED and self.draw.on is DrawnOn.SURVIVORS

    def _in_order(self, found: Stretches) -> bool:
        """True if the survivors that the record holds can be the first ones of the draw."""
        final = self.step.top.probs[-1]
        if (np.diff(final[final > 0.0]) > 0.0).any():
            return False
        at = np.flatnonzero(found.ids == self.draw.token_id)
        if not (self._placed and at.size):
            return True
        return bool(abs(found.probs[: at[0]].sum() - self.draw.low) < 1e-6)


NO_DRAW = Draw(-1, How.FORCED, None, 0.0, 0.0)
"""The draw of a distribution from which nothing was drawn yet."""


@dataclass(frozen=True, eq=False)
class Undrawn(Recorded):
    """The rows of a token that is not drawn yet, or as they were before a step drew it."""

    step: StepRecord | Upcoming  # type: ignore[assignment]

    @property
    def draw(self) -> Draw:
        return NO_DRAW


@dataclass(frozen=True, eq=False)
class Whole:
    """Every id of the vocabulary, from a ladder over the whole logits."""

    ladder: Ladder
    draw: Draw
    name: Callable[[int], Token | None]
    note: str = ""

    @property
    def stages(self) -> tuple[StageTrace, ...]:
        return self.ladder.traces

    @property
    def total(self) -> int:
        return len(self.ladder.model)

    @property
    def entropy(self) -> float:
        return self.ladder.model.entropy

    @cached_property
    def largest(self) -> float:
        levels = (self.ladder.model, *self.ladder.after)
        return max(float(level.probs_of(level.ids[level.order(1)[:1]])[0]) for level in levels)

    @property
    def shown(self) -> tuple[float, float]:
        return 1.0, 1.0

    @cached_property
    def _ruled_out(self) -> IntArray:
        """Ids that the model itself rules out; they come last."""
        model = self.ladder.model
        absent = np.ones(model.vocab_size, dtype=np.bool_)
        absent[model.ids] = False
        return np.flatnonzero(absent).astype(np.int32)

    def __len__(self) -> int:
        return self.ladder.model.vocab_size

    def __getitem__(self, row: int) -> CandidateRow:
        chunk, at = divmod(row, _CHUNK)
        made = self._chunks.get(chunk)
        if made is None:
            made = self._chunks[chunk] = self._make(chunk * _CHUNK)
        return made[at]

    @cached_property
    def _chunks(self) -> dict[int, list[CandidateRow]]:
        return {}

    def _make(self, start: int) -> list[CandidateRow]:
        """A page of candidates at once: numpy costs a call as much as it costs a page."""
        model, end = self.ladder.model, start + _CHUNK
        # Only as many are sorted as were looked at.
        ids = model.ids[model.order(end)[start:end]]
        if end > len(model):
            others = self._ruled_out[max(0, start - len(model)) : end - len(model)]
            ids = np.concatenate((ids, others))
        raw = self.ladder.raw_logits(ids).tolist()
        probs = self.ladder.probs(ids).T.tolist()
        cut_by = self.ladder.cut_by_of(ids).tolist()
        log_z = self.ladder.model.log_z
        return [
            CandidateRow(
                token_id=token_id,
                token=self.name(token_id),
                rank=start + at + 1,
                raw_logit=raw[at],
                raw_logprob=raw[at] - log_z,
                probs=tuple(probs[at]),
                cut_by=cut_by[at],
            )
            for at, token_id in enumerate(ids.tolist())
        ]

    def row_of(self, token_id: int) -> int | None:
        model = self.ladder.model
        if not 0 <= token_id < len(self):
            return None
        if model.find(np.array([token_id]))[1][0]:
            return model.rank(token_id) - 1
        return len(model) + int(np.searchsorted(self._ruled_out, token_id))

    @cached_property
    def _stretches(self) -> Stretches:
        final = self.ladder.final
        order = final.order(_MOST_STRETCHES)[:_MOST_STRETCHES]
        return Stretches(final.ids[order], final.probs_at(final.logits[order]))

    def stretches(self) -> Stretches:
        return self._stretches

    def place_of(self, token_id: int) -> tuple[float, float] | None:
        low, high = stretch(self.ladder.final, token_id)
        return (low, high) if high > low else None
