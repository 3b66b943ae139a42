"""A chain run again over the cursor's distribution: the recorded one, or one to try.

With the step's whole logits any chain can be run; with the record alone those that keep nothing
but what is in it. What was run last is remembered, so that several panes share it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, lru_cache

import numpy as np

from engine.records.events import DenseLogits
from engine.records.step import Draw, StepRecord
from engine.records.vocabulary import KINDS, Token, TokenKind, Vocabulary
from engine.sampling.candidates import SamplingError
from engine.sampling.chain import Candidates, Chain, Ladder
from engine.sampling.explain import Choose
from engine.sampling.partial import TailMissing
from engine.sampling.redraw import redraw
from engine.sampling.stages import StageContext
from engine.text import share
from inspector.state.candidates import CandidateRows, Recorded, Whole
from inspector.state.view import RunLog, View
from inspector.state.whatif import hypothetical, recorded_chain

WAITING = "the engine is running: this waits until it stands still"


@dataclass(frozen=True, eq=False)
class Run:
    """A chain over the cursor's distribution: its ladder, and what it draws with the same dice.

    The ladder is that of the whole vocabulary, or of what the record has of it.
    """

    chain: Chain
    context: StageContext
    candidates: Whole | Recorded
    ladder: Ladder
    choose: Choose

    @property
    def draw(self) -> Draw:
        return self.candidates.draw

    @property
    def whole(self) -> bool:
        """True if it was run over every id."""
        return isinstance(self.candidates, Whole)


def context_of(view: View, step: StepRecord) -> StageContext:
    """The stages' context when the cursor's token was drawn."""
    parent = view.log.nodes.get(step.parent)
    return StageContext(
        prompt_ids=view.prompt.ids if view.prompt is not None else (),
        output_ids=tuple(view.path[:-1].token_ids),
        stop_ids=frozenset(view.facts.stop_ids if view.facts is not None else ()),
        seed=step.seed,
        state=parent.state if parent is not None else {},
        vocabulary=view.log.vocabulary,
        token=_history_namer(view),
    )


def _history_namer(view: View) -> Callable[[int], Token]:
    """Names the tokens of the prompt and of the output, which are looked up at the first call."""

    @cache
    def names() -> dict[int, Token]:
        prompt, path = view.prompt, view.path
        read = prompt.tokens if prompt is not None else ()
        return {one.id: one for one in (*read, *map(path.token, range(len(path))))}

    return lambda token_id: names()[token_id]


@lru_cache(maxsize=2)
def _model(dense: DenseLogits) -> Candidates:
    """Candidates that all chains over one vector share: it is sorted once."""
    return Candidates.from_logits(dense.logits)


def logits_known(log: RunLog) -> bool:
    """False where the engine tells log-probabilities, of the whole vocabulary too."""
    return log.facts is None or log.facts.top is None


@lru_cache(maxsize=8)
def _run(
    log: RunLog,
    step: StepRecord,
    dense: DenseLogits | None,
    chain: Chain,
    vocabulary: Vocabulary | None,
) -> Run:
    context, choose = context_of(View(log, step.node), step), choosing(log, step)
    if dense is not None:
        ladder = chain.run_from(_model(dense), context, scale_known=logits_known(log))
        drawn = choose(chain, ladder, context)
        note = padding_note(ladder, vocabulary)
        return Run(
            chain, context, Whole(ladder, drawn, namer(step, vocabulary), note), ladder, choose
        )
    total = log.facts.vocab_size if log.facts is not None else None
    if total is None:
        raise TailMissing("the size of the vocabulary is not known")
    ladder = chain.run_record(step, context, total)
    top = ladder.rows(step.top.ids, step.top.ranks, step.top.tokens)
    drawn = choose(chain, ladder, context)
    made = replace(step, stages=ladder.traces, draw=drawn, top=top)
    return Run(chain, context, Recorded(made, total, log.not_stored), ladder, choose)


def choosing(log: RunLog, step: StepRecord) -> Choose:
    """The way in which a chain draws with the numbers of a step: in a round, over its draft."""
    if not step.round:
        return Chain.choose
    recorded, found = recorded_chain(View(log, step.node)), log.rounds.get(step.round)

    def choose(chain: Chain, ladder: Ladder, context: StageContext) -> Draw:
        if chain == recorded:
            return step.draw
        if found is None:
            raise SamplingError("the round that this token came in was not kept")
        place = step.node - found.node
        drafted = found.drafted[place] if place < len(found.drafted) else None
        return redraw(found.accept, drafted, chain, ladder, context)

    return choose


def run(view: View, chain: Chain) -> Run:
    """``chain`` over the cursor's distribution, with the dice and the history of its step.

    Raises SamplingError: TailMissing where the record does not hold enough, otherwise what a stage
    has to say.
    """
    step = view.step
    if step is None:
        raise SamplingError("no token was drawn here")
    return _run(view.log, step, view.dense, chain, view.log.vocabulary)


def rerun(view: View) -> Run:
    """The step's own chain once more. Raises SamplingError, also where it comes out differently.

    Such as after a stage that the engine alone can run.
    """
    step, chain = view.step, recorded_chain(view)
    if step is None:
        raise SamplingError("no token was drawn here")
    if chain is None:
        raise SamplingError("this chain runs in the engine only")
    found = run(view, chain)
    names = [one.name for one in chain.stages]
    if names != [one.name for one in step.stages]:
        raise SamplingError("the chain as written down is not the one that ran")
    # Over a head alone, the counts on the way are those of a completion.
    compared = slice(None) if found.whole else slice(-1, None)
    ours = found.ladder.traces[compared]
    for one, recorded in zip(ours, step.stages[compared], strict=True):
        if one.survivors != recorded.survivors:
            raise SamplingError(f"{one.name} leaves {one.survivors:,}, not as recorded")
    return found


def what_if(view: View) -> Run | str | None:
    """Run the chain to try over the cursor's distribution.

    None where nothing is tried or no token was drawn; in words why it cannot be told.
    """
    if view.what_if is None or view.step is None or not hypothetical(view):
        return None
    if not view.settled:
        return WAITING
    try:
        return run(view, view.what_if)
    except SamplingError as error:
        return str(error)


def namer(step: StepRecord, vocabulary: Vocabulary | None) -> Callable[[int], Token | None]:
    """Names for ids: from the vocabulary, or for the few that the record holds."""
    if vocabulary is not None:
        return vocabulary.token
    return {token.id: token for token in step.top.tokens}.get


def token_of(view: View, token_id: int) -> Token | None:
    """A token's name, where it is known."""
    return namer(view.step, view.log.vocabulary)(token_id) if view.step is not None else None


def padding_note(ladder: Ladder, vocabulary: Vocabulary | None) -> str:
    """A note on the model's mass on ids that the tokenizer does not have."""
    ids = ladder.model.vocab_size
    if vocabulary is None:
        return ""
    unused = np.flatnonzero(vocabulary.kinds == KINDS.index(TokenKind.UNUSED))
    if not unused.size:
        return ""
    mass = float(ladder.model.probs_of(unused).sum())
    return f"all {ids:,} ids; unused: {unused.size:,}, with {share(mass)} of the raw mass"


def candidates_of(view: View) -> CandidateRows | None:
    """The cursor's candidates as recorded: all where the whole logits are there; None at the root.

    Whatever is tried: this is the record.
    """
    step = view.step
    if step is None:
        return None
    total = view.vocab_size
    note = view.log.not_stored
    if view.dense is not None:
        try:
            found = rerun(view)
        except SamplingError as error:
            note = f"not to be run again here: {error}"
        else:
            assert isinstance(found.candidates, Whole)
            # The draw is the record's own: it may have been forced.
            return Whole(found.ladder, step.draw, found.candidates.name, found.candidates.note)
    return Recorded(step, total, note)
