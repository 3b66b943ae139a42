"""Stages that keep a leading set of tokens: top-k, top-p, min-p, epsilon, eta, top-nσ, top-H.

Probabilities are rounded to float32 before they are compared, as in the stacks: then a mass that
meets its border exactly, such as 0.5 + 0.3 and 0.8, is judged as they judge it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from engine.records.arrays import DoubleArray
from engine.sampling.candidates import Candidates
from engine.sampling.stages.base import (
    Dial,
    DialScale,
    Figure,
    Locality,
    Parameters,
    StageContext,
    stage,
)

_NO_LIMIT = float("inf")


class Ties(StrEnum):
    """Treatment of tokens that tie with the last one kept."""

    KEEP = "all kept"
    EXACT = "cut to the count, lowest ids kept"


class Border(StrEnum):
    """End of a nucleus: the token that crosses the mass, or the one before."""

    TAIL = "from the least likely up, cut while their mass <= 1 - p; of equals, highest ids kept"
    REACH = "from the most likely down, stop when the mass >= p; of equals, lowest ids kept"
    EXCEED = "keep while the mass of the more likely <= p; of equals, lowest ids kept"


class Scale(StrEnum):
    """Quantity that min-p compares: probability or logit."""

    PROBABILITY = "p < m * p_max"
    LOGIT = "logit < max + ln m"


@stage(
    "top_k",
    Dial(
        "top_k", int, 0, _NO_LIMIT, 0, "keeps the k most likely tokens", "tokens", apart=0,
        also_off=-1, scale=DialScale(1, 1000, 1, 10, 40, log=True),
    ),
    source="arXiv:1805.04833",
    locality=Locality.LEADING,
)  # fmt: skip
@dataclass(frozen=True)
class TopK(Parameters):
    """Keep the k candidates with the largest logits."""

    top_k: int = 0
    ties: Ties = Ties.KEEP

    def apply(self, candidates: Candidates, context: StageContext) -> Candidates:
        if not 0 < self.top_k < len(candidates):
            return candidates
        if self.ties is Ties.EXACT:
            return candidates.leading(self.top_k)
        kth = candidates.descending(self.top_k)[self.top_k - 1]
        return candidates.select(candidates.logits >= kth)

    def figure(self, candidates: Candidates, context: StageContext, token_id: int) -> Figure:
        return Figure("rank", candidates.rank(token_id), ">", self.top_k)

    def derived(
        self, before: Candidates, after: Candidates, context: StageContext
    ) -> dict[str, float]:
        equal = len(after) - self.top_k
        return {"equal": equal} if equal > 0 and len(after) < len(before) else {}


@stage(
    "top_p",
    Dial(
        "top_p", float, 0.0, 1.0, 1.0, "keeps the smallest leading set of mass p",
        scale=DialScale(0, 1, 0.01, 0.1, 0.95),
    ),
    Dial(
        "min_keep", int, 0, _NO_LIMIT, None, "the least that top_p and others leave", "tokens",
        scale=DialScale(0, 100, 1, 10, 1),
    ),
    source="nucleus sampling, arXiv:1904.09751",
    locality=Locality.LEADING,
)  # fmt: skip
@dataclass(frozen=True)
class TopP(Parameters):
    """Keep the smallest leading set whose mass reaches p; the most likely always stays.

    ``min_keep`` tokens stay at the least, also of what min-p, typical and XTC in the same chain
    would cut: in llama.cpp it is one number for all four.
    """

    top_p: float = 1.0
    border: Border = Border.TAIL
    min_keep: int = 0

    def apply(self, candidates: Candidates, context: StageContext) -> Candidates:
        if self.top_p >= 1.0:
            return candidates
        run = candidates.around(self.top_p, rounded=True)
        probs = candidates.probs_at(run.logits).astype(np.float32)
        through = run.before + np.cumsum(probs, dtype=np.float64)
        before = np.concatenate(([run.before], through[:-1]))
        inside = max(self._inside(candidates, before, through), 0 if run.start else 1)
        kept = run.start + min(inside, run.logits.size)
        if kept < self.min_keep:
            return candidates.leading(self.min_keep)
        # Where nothing of the run is kept, the border lies with the one before it.
        border = float(run.logits[inside - 1]) if 0 < inside <= run.logits.size else None
        # An ascending sort drops the lowest ids of a tie first, a descending one keeps them.
        highest = self.border is Border.TAIL
        return candidates.leading(kept, border=border, keep_highest_ids=highest)

    def _inside(self, candidates: Candidates, before: DoubleArray, through: DoubleArray) -> int:
        """Number of a run's tokens inside the nucleus, given the mass before and through each."""
        p = np.float32(self.top_p)
        if self.border is Border.TAIL:
            tail = (candidates.rounded_total - before).astype(np.float32)
            return int(np.count_nonzero(tail > np.float32(1.0 - self.top_p)))
        if self.border is Border.REACH:
            return int(np.count_nonzero(through.astype(np.float32) < p)) + 1
        return int(np.count_nonzero(before.astype(np.float32) <= p))

    def figure(self, candidates: Candidates, context: StageContext, token_id: int) -> Figure:
        place = candidates.rank(token_id) - 1
        if self.border is Border.TAIL:
            # Of equals the highest ids come first here.
            logit = candidates.logits[candidates.find(np.array([token_id]))[0][0]]
            tied = candidates.ids[candidates.logits == logit]
            place += tied.size - 1 - 2 * int(np.searchsorted(tied, token_id))
        more_likely = candidates.descending(place)[:place]
        before = float(candidates.probs_at(more_likely).sum())
        sign = ">" if self.border is Border.EXCEED else ">="
        return Figure("mass of the more likely", before, sign, self.top_p)


@stage(
    "min_p",
    Dial(
        "min_p", float, 0.0, 1.0, 0.0, "cuts below m times the highest probability",
        scale=DialScale(0, 0.5, 0.005, 0.05, 0.05),
    ),
    source="arXiv:2407.01082",
    locality=Locality.LEADING,
)  # fmt: skip
@dataclass(frozen=True)
class MinP(Parameters):
    """Cut every token whose probability is below m times that of the most likely."""

    min_p: float = 0.0
    scale: Scale = Scale.PROBABILITY
    min_keep: int = 0

    def apply(self, candidates: Candidates, context: StageContext) -> Candidates:
        if self.min_p == 0.0:
            return candidates
        if self.scale is Scale.LOGIT:
            limit = float(candidates.logits.max()) + math.log(self.min_p)
            keep = candidates.logits.astype(np.float64) >= limit
        else:
            probs = candidates.probs.astype(np.float32)
            keep = probs >= np.float32(self.min_p) * probs.max()
        if np.count_nonzero(keep) < self.min_keep:
            return candidates.leading(self.min_keep)
        return candidates.select(keep)

    def figure(self, candidates: Candidates, context: StageContext, token_id: int) -> Figure:
        return Figure("probability", candidates.prob(token_id), "<", self._limit(candidates))

    def derived(
        self, before: Candidates, after: Candidates, context: StageContext
    ) -> dict[str, float]:
        return {"threshold": self._limit(before)}

    def _limit(self, candidates: Candidates) -> float:
        return self.min_p / candidates.total


@stage(
    "epsilon",
    Dial(
        "epsilon_cutoff", float, 0.0, 1.0, 0.0, "cuts below this probability", high_included=False,
        scale=DialScale(0, 0.01, 0.0002, 0.002, 0.001),
    ),
    source="arXiv:2210.15191",
    locality=Locality.LEADING,
)  # fmt: skip
@dataclass(frozen=True)
class Epsilon(Parameters):
    """Cut every token whose probability is below epsilon, but never the most likely."""

    epsilon_cutoff: float = 0.0

    def apply(self, candidates: Candidates, context: StageContext) -> Candidates:
        return _at_least(candidates, np.float32(self.epsilon_cutoff))

    def figure(self, candidates: Candidates, context: StageContext, token_id: int) -> Figure:
        return Figure("probability", candidates.prob(token_id), "<", self.epsilon_cutoff)


@stage(
    "eta",
    Dial(
        "eta_cutoff", float, 0.0, 1.0, 0.0, "cuts below min(e, √e·exp(-H))", high_included=False,
        scale=DialScale(0, 0.01, 0.0002, 0.002, 0.001),
    ),
    source="arXiv:2210.15191",
)  # fmt: skip
@dataclass(frozen=True)
class Eta(Parameters):
    """Cut every token whose probability is below ``min(e, sqrt(e) * exp(-entropy))``."""

    eta_cutoff: float = 0.0

    def apply(self, candidates: Candidates, context: StageContext) -> Candidates:
        return _at_least(candidates, np.float32(self._limit(candidates)))

    def figure(self, candidates: Candidates, context: StageContext, token_id: int) -> Figure:
        return Figure("probability", candidates.prob(token_id), "<", self._limit(candidates))

    def derived(
        self, before: Candidates, after: Candidates, context: StageContext
    ) -> dict[str, float]:
        return {"threshold": self._limit(before)}

    def _limit(self, candidates: Candidates) -> float:
        e = self.eta_cutoff
        return min(e, math.sqrt(e) * math.exp(-candidates.entropy)) if e else 0.0


@stage(
    "top_n_sigma",
    Dial(
        "top_n_sigma", float, 0, 1000, 0.0, "cuts below max - n deviations", "σ", apart=0.0,
        also_off=-1.0, scale=DialScale(0, 5, 0.1, 0.5, 1.0),
    ),
    source="arXiv:2411.07641, as llama.cpp has it",
)  # fmt: skip
@dataclass(frozen=True)
class TopNSigma(Parameters):
    """Cut every logit below ``max - n * sigma``, sigma the deviation of the candidates' logits."""

    top_n_sigma: float = 0.0

    def apply(self, candidates: Candidates, context: StageContext) -> Candidates:
        if self.top_n_sigma == 0.0:
            return candidates
        return candidates.select(candidates.logits.astype(np.float64) >= self._limit(candidates))

    def figure(self, candidates: Candidates, context: StageContext, token_id: int) -> Figure:
        at = candidates.find(np.array([token_id]))[0][0]
        return Figure("logit", float(candidates.logits[at]), "<", self._limit(candidates))

    def derived(
        self, before: Candidates, after: Candidates, context: StageContext
    ) -> dict[str, float]:
        return {"border": self._limit(before)}

    def _limit(self, candidates: Candidates) -> float:
        sigma = float(candidates.logits.std(dtype=np.float64))
        return float(candidates.logits.max()) - self.top_n_sigma * sigma


@stage(
    "top_h",
    Dial(
        "top_h", float, 0, 1, 0.0, "keeps the head with this share of the entropy", apart=0.0,
        scale=DialScale(0, 1, 0.01, 0.1, 0.4),
    ),
    source="arXiv:2509.02510, as transformers has it",
)  # fmt: skip
@dataclass(frozen=True)
class TopH(Parameters):
    """Keep the leading tokens while their part of the entropy is at most h times the whole.

    Judged among the 100 most likely tokens, renormalised; the rest goes. The first always stays.
    """

    top_h: float = 0.0

    def apply(self, candidates: Candidates, context: StageContext) -> Candidates:
        if self.top_h == 0.0:
            return candidates
        running, limit = self._running(candidates)
        kept = int(np.count_nonzero(running.astype(np.float32) <= np.float32(limit)))
        return candidates.leading(max(1, kept))

    def figure(self, candidates: Candidates, context: StageContext, token_id: int) -> Figure:
        running, limit = self._running(candidates)
        place = candidates.rank(token_id) - 1
        if place >= running.size:
            return Figure("rank", place + 1, ">", running.size)
        return Figure("entropy of the leading set", float(running[place]), ">", limit)

    def derived(
        self, before: Candidates, after: Candidates, context: StageContext
    ) -> dict[str, float]:
        return {"entropy limit": self._running(before)[1]}

    def _running(self, candidates: Candidates) -> tuple[DoubleArray, float]:
        """(entropy of each leading set, its limit), in nats, over the head's own distribution.

        Up to the first probability that float32 rounds to 0: transformers' sum ends there.
        """
        head = candidates.descending(_TOP_H_CAP)[:_TOP_H_CAP].astype(np.float64)
        weights = np.exp(head - head[0])
        probs = weights / weights.sum()
        terms = probs * (math.log(weights.sum()) - (head - head[0]))
        running = np.cumsum(terms)[probs.astype(np.float32) > 0]
        return running, self.top_h * float(terms.sum())


_TOP_H_CAP = 100


def _at_least(candidates: Candidates, limit: np.float32) -> Candidates:
    """The candidates of probability ``limit`` or more, and whichever are the most likely."""
    if limit == 0.0:
        return candidates
    probs = candidates.probs.astype(np.float32)
    keep: NDArray[np.bool_] = probs >= limit
    return candidates.select(keep | (candidates.logits == candidates.logits.max()))
