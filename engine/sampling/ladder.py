"""A chain of stages, and what it did to one distribution: the ladder."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.records.arrays import CutArray, IntArray
from engine.records.partial import Interval, TopLogprobs
from engine.records.step import (
    CUT_BY_MODEL,
    SURVIVES,
    Draw,
    How,
    StageTrace,
    StepRecord,
    TopTable,
)
from engine.records.vocabulary import Token
from engine.sampling import bounds
from engine.sampling.candidates import Candidates, SamplingError
from engine.sampling.draw import Purpose, argmax, draw, uniform
from engine.sampling.partial import Partial, SignMissing, TailMissing, from_record, from_top
from engine.sampling.stages import Stage, StageContext, Temperature, with_shared_dials
from engine.text import share


@dataclass(frozen=True, eq=False)
class Ladder:
    """One step's distribution before and after every stage of a chain."""

    model: Candidates
    after: tuple[Candidates, ...]
    traces: tuple[StageTrace, ...]
    scale_known: bool = True
    """False where the model's are log-probabilities: all logits may be larger by one amount."""

    def check_signs(self) -> None:
        """Raise SignMissing if a stage needed the sign of logits that are not known."""
        for trace, level in zip(self.traces, self.after, strict=True):
            if isinstance(level, Partial) and level.sign_missing:
                raise SignMissing(
                    f"stage {trace.label} does to a logit above 0 what it does not to one below, "
                    "and log-probabilities, which are all that this engine tells, have no such "
                    "sign: leave it out, or use frequency_penalty or presence_penalty"
                )

    @property
    def final(self) -> Candidates:
        """The candidates left to draw from."""
        return self.after[-1] if self.after else self.model

    def before(self, index: int) -> Candidates:
        """The distribution that stage ``index`` was given."""
        return self.after[index - 1] if index else self.model

    @cached_property
    def cut_by(self) -> CutArray:
        """Shape ``(vocab_size,)``: the stage that cut each id, SURVIVES or CUT_BY_MODEL."""
        return self.cut_by_of(np.arange(self.model.vocab_size))

    def cut_by_of(self, ids: NDArray[np.integer[Any]]) -> CutArray:
        """The index of the stage that cut each of ``ids``, SURVIVES or CUT_BY_MODEL.

        Where not all is known: of the first stage after which it is gone for certain.
        """
        fate = np.where(self.model.possible(ids), SURVIVES, CUT_BY_MODEL).astype(np.int8)
        before = self.model
        for index, level in enumerate(self.after):
            if len(level) < len(before) or isinstance(before, Partial):
                fate[(fate == SURVIVES) & ~level.possible(ids)] = index
            before = level
        return fate

    def probs(self, ids: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
        """Probabilities of ``ids`` before and after each stage, shape ``(stages + 1, n)``."""
        return np.stack([level.probs_of(ids) for level in (self.model, *self.after)])

    def probs_and_slack(
        self, ids: NDArray[np.integer[Any]]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """``probs(ids)``, and so much lower or higher they may be; None where they are exact."""
        if self.scale_known and not isinstance(self.model, Partial):
            return self.probs(ids), None
        probs = np.zeros((len(self.after) + 1, ids.size))
        slack = np.zeros_like(probs)
        for index, level in enumerate((self.model, *self.after)):
            if isinstance(level, Partial):
                low, high = level.prob_bounds(ids)
                probs[index], slack[index] = (low + high) / 2, (high - low) / 2
            else:
                probs[index] = level.probs_of(ids)
        return probs, slack

    def table(self, count: int, name: Callable[[int], Token], also: Iterable[int] = ()) -> TopTable:
        """The ``count`` candidates the model likes best, and the ids in ``also`` wherever."""
        order = self.model.order(count)[:count]
        ids = self.model.ids[order]
        ranks = np.arange(1, ids.size + 1, dtype=np.int32)
        known = set(ids.tolist())
        extra = [token_id for token_id in dict.fromkeys(also) if token_id not in known]
        if extra:
            ids = np.concatenate((ids, np.array(extra, dtype=np.int32)))
            ranks = np.concatenate((ranks, [self.rank(token_id) for token_id in extra]))
            ranks = ranks.astype(np.int32)
        return self.rows(ids, ranks, tuple(name(int(token_id)) for token_id in ids))

    def rows(self, ids: IntArray, ranks: IntArray, tokens: tuple[Token, ...]) -> TopTable:
        """The candidates ``ids``, of these ranks and names, as a table."""
        raw = self.raw_logits(ids)
        probs, slack = self.probs_and_slack(ids)
        return TopTable(
            ids=ids,
            raw_logits=raw,
            raw_logprobs=raw.astype(np.float64) - self.model.log_z,
            probs=probs,
            cut_by=self.cut_by_of(ids),
            ranks=ranks,
            tokens=tokens,
            slack=slack,
        )

    def raw_logits(self, ids: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """The model's logit of each id; minus infinity where it gave none."""
        return self.model.logits_of(ids)

    def rank(self, token_id: int) -> int:
        """Place of ``token_id`` in the model's own order, 1 for the most likely."""
        return self.model.rank(token_id)


@dataclass(frozen=True)
class Chain:
    """An ordered list of stages; applying it changes nothing outside its result."""

    stages: tuple[Stage, ...]
    preset: str = "guide"

    def __post_init__(self) -> None:
        object.__setattr__(self, "stages", with_shared_dials(self.stages))

    @property
    def greedy(self) -> bool:
        """True if the token is the argmax of what the stages leave: temperature 0."""
        return any(isinstance(one, Temperature) and one.greedy for one in self.stages)

    @property
    def spec(self) -> str:
        """The chain in writing, in explicit order; ``parse_spec`` reads it back."""
        written = " > ".join(one.label for one in self.stages)
        # Without any > it would be read as dials for a preset's order.
        return written if len(self.stages) > 1 else f"{written} >".lstrip()

    def with_stage(self, stage: Stage, before: str | None = "temperature") -> Chain:
        """The chain with one more stage, in front of the one named, or at the end."""
        names = [one.name for one in self.stages]
        at = names.index(before) if before in names else len(names)
        return replace(self, stages=(*self.stages[:at], stage, *self.stages[at:]))

    def run(self, logits: NDArray[Any] | TopLogprobs, context: StageContext) -> Ladder:
        """Apply every stage to a raw logit vector of shape ``(vocab_size,)``, or what is known.

        Raises SamplingError, naming the stage, when one leaves nothing to draw from.
        """
        if isinstance(logits, TopLogprobs):
            return self.run_from(from_top(logits), context, scale_known=False)
        return self.run_from(Candidates.from_logits(logits), context)

    def run_record(self, step: StepRecord, context: StageContext, vocab_size: int) -> Ladder:
        """Apply every stage to what a step's record holds of its distribution.

        Raises SamplingError: TailMissing where what is left depends on candidates that the record
        lacks, although its backend knew them all.
        """
        model = from_record(step, vocab_size)
        ladder, settled = self.run_from(model, context), step.top.slack is not None
        if isinstance(model, Partial) and isinstance(ladder.final, Partial) and not settled:
            mass, size = float(model.unknown_share), step.top.ids.size
            raise TailMissing(
                f"{share(mass)} of the mass is not in the record's {size} candidates, "
                "and these settings may keep some of it",
                mass,
            )
        return ladder

    def run_from(
        self, model: Candidates, context: StageContext, *, scale_known: bool = True
    ) -> Ladder:
        """Apply every stage to candidates, such as those of another ladder's model.

        ``scale_known``: whether a whole model's figures are logits, not log-probabilities.
        """
        level, after, traces = model, [], []
        if isinstance(model, Partial):
            scale_known = model.scale_known
        for one in self.stages:
            before = level
            try:
                if isinstance(model, Partial) or not scale_known:
                    level = bounds.apply(one, before, context, scale_known=scale_known)
                else:
                    level = one.apply(before, context)
            except SamplingError as error:
                raise SamplingError(f"stage {one.label}: {error}") from None
            after.append(level)
            traces.append(_trace(one, before, level, context))
        return Ladder(model, tuple(after), tuple(traces), scale_known)

    def choose(self, ladder: Ladder, context: StageContext) -> Draw:
        """The token this chain picks from what its stages left.

        Raises TailMissing where that depends on tokens that are not known, SignMissing where on
        logits of which only log-probabilities are known.
        """
        ladder.check_signs()
        if self.greedy:
            return argmax(ladder.final)
        return draw(ladder.final, uniform(context.seed, context.position, Purpose.TOKEN))

    def next_state(self, ladder: Ladder, token_id: int, context: StageContext) -> dict[str, float]:
        """The stages' state for the next token, after ``token_id`` was taken at this one."""
        state = dict(context.state)
        for one, level in zip(self.stages, ladder.after, strict=True):
            # What a token's surprisal has moved stays where that is not known.
            known = not isinstance(level, Partial)
            carried = one.advance(level, context, token_id) if known else None
            if carried is not None:
                state[one.name] = carried
        return state


def forced(ladder: Ladder, token_id: int) -> Draw:
    """The draw of a token that the user chose: ``[0, final probability)``, no u, no place."""
    return Draw(token_id, How.FORCED, None, 0.0, ladder.final.prob(token_id))


def _trace(one: Stage, before: Candidates, after: Candidates, context: StageContext) -> StageTrace:
    inexact = isinstance(before, Partial)
    return StageTrace(
        name=one.name,
        label=one.label,
        params=one.params,
        off=one.off,
        survivors=after.survivors,
        mass_removed=_mass_removed(before, after),
        entropy_before=before.entropy,
        entropy=after.entropy,
        log_z=after.log_z,
        derived={} if one.off or inexact else one.derived(before, after, context),
    )


def _mass_removed(before: Candidates, after: Candidates) -> float:
    if isinstance(before, Partial):
        return before.removed(after)
    if isinstance(after, Partial):
        return Interval(0.0, 1.0)
    if len(after) == len(before):
        return 0.0
    if len(after) * 8 < len(before):
        removed = 1.0 - float(before.probs_of(after.ids).sum())
        if removed > 1e-6:
            return removed
        # Too close to nothing for a difference: add up what went.
    gone = np.ones(before.vocab_size, dtype=np.bool_)
    gone[after.ids] = False
    cut = gone if len(before) == before.vocab_size else gone[before.ids]
    return float(before.probs_at(before.logits[cut]).sum())
