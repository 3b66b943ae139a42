"""The stage that steers the mean surprisal of what is drawn: mirostat, both versions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from engine.sampling.candidates import Candidates
from engine.sampling.stages.base import Dial, DialScale, Figure, Parameters, StageContext, stage

_FITTED = 100
"""Leading tokens from which version 1 estimates the exponent (llama.cpp's m)."""


@stage(
    "mirostat",
    Dial(
        "mirostat_tau", float, 0, 100, 0.0, "aims at this surprisal", "bits", apart=0.0,
        scale=DialScale(0, 10, 0.1, 1.0, 5.0),
    ),
    Dial(
        "mirostat_eta", float, 0.0, 1.0, None, "how fast it learns", low_included=False,
        scale=DialScale(0, 1, 0.01, 0.1, 0.1),
    ),
    Dial(
        "mirostat_version", int, 1, 2, None, "1 cuts to a rank, 2 to a surprisal",
        scale=DialScale(1, 2, 1, 1, 2),
    ),
    source="arXiv:2007.14966, as llama.cpp has it",
    beside_mirostat=True,
)  # fmt: skip
@dataclass(frozen=True)
class Mirostat(Parameters):
    """Cut what is too surprising by a border mu; steer mu towards a mean surprisal of tau bits.

    Version 2 cuts every token whose surprisal exceeds mu bits. Version 1 fits Zipf's exponent s to
    the 100 most likely tokens and keeps ``k = ((s - 1) * 2 ** mu / (1 - n ** (1 - s))) ** (1 / s)``
    of them, n the size of the vocabulary. mu starts at 2 tau. After each draw
    ``mu -= eta * (surprisal - tau)``, the surprisal taken from the truncated, renormalised
    distribution. mu is part of the node's state.
    """

    mirostat_tau: float = 0.0
    mirostat_eta: float = 0.1
    mirostat_version: int = 2

    def apply(self, candidates: Candidates, context: StageContext) -> Candidates:
        if self.mirostat_tau == 0.0:
            return candidates
        if self.mirostat_version == 1:
            return candidates.leading(self._count(candidates, context))
        # log2 p >= -mu, as a border on the logits; the most likely always stays.
        limit = candidates.log_z - self._mu(context) * math.log(2)
        keep = candidates.logits.astype(np.float64) >= limit
        return candidates.select(keep) if keep.any() else candidates.leading(1)

    def figure(self, candidates: Candidates, context: StageContext, token_id: int) -> Figure:
        if self.mirostat_version == 1:
            return Figure("rank", candidates.rank(token_id), ">", self._count(candidates, context))
        return Figure("surprisal in bits", _bits(candidates, token_id), ">", self._mu(context))

    def advance(self, after: Candidates, context: StageContext, token_id: int) -> float | None:
        if self.mirostat_tau == 0.0:
            return None
        surprisal = _bits(after, token_id)
        return self._mu(context) - self.mirostat_eta * (surprisal - self.mirostat_tau)

    def derived(
        self, before: Candidates, after: Candidates, context: StageContext
    ) -> dict[str, float]:
        found = {"mu": self._mu(context)}
        return found | {"k": self._count(before, context)} if self.mirostat_version == 1 else found

    def _mu(self, context: StageContext) -> float:
        return context.state.get("mirostat", 2.0 * self.mirostat_tau)

    def _count(self, candidates: Candidates, context: StageContext) -> int:
        """Number of tokens version 1 keeps."""
        if len(candidates) < 2:
            return 1
        head = candidates.descending(_FITTED)[:_FITTED].astype(np.float64)
        places = np.arange(1, head.size)
        steps = np.log((places + 1) / places)
        s = float((steps * (head[:-1] - head[1:])).sum() / (steps * steps).sum())
        excess, size = s - 1.0, candidates.vocab_size
        if s <= 0.0:
            return len(candidates)
        # The limit at s = 1, where the fraction is 0 / 0.
        share = excess / (1.0 - size**-excess) if abs(excess) > 1e-9 else 1.0 / math.log(size)
        log_k = (math.log(share) + self._mu(context) * math.log(2)) / s
        return max(1, int(math.exp(min(log_k, math.log(len(candidates) + 1)))))


def _bits(candidates: Candidates, token_id: int) -> float:
    """Surprisal of one of the candidates, in bits."""
    at, present = candidates.find(np.array([token_id]))
    if not present[0]:
        # Forced past the truncation: as unlikely as the least likely that was left.
        at = np.array([candidates.logits.argmin()])
    return (candidates.log_z - float(candidates.logits[at[0]])) / math.log(2)
