"""Stages that may cut the most likely tokens too: typical, XTC."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from engine.records.arrays import FloatArray
from engine.sampling.candidates import Candidates
from engine.sampling.draw import Purpose, uniform
from engine.sampling.stages.base import Dial, DialScale, Figure, Parameters, StageContext, stage
from engine.sampling.stages.truncation import Ties

_NO_LIMIT = float("inf")


@stage(
    "typical",
    Dial(
        "typical_p", float, 0.0, 1.0, 1.0, "keeps the tokens nearest to the expected surprisal",
        low_included=False, scale=DialScale(0, 1, 0.01, 0.1, 0.95),
    ),
    source="arXiv:2202.00666",
)  # fmt: skip
@dataclass(frozen=True)
class Typical(Parameters):
    """Keep the tokens whose surprisal is nearest to the entropy, until their mass reaches t.

    It can cut the most likely token. transformers keeps every tie with the last and stops when
    the mass is >= t; llama.cpp cuts to the count and stops when it is > t.
    """

    typical_p: float = 1.0
    ties: Ties = Ties.KEEP
    min_keep: int = 0

    def apply(self, candidates: Candidates, context: StageContext) -> Candidates:
        if self.typical_p >= 1.0:
            return candidates
        distance = self._distance(candidates)
        order = np.argsort(distance, kind="stable")
        probs = candidates.probs.astype(np.float32)[order]
        mass = np.cumsum(probs, dtype=np.float64).astype(np.float32)
        t = np.float32(self.typical_p)
        exact = self.ties is Ties.EXACT
        short = int(np.count_nonzero(mass <= t if exact else mass < t))
        last = min(max(short, self.min_keep - 1), len(candidates) - 1)
        if exact:
            return candidates.only(order[: last + 1])
        return candidates.select(distance <= distance[order[last]])

    def figure(self, candidates: Candidates, context: StageContext, token_id: int) -> Figure:
        distance = self._distance(candidates)
        kept = self.apply(candidates, context)
        limit = distance[candidates.find(kept.ids)[0]].max()
        at = candidates.find(np.array([token_id]))[0][0]
        sign = ">=" if self.ties is Ties.EXACT else ">"
        return Figure("|surprisal - entropy|", float(distance[at]), sign, float(limit))

    def derived(
        self, before: Candidates, after: Candidates, context: StageContext
    ) -> dict[str, float]:
        surprisal = before.log_z - after.logits.astype(np.float64)
        return {"distance": float(np.abs(surprisal - before.entropy).max())}

    @staticmethod
    def _distance(candidates: Candidates) -> FloatArray:
        """|surprisal - entropy| of each candidate, in float32 from the start like the stacks."""
        with np.errstate(over="ignore"):
            below = candidates.logits - candidates.logits.max()
        logprobs = below - np.float32(math.log(candidates.total))
        distance: FloatArray = np.abs(-logprobs - np.float32(candidates.entropy))
        return distance


@stage(
    "xtc",
    Dial(
        "xtc_probability", float, 0.0, 1.0, 0.0, "how often the stage acts at all",
        scale=DialScale(0, 1, 0.05, 0.25, 0.5),
    ),
    Dial(
        "xtc_threshold", float, 0.0, 1.0, None, "acts on tokens at least this likely",
        scale=DialScale(0, 0.5, 0.01, 0.1, 0.1),
    ),
    source="Exclude Top Choices by p-e-w (oobabooga/text-generation-webui#6335)",
)  # fmt: skip
@dataclass(frozen=True)
class Xtc(Parameters):
    """With the given probability, of the tokens above the threshold cut all but the least likely.

    A threshold above 0.5 never acts. mlx-lm asks for more than the threshold, and keeps every tie
    with the least likely.
    """

    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    strict: bool = False
    ties: Ties = Ties.EXACT
    min_keep: int = 0

    def apply(self, candidates: Candidates, context: StageContext) -> Candidates:
        if not self._asks(candidates) or self._dice(context) >= self.xtc_probability:
            return candidates
        probs = candidates.probs.astype(np.float32)
        threshold = np.float32(self.xtc_threshold)
        above = np.flatnonzero(probs > threshold if self.strict else probs >= threshold)
        if above.size < 2:
            return candidates
        # The last in order stays: by logit, which tells apart what rounds to one probability.
        likeness = candidates.logits if self.ties is Ties.EXACT else probs
        least = above[likeness[above] == likeness[above].min()]
        staying = least[-1:] if self.ties is Ties.EXACT else least
        keep = np.ones(len(candidates), dtype=np.bool_)
        keep[above] = False
        keep[staying] = True
        if np.count_nonzero(keep) < self.min_keep:
            return candidates
        return candidates.select(keep)

    def _asks(self, candidates: Candidates) -> bool:
        """True if the dice are asked at all."""
        return self.xtc_probability > 0.0 and self.xtc_threshold <= 0.5 and len(candidates) > 1

    @staticmethod
    def _dice(context: StageContext) -> float:
        return uniform(context.seed, context.position, Purpose.STAGE, _XTC)

    def derived(
        self, before: Candidates, after: Candidates, context: StageContext
    ) -> dict[str, float]:
        return {"u": self._dice(context)} if self._asks(before) else {}

    def figure(self, candidates: Candidates, context: StageContext, token_id: int) -> Figure:
        prob = candidates.prob(token_id)
        return Figure("probability", prob, ">" if self.strict else ">=", self.xtc_threshold)


# Number of the random number among those that stages draw at one position.
_XTC = 0
