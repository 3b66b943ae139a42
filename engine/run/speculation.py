"""Speculative rounds: draft some tokens, verify them in one pass of the target, add what holds.

A round adds the drafts that were accepted and one token more: the target's correction of the first
that was not, or behind drafts that were all accepted a bonus. Its numbers are keyed by seed,
position and purpose, and it begins anew behind every node, so that it can be done again exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.backends.abilities import LengthScaled
from engine.records.cache import KVState
from engine.records.round import (
    MOST_DRAFTED,
    Accept,
    Drafted,
    DraftSettings,
    DraftVerdict,
    Residual,
    RoundEnd,
    RoundRecord,
)
from engine.records.step import Came, StepRecord, StepTiming
from engine.run.distribution import Ahead
from engine.run.draft import DraftSource, Drawer, Proposal
from engine.run.drawing import Drawing, Wanted
from engine.run.reading import Reading
from engine.run.step_tree import Ids
from engine.run.verdicts import Judge, Outcome
from engine.sampling.chain import Ladder, SamplingError
from engine.sampling.stages import StageContext
from engine.timing import now_ms

AUTO_FIRST, AUTO_MOST = 5, 16
"""Drafts of the first round where their number is left to what is accepted, and of any."""
_LENGTH = "draft_tokens"
"""Name under which that number is carried from node to node, with the state of the stages."""

_NOT_SETTLED = KVState(seen=0, stored=0, nbytes=None, computed=0, cached=0)


@dataclass(frozen=True, eq=False)
class Speculation:
    """A draft source and how it is used: ``tokens`` a round (0: as many as seems good)."""

    source: DraftSource
    tokens: int = 4
    accept: Accept = Accept.EXACT

    @property
    def settings(self) -> DraftSettings:
        """The same in writing."""
        return DraftSettings(self.source.name, self.tokens, self.accept)


@dataclass(frozen=True, eq=False)
class Round:
    """A round and the steps that it added."""

    record: RoundRecord
    steps: tuple[StepRecord, ...]


@dataclass(frozen=True, eq=False)
class Position:
    """One token of a round in the making: its ladder, what became of it, and its cost in ms."""

    ladder: Ladder
    outcome: Outcome
    step: StepRecord
    sample_ms: float
    detokenize_ms: float
    total_ms: float


def next_length(asked: int, drafted: int, accepted: int) -> int:
    """Tokens to draft in the next round: transformers' "heuristic" schedule.

    Two more where all that were drafted were accepted, else one less; at least 1. Of our own is
    the most, AUTO_MOST.
    """
    return min(AUTO_MOST, asked + 2) if accepted == drafted else max(1, asked - 1)


def length_of(speculation: Speculation, context: StageContext, room: int) -> int:
    """Tokens to draft behind a node: ``room`` are free there, one of them the target's own."""
    asked = speculation.tokens or int(context.state.get(_LENGTH, AUTO_FIRST))
    return min(asked, room - 1, MOST_DRAFTED)


class Speculator:
    """Runs rounds on a run's text."""

    def __init__(self, reading: Reading, drawing: Drawing) -> None:
        self._reading = reading
        self._drawing = drawing
        # Asked once: isinstance with a protocol looks every method up.
        self._scaled = drawing.backend if isinstance(drawing.backend, LengthScaled) else None

    def round(
        self,
        speculation: Speculation,
        wanted: Wanted,
        ids: list[int],
        context: StageContext,
    ) -> Round | None:
        """A round behind ``wanted.parent``, to which ``ids`` lead; None where nothing is drafted.

        Raises BackendError and SamplingError.
        """
        started = now_ms()
        limit = self._drawing.backend.facts.context_length
        room = wanted.max_tokens - len(context.output_ids)
        room = room if limit is None else min(room, limit - len(ids))
        asked = length_of(speculation, context, room)
        if self._scaled is not None and asked > 0:
            # One pass has one scaling: drafts that would change it wait for the text to get there.
            asked = self._scaled.lasting(len(ids), asked)
        if asked < 1:
            return None
        source, chain = speculation.source, wanted.settings.chain
        width = self._drawing.backend.facts.vocab_size
        proposal = source.propose(ids, asked, Drawer(chain, context, ids, width))
        if not proposal.ids:
            return None
        draft_ms = now_ms() - started
        ahead = self._reading.ahead(wanted.parent, ids, proposal.ids)
        places: list[Position] = []
        try:
            judge = Judge(speculation.accept, chain, self._drawing.backend)
            self._verify(judge, proposal, ahead, wanted, ids, context, places)
        finally:
            kept = [one.step for one in places if one.step.came is Came.ACCEPTED]
            read = [*ids, *(step.token.id for step in kept)]
            nodes = [wanted.parent, *(step.node for step in kept)]
            taken_back, kv = self._reading.settle(read, nodes)
            draft_back = source.keep(read)
        drafted, residual = _drafts(proposal, places, self._drawing)
        steps = _finish(speculation, asked, drafted, places, kv, len(ids))
        total_ms = now_ms() - started
        record = RoundRecord(
            node=wanted.node,
            parent=wanted.parent,
            source=source.name,
            accept=speculation.accept,
            asked=asked,
            drafted=drafted,
            added=len(steps),
            end=_end(places[-1].outcome.came),
            draft_ms=draft_ms,
            verify_ms=ahead.forward_ms,
            rest_ms=max(0.0, total_ms - draft_ms - ahead.forward_ms),
            written=ahead.written,
            taken_back=taken_back,
            draft_written=proposal.written,
            draft_taken_back=draft_back,
            residual=residual,
            warmup=ahead.warmup,
        )
        return Round(record, _timed(steps, places, ahead, total_ms))

    def _verify(
        self,
        judge: Judge,
        proposal: Proposal,
        ahead: Ahead,
        wanted: Wanted,
        ids: Sequence[int],
        context: StageContext,
        places: list[Position],
    ) -> None:
        """Decide over the drafts in order, up to the first rejected one or a stop, into places."""
        chain, history = judge.chain, list(ids)
        drafts = zip(proposal.ids, proposal.q, proposal.u, strict=True)
        for logits, draft in zip(ahead.logits, [*drafts, None], strict=True):
            began = now_ms()
            try:
                ladder = chain.run(logits, context)
            except SamplingError:
                if not places:
                    raise
                return
            if draft is None:
                outcome = judge.bonus(ladder, context)
            else:
                outcome = judge.judge(*draft, ladder, context)
            sampled = now_ms()
            token = judge.backend.token(outcome.draw.token_id)
            named = now_ms()
            node = wanted.node + len(places)
            parent = places[-1].step.node if places else wanted.parent
            step = self._drawing.record(
                replace(wanted, node=node, parent=parent),
                ladder,
                outcome.draw,
                token,
                context,
                _NOT_SETTLED,
            )
            step = replace(step, came=outcome.came, round=wanted.node)
            places.append(
                Position(ladder, outcome, step, sampled - began, named - sampled, now_ms() - began)
            )
            if outcome.came is not Came.ACCEPTED or step.stop is not None:
                return
            history.append(token.id)
            output = Ids(history, len(context.prompt_ids))
            context = replace(context, output_ids=output, state=step.state)


def _drafts(
    proposal: Proposal, places: Sequence[Position], drawing: Drawing
) -> tuple[tuple[Drafted, ...], Residual | None]:
    """Every draft with its verdict, and the residual where one was rejected."""
    looked = [one.outcome.drafted for one in places if one.outcome.drafted is not None]
    stopped = places[-1].step.stop is not None and places[-1].outcome.came is Came.ACCEPTED
    rest = DraftVerdict.AFTER_STOP if stopped else DraftVerdict.DISCARDED
    drafts = zip(proposal.ids, proposal.q, proposal.u, strict=True)
    unseen = (
        Drafted(drawing.backend.token(token_id), q.of_token(token_id), rest, draft_u=u)
        for token_id, q, u in list(drafts)[len(looked) :]
    )
    return (*looked, *unseen), places[-1].outcome.residual


def _end(came: Came) -> RoundEnd:
    ends = {Came.CORRECTED: RoundEnd.REJECTED, Came.BONUS: RoundEnd.BONUS}
    return ends.get(came, RoundEnd.STOP)


def _finish(
    speculation: Speculation,
    asked: int,
    drafted: Sequence[Drafted],
    places: Sequence[Position],
    kv: KVState,
    length: int,
) -> list[StepRecord]:
    """The steps with what only the whole round tells: the cache, and how much to draft next.

    Each token's cache is as it would be without drafts: what came in the round counts as read for
    the token behind it. Bytes of a shorter text are in proportion.
    """
    steps = []
    for index, one in enumerate(places):
        seen = length + index
        share = seen / kv.seen if kv.seen else 1.0
        nbytes = None if kv.nbytes is None else round(kv.nbytes * min(1.0, share))
        own = replace(kv, seen=seen, cached=seen - 1, stored=min(kv.stored, seen), nbytes=nbytes)
        steps.append(replace(one.step, kv=own))
    if not speculation.tokens:
        accepted = sum(one.verdict is DraftVerdict.ACCEPTED for one in drafted)
        wanted = next_length(asked, len(drafted), accepted)
        steps[-1] = replace(steps[-1], state={**steps[-1].state, _LENGTH: float(wanted)})
    return steps


def _timed(
    steps: Sequence[StepRecord], places: Sequence[Position], ahead: Ahead, total_ms: float
) -> tuple[StepRecord, ...]:
    """The steps with their times: drafting and the pass are the first one's."""
    first = total_ms - sum(one.total_ms for one in places[1:])
    timed = []
    for index, (step, one) in enumerate(zip(steps, places, strict=True)):
        total = one.total_ms if index else first
        forward = 0.0 if index else ahead.forward_ms
        known = forward + one.sample_ms + one.detokenize_ms
        timing = StepTiming(
            forward_ms=forward,
            sample_ms=one.sample_ms,
            detokenize_ms=one.detokenize_ms,
            other_ms=max(0.0, total - known),
            total_ms=total,
            warmup=ahead.warmup,
            reread=ahead.reread,
        )
        timed.append(replace(step, timing=timing))
    return tuple(timed)
