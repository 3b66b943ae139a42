"""One token drawn: from the distribution after a node to the step's whole record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

from engine.backends.abilities import Foreseeing
from engine.backends.base import Backend, BackendError, NoMoreError
from engine.backends.tokens import ids_of
from engine.records.cache import KVState
from engine.records.step import Draw, StepRecord, StepTiming, Stop, StopKind
from engine.records.vocabulary import Token, Vocabulary
from engine.run.distribution import Distribution
from engine.run.step_tree import Ids
from engine.sampling.chain import Effective, Ladder, SamplingError, forced
from engine.sampling.partial import TailMissing
from engine.sampling.stages import StageContext
from engine.text import quote
from engine.timing import now_ms

TOP_ROWS = 64
_WIDER = 16
"""Times as many candidates are asked for where a draw falls behind those that are known."""
_NOT_YET = StepTiming(0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Plan of a step: its place in the tree, and how its token is chosen."""

    node: int
    parent: int
    settings: Effective
    max_tokens: int
    force: int | None = None
    """The token to take instead of drawing one."""
    watched: tuple[int, ...] = ()
    """Ids that are recorded, however unlikely they are."""


class Drawing:
    """Draws tokens of one model, and records all that happened on the way."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._foreseeing = backend if isinstance(backend, Foreseeing) else None
        self._whole_vocabulary: Vocabulary | None = None
        self.encode = cache(self._tokens_of)
        """The model's own tokens of a text, for a stage that asks for them."""

    def vocabulary(self, settings: Effective) -> Vocabulary | None:
        """Every token's bytes, where the chain has a grammar to hold them against."""
        if not any(one.name == "grammar" for one in settings.chain.stages):
            return None
        if self._whole_vocabulary is None:
            self._whole_vocabulary = self.backend.vocabulary()
        return self._whole_vocabulary

    def foresee(self, wanted: Wanted, outputs: int) -> None:
        """Tell an engine that can use it what follows behind ``outputs`` tokens of a greedy run."""
        if self._foreseeing is not None:
            sure = wanted.settings.chain.greedy and wanted.force is None
            self._foreseeing.foreseen = max(0, wanted.max_tokens - outputs) if sure else 0

    def context(
        self,
        settings: Effective,
        prompt_ids: tuple[int, ...],
        ids: list[int],
        seed: int,
        state: Mapping[str, float],
    ) -> StageContext:
        """Context of the stages behind ``ids``, the prompt's and those that were drawn."""
        return StageContext(
            prompt_ids=prompt_ids,
            output_ids=Ids(ids, len(prompt_ids)),
            stop_ids=frozenset(self.backend.facts.stop_ids),
            seed=seed,
            state=state,
            vocabulary=self.vocabulary(settings),
            token=self.backend.token,
            encode=self.encode,
        )

    def step(
        self, wanted: Wanted, following: Distribution, context: StageContext, started: float
    ) -> StepRecord:
        """Draw from ``following`` and record the step, which began at ``started``, ms."""
        sampling = now_ms()
        ladder, chosen, following, asking = _chosen(wanted, following, context)
        sampled = now_ms()
        token = self.backend.token(chosen.token_id)
        detokenized = now_ms()
        record = self.record(wanted, ladder, chosen, token, context, following.kv)
        total = now_ms() - started + following.shifted_ms
        known = following.forward_ms - asking + (detokenized - sampling)
        timing = StepTiming(
            forward_ms=following.forward_ms,
            sample_ms=sampled - sampling - asking,
            detokenize_ms=detokenized - sampled,
            other_ms=max(0.0, total - known),
            total_ms=total,
            warmup=following.warmup,
            reused=following.reused,
            reread=following.reread,
            engine=following.engine,
        )
        return replace(record, timing=timing)

    def record(
        self,
        wanted: Wanted,
        ladder: Ladder,
        chosen: Draw,
        token: Token,
        context: StageContext,
        kv: KVState,
    ) -> StepRecord:
        """The record of a token that was chosen, but for its times."""
        also = (chosen.token_id, *wanted.watched)
        table = ladder.table(TOP_ROWS, self.backend.token, also=also)
        row = int((table.ids == chosen.token_id).argmax())
        position, model, chain = context.position, ladder.model, wanted.settings.chain
        return StepRecord(
            node=wanted.node,
            parent=wanted.parent,
            position=position,
            token=token,
            draw=chosen,
            raw_logprob=table.raw_logprob(row),
            final_prob=table.prob(-1, row),
            rank=table.rank(row),
            entropy_raw=model.entropy,
            entropy_final=ladder.final.entropy,
            log_z_raw=model.log_z,
            varentropy_raw=model.varentropy,
            stages=ladder.traces,
            chain_spec=wanted.settings.spec,
            seed=context.seed,
            top=table,
            timing=_NOT_YET,
            kv=kv,
            stop=self._stop(token, len(context.output_ids) + 1, position + 1, wanted.max_tokens),
            preset=chain.preset,
            state=chain.next_state(ladder, token.id, context),
        )

    def _stop(self, token: Token, outputs: int, length: int, max_tokens: int) -> Stop | None:
        facts = self.backend.facts
        if token.id in facts.stop_ids:
            text = quote(token.bytes.decode("utf-8", "replace"), 40)
            return Stop(
                StopKind.STOP_TOKEN,
                f"stop token {text} (id {token.id}), declared by {facts.stop_ids[token.id]}",
            )
        if outputs >= max_tokens:
            return Stop(StopKind.LENGTH, f"token budget of {max_tokens:,} used up")
        if facts.context_length is not None and length >= facts.context_length:
            return Stop(StopKind.CONTEXT, f"context of {facts.context_length:,} tokens is full")
        return None

    def _tokens_of(self, text: str) -> tuple[int, ...]:
        try:
            return tuple(ids_of(self.backend, text))
        except BackendError as error:
            raise SamplingError(f"{quote(text, 30)}: {error}") from None


def _chosen(
    wanted: Wanted, following: Distribution, context: StageContext
) -> tuple[Ladder, Draw, Distribution, float]:
    """The ladder, the token, the distribution as far as it had to be known, and ms spent asking.

    Where the draw depends on candidates that are not known, more of them are asked for, until it
    does not. Raises TailMissing where no more can be had: nothing is made up.
    """
    chain, before = wanted.settings.chain, following.forward_ms
    while True:
        ladder = chain.run(following.logits, context)
        if wanted.force is not None:
            chosen = forced(ladder, wanted.force)
            break
        try:
            chosen = chain.choose(ladder, context)
            break
        except TailMissing as error:
            if following.wider is None:
                raise
            try:
                following = following.wider(_WIDER * len(ladder.model))
            except NoMoreError as most:
                raise TailMissing(f"{error}; {most}", error.mass) from None
    return ladder, chosen, following, following.forward_ms - before
