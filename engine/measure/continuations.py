"""Continuations of one text, drawn again and again, with drafts and without.

They are drawn by what draws them in a run: the source's proposals, the chain, the judge, numbers
keyed by seed and position. Remembered is only what does not depend on these numbers: the logits
behind a text, the target's and the draft's, and what the chain leaves of them. So a continuation is
the one that a run with its seed would give, and costs a pass only where its text is new.

Of a text that a round has verified there is one p, that of the round's pass, for draws without
drafts as well. A pass over a single position rounds otherwise, which moves a token at a truncating
stage's border in or out: ``rounding`` says how much of the probability that is, once and exactly.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.backends.abilities import take_back
from engine.backends.base import whole
from engine.records.arrays import FloatArray
from engine.records.partial import TopLogprobs
from engine.records.step import Came
from engine.run.draft import Drawer, Proposal
from engine.run.speculation import Speculation, length_of
from engine.run.step_tree import Ids
from engine.run.stepper import Stepper
from engine.run.verdicts import Judge
from engine.sampling.candidates import SamplingError
from engine.sampling.chain import Chain, Ladder
from engine.sampling.stages import StageContext
from engine.sampling.verification import Probs

Text = tuple[int, ...]
"""Tokens behind the text that all continuations go on."""


@dataclass(frozen=True, eq=False)
class Remembering(Chain):
    """A chain that runs once over each text's logits."""

    known: dict[Hashable, Ladder] = field(default_factory=dict)

    def run(self, logits: NDArray[Any] | TopLogprobs, context: StageContext) -> Ladder:
        """See ``Chain.run``; ``logits`` are always the same behind the same text."""
        own = tuple(context.output_ids), tuple(context.state.items())
        # A stage may throw dice of its own.
        key = (*own, context.seed) if any(one.name == "xtc" for one in self.stages) else own
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = super().run(logits, context)
        return found


class _Listener(Drawer):
    """Draws as ever, and keeps the logits that it was given."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.heard: list[NDArray[Any]] = []

    def draw(self, logits: NDArray[Any]) -> int:
        self.heard.append(np.array(logits))
        return super().draw(logits)


@dataclass(slots=True)
class Drafts:
    """Counts of what was drafted."""

    rounds: int = 0
    drafted: int = 0
    accepted: int = 0


class Continuations:
    """Draws up to ``length`` tokens behind ``node``, fewer where a stop token ends them."""

    def __init__(
        self, stepper: Stepper, speculation: Speculation, node: int, length: int = 2
    ) -> None:
        self._backend, self._speculation, self._length = stepper.backend, speculation, length
        _, self._context = stepper.plan(node, None, 0, None)
        self._ids = list(stepper.path_ids(node))
        self._stops = stepper.backend.facts.stop_ids
        chain = stepper.settings.chain
        self._chain = chain
        self._plain, self._ours, self._draft = (
            Remembering(chain.stages, chain.preset) for _ in range(3)
        )
        self._after: dict[Text, FloatArray] = {}
        self._rows: dict[Text, FloatArray] = {}
        self._q: dict[Text, NDArray[Any]] = {}
        self._certain: dict[tuple[Text, int], Proposal] = {}
        self.drafts = Drafts()

    def plain(self, seed: int) -> Text:
        """One continuation without drafts."""
        context, text = replace(self._context, seed=seed), Text()
        while not self._ended(text):
            text, context = self._draw(text, context)
        return text

    def drafted(self, seed: int) -> Text:
        """One continuation in rounds, which draft no more than is still to come."""
        context, text = replace(self._context, seed=seed), Text()
        while not self._ended(text):
            room = self._length - len(text)
            asked = length_of(self._speculation, context, room + 1)
            proposal = self._propose(text, context, asked)
            if not proposal.ids:
                text, context = self._draw(text, context)
                continue
            self.drafts.rounds += 1
            self.drafts.drafted += len(proposal.ids)
            text, context = self._verify(text, context, proposal)
        return text

    def _verify(
        self, text: Text, context: StageContext, proposal: Proposal
    ) -> tuple[Text, StageContext]:
        """Decide over the drafts as a round does; the text then, and its context."""
        judge = Judge(self._speculation.accept, self._ours, self._backend)
        self._read(text, proposal.ids)
        for token_id, q, u in zip(proposal.ids, proposal.q, proposal.u, strict=True):
            ladder = self._ours.run(self._rows[text], context)
            chosen = judge.judge(token_id, q, u, ladder, context)
            text, context = self._with(text, context, ladder, chosen.draw.token_id)
            if chosen.came is not Came.ACCEPTED:
                return text, context
            self.drafts.accepted += 1
            if self._ended(text):
                return text, context
        ladder = self._ours.run(self._rows[text], context)
        return self._with(text, context, ladder, judge.bonus(ladder, context).draw.token_id)

    def _draw(self, text: Text, context: StageContext) -> tuple[Text, StageContext]:
        """The next token, from a pass of its own."""
        ladder = self._ladder(text, context)
        return self._with(text, context, ladder, self._chain.choose(ladder, context).token_id)

    def _ladder(self, text: Text, context: StageContext) -> Ladder:
        """The ladder behind ``text``: of a round's pass, if one has read it."""
        if text in self._rows:
            return self._ours.run(self._rows[text], context)
        return self._plain.run(self._alone(text), context)

    def _alone(self, text: Text) -> FloatArray:
        """The logits behind ``text`` from a pass over its last position."""
        if text not in self._after:
            ids = [*self._ids, *text]
            at = self._backend.seek(ids)
            result = self._backend.forward(((self._backend.sequence, ids[at:]),))
            self._after[text] = np.array(result.logits)
        return self._after[text]

    def rounding(self) -> float:
        """Total variation of two tokens' distribution between the two kinds of passes.

        Behind first tokens that no round has read, nothing differs. With the numbers of seed 0.
        """
        first = self._both(Text(), self._context)
        if first is None:
            return 0.0
        (ours, theirs), moved = first, 0.0
        for token_id in np.union1d(ours.ids, theirs.ids).tolist():
            p, q = ours.of_token(token_id), theirs.of_token(token_id)
            ladder = self._ours.run(self._rows[Text()], self._context)
            text, context = self._with(Text(), self._context, ladder, token_id)
            second = None if self._ended(text) or not p * q else self._both(text, context)
            if second is None:
                moved += abs(p - q)
                continue
            ids = np.union1d(second[0].ids, second[1].ids)
            moved += float(np.abs(p * second[0].at(ids) - q * second[1].at(ids)).sum())
        return moved / 2

    def _both(self, text: Text, context: StageContext) -> tuple[Probs, Probs] | None:
        """p behind ``text`` of a round's pass, and of one over a single position."""
        if text not in self._rows:
            return None
        ladders = (
            self._ours.run(self._rows[text], context),
            self._plain.run(self._alone(text), context),
        )
        ours, theirs = (Probs.of(self._chain, one) for one in ladders)
        return ours, theirs

    def _read(self, text: Text, drafts: Sequence[int]) -> None:
        """Know the logits behind ``text`` and behind each of the drafts there, as a round does."""
        texts = [(*text, *drafts[:count]) for count in range(len(drafts) + 1)]
        if all(one in self._rows for one in texts if len(one) < self._length):
            return
        ids = [*self._ids, *text]
        at = self._backend.seek(ids)
        feed = [*ids[at:], *drafts]
        result = self._backend.forward(((self._backend.sequence, feed),), all_positions=True)
        rows = whole(result.known)[-len(texts) :]
        for one, row in zip(texts, rows, strict=True):
            self._rows.setdefault(one, np.array(row))
        take_back(self._backend, ids)

    def _propose(self, text: Text, context: StageContext, count: int) -> Proposal:
        """The source's drafts behind ``text``, with the numbers of ``context``."""
        known = self._certain.get((text, count))
        if known is not None:
            return known
        ids = [*self._ids, *text]
        given = self._draft, context, ids, self._backend.facts.vocab_size
        if text in self._q:
            drawer, drawn = Drawer(*given), text
            try:
                for _ in range(count):
                    drawn = (*drawn, drawer.draw(self._q[drawn]))
                return drawer.proposal(0)
            except SamplingError:
                return drawer.proposal(0)
            except KeyError:
                pass  # drawn for the first time: the source is asked
        listener, source = _Listener(*given), self._speculation.source
        proposal = source.propose(ids, count, listener)
        source.keep(ids)
        if not listener.heard:
            self._certain[text, count] = proposal
        for place, logits in enumerate(listener.heard):
            self._q.setdefault((*text, *proposal.ids[:place]), logits)
        return proposal

    def _with(
        self, text: Text, context: StageContext, ladder: Ladder, token_id: int
    ) -> tuple[Text, StageContext]:
        text = (*text, token_id)
        output = Ids([*self._ids, *text], len(context.prompt_ids))
        state = self._chain.next_state(ladder, token_id, context)
        return text, replace(context, output_ids=output, state=state)

    def _ended(self, text: Text) -> bool:
        return len(text) >= self._length or bool(text and text[-1] in self._stops)
