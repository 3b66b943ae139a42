"""The target's verdict on one drafted token, and the token that comes of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from engine.backends.base import Backend
from engine.records.round import Accept, Drafted, DraftVerdict, Residual, ResidualRow
from engine.records.step import Came, Draw, DrawnOn, How
from engine.sampling.chain import Chain, Ladder
from engine.sampling.draw import Purpose, argmax, draw, uniform
from engine.sampling.stages import StageContext
from engine.sampling.verification import (
    Probs,
    accepts,
    expected,
    pick,
    residual,
    typical_limit,
)

_ROWS = 8
"""Leading rows of a residual that are recorded."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """Outcome of a position: the token, how it came, and the draft there, if there was one."""

    draw: Draw
    came: Came
    drafted: Drafted | None = None
    residual: Residual | None = None


@dataclass(frozen=True, eq=False)
class Judge:
    """Decides over drafts by one rule, with one chain."""

    rule: Accept
    chain: Chain
    backend: Backend

    def judge(
        self, token_id: int, q: Probs, draft_u: float | None, ladder: Ladder, context: StageContext
    ) -> Outcome:
        """Accept the drafted ``token_id`` or replace it; ``ladder`` is the target's there."""
        p = Probs.of(self.chain, ladder)
        limit = typical_limit(0.0 if self.chain.greedy else ladder.final.entropy)
        drafted = Drafted(
            self.backend.token(token_id),
            q=q.of_token(token_id),
            verdict=DraftVerdict.ACCEPTED,
            p=p.of_token(token_id),
            draft_u=draft_u,
            expected=expected(self.rule, p, q, limit),
        )
        match self.rule:
            case Accept.EXACT:
                return self._exact(drafted, p, q, ladder, context)
            case Accept.MATCH:
                return self._match(drafted, ladder, context)
            case Accept.TYPICAL:
                return self._typical(drafted, limit, ladder, context)

    def bonus(self, ladder: Ladder, context: StageContext) -> Outcome:
        """The token behind drafts that were all accepted: the target's own."""
        return Outcome(self._own(ladder, context, Purpose.BONUS), Came.BONUS)

    def _own(self, ladder: Ladder, context: StageContext, purpose: Purpose) -> Draw:
        if self.rule is Accept.MATCH or self.chain.greedy:
            return self.chain.choose(ladder, context)
        return draw(ladder.final, uniform(context.seed, context.position, purpose))

    def _exact(
        self, drafted: Drafted, p: Probs, q: Probs, ladder: Ladder, context: StageContext
    ) -> Outcome:
        if self.chain.greedy:
            chosen = argmax(ladder.final)
            if chosen.token_id == drafted.token.id:
                return Outcome(chosen, Came.ACCEPTED, drafted)
            ids = chosen.token_id, drafted.token.id
            left = _residual(*residual(p, q), p, q, ids, self.backend)
            return Outcome(chosen, Came.CORRECTED, _rejected(drafted), left)
        u = uniform(context.seed, context.position, Purpose.ACCEPT)
        drafted = replace(drafted, u=u)
        if accepts(drafted.p, drafted.q, u):
            high = cast(float, drafted.chance)
            chosen = Draw(drafted.token.id, How.SAMPLED, u, 0.0, high, DrawnOn.VERDICT)
            return Outcome(chosen, Came.ACCEPTED, drafted)
        mass, after = residual(p, q)
        u = uniform(context.seed, context.position, Purpose.RESIDUAL)
        token_id, low, high = pick(after, u)
        on = DrawnOn.RESIDUAL
        chosen = Draw(int(token_id), How.SAMPLED, u, float(low), float(high), on)
        left = _residual(mass, after, p, q, (chosen.token_id, drafted.token.id), self.backend)
        return Outcome(chosen, Came.CORRECTED, _rejected(drafted), left)

    def _match(self, drafted: Drafted, ladder: Ladder, context: StageContext) -> Outcome:
        chosen = self.chain.choose(ladder, context)
        drafted = replace(drafted, u=chosen.u)
        if chosen.token_id == drafted.token.id:
            return Outcome(chosen, Came.ACCEPTED, drafted)
        return Outcome(chosen, Came.CORRECTED, _rejected(drafted))

    def _typical(
        self, drafted: Drafted, limit: float, ladder: Ladder, context: StageContext
    ) -> Outcome:
        if cast(float, drafted.p) > limit:
            # Its only dice are the draft's.
            u = drafted.draft_u
            how = How.GREEDY if u is None else How.SAMPLED
            chosen = Draw(drafted.token.id, how, u, 0.0, 1.0, DrawnOn.DRAFT)
            return Outcome(chosen, Came.ACCEPTED, drafted)
        chosen = self._own(ladder, context, Purpose.RESIDUAL)
        return Outcome(chosen, Came.CORRECTED, _rejected(drafted))


def _rejected(drafted: Drafted) -> Drafted:
    return replace(drafted, verdict=DraftVerdict.REJECTED)


def _residual(
    mass: float, after: Probs, p: Probs, q: Probs, also: tuple[int, int], backend: Backend
) -> Residual:
    """The record of a residual: its leading rows, the tokens drawn and rejected always there."""
    order = np.argsort(-after.values, kind="stable")[:_ROWS]
    ids = list(dict.fromkeys([*after.ids[order].tolist(), *also]))
    columns = (one.at(np.array(ids)).tolist() for one in (p, q, after))
    rows = zip(ids, *columns, strict=True)
    return Residual(mass, tuple(ResidualRow(backend.token(one), *shares) for one, *shares in rows))
