"""The interface of a draft source, and the drawing of its tokens from logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from engine.run.step_tree import Ids
from engine.sampling.chain import Chain
from engine.sampling.draw import Purpose, argmax, draw, uniform
from engine.sampling.stages import StageContext
from engine.sampling.verification import Probs


@dataclass(frozen=True, eq=False)
class Proposal:
    """Drafted ids, each with the distribution it was drawn from and the number that drew it.

    ``written`` positions went into the draft's own cache for it.
    """

    ids: tuple[int, ...] = ()
    q: tuple[Probs, ...] = ()
    u: tuple[float | None, ...] = ()
    written: int = 0


class DraftSource(Protocol):
    """Something that guesses how a text goes on."""

    @property
    def name(self) -> str:
        """Its specification, such as ``ngram:3``."""
        ...

    def propose(self, ids: Sequence[int], count: int, drawer: Drawer) -> Proposal:
        """Up to ``count`` tokens behind ``ids``; none where it has nothing to say."""
        ...

    def keep(self, ids: Sequence[int]) -> int:
        """Take back what its cache holds beyond ``ids``; the number of positions that were."""
        ...

    def close(self) -> None:
        """Free what it holds."""
        ...


class Drawer:
    """Draws a round's drafts one after another, each from logits through the run's own chain.

    The stages see prompt, output and the drafts so far; the numbers are keyed by seed and
    position, with a purpose of their own.
    """

    def __init__(self, chain: Chain, context: StageContext, ids: Sequence[int], width: int) -> None:
        """``width``: the target's vocabulary, which a draft model's logits are fitted to."""
        self._chain = chain
        self._context = context
        self._history = list(ids)
        self._start = len(context.prompt_ids)
        self._width = width
        self._drawn: list[tuple[int, Probs, float | None]] = []

    def draw(self, logits: NDArray[Any]) -> int:
        """The next drafted token. Raises SamplingError where the stages leave nothing."""
        chain, context = self._chain, self._context
        ladder = chain.run(_fitted(logits, self._width), context)
        if chain.greedy:
            chosen = argmax(ladder.final)
        else:
            u = uniform(context.seed, context.position, Purpose.DRAFT)
            chosen = draw(ladder.final, u)
        self._drawn.append((chosen.token_id, Probs.of(chain, ladder), chosen.u))
        self._history.append(chosen.token_id)
        self._context = replace(
            context,
            output_ids=Ids(self._history, self._start),
            state=chain.next_state(ladder, chosen.token_id, context),
        )
        return chosen.token_id

    def proposal(self, written: int) -> Proposal:
        """All that was drawn."""
        ids, q, u = zip(*self._drawn, strict=True) if self._drawn else ((), (), ())
        return Proposal(ids, q, u, written)


def _fitted(logits: NDArray[Any], width: int) -> NDArray[Any]:
    """``logits`` as wide as the target's: paddings differ, and no token lies in them."""
    if logits.size >= width:
        return logits[:width]
    missing = np.full(width - logits.size, -np.inf, np.float32)
    return np.concatenate((logits.astype(np.float32), missing))
