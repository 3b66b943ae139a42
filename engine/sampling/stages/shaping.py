"""The stage that changes how sharp the distribution is, and cuts nothing: temperature."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from engine.sampling.candidates import Candidates
from engine.sampling.stages.base import Dial, DialScale, Figure, Parameters, StageContext, stage

_LOWEST = float(np.finfo(np.float32).min)


@stage(
    "temperature",
    Dial(
        "temperature", float, 0.0, 100.0, 1.0, "divides the logits; 0 takes the likeliest token",
        scale=DialScale(0, 2, 0.05, 0.25, 0.8),
    ),
    Dial(
        "dynatemp_range", float, 0.0, 100.0, 0.0, "temperature varies by so much with entropy",
        scale=DialScale(0, 2, 0.05, 0.25, 0.5),
    ),
    Dial(
        "dynatemp_exponent", float, 0.0, 100.0, None, "how it varies", low_included=False,
        scale=DialScale(0, 4, 0.1, 0.5, 1.0),
    ),
    source="Boltzmann distribution; dynamic temperature as in llama.cpp (temp-ext)",
    beside_mirostat=True,
)  # fmt: skip
@dataclass(frozen=True)
class Temperature(Parameters):
    """Divide the logits by T; below 1 sharpens, above 1 flattens.

    T = 0 is greedy: only the most likely candidate stays, the lowest id among equals. With a range
    r, T lies between T - r (but not below 0) and T + r: ``low + (high - low) * (H / ln n) ** e``,
    where H is the entropy of the n candidates. ``floor`` is the least T above 0 that a stack
    takes, ``greedy_below`` the T under which it goes over to greedy.
    """

    temperature: float = 1.0
    dynatemp_range: float = 0.0
    dynatemp_exponent: float = 1.0
    floor: float = 0.0
    greedy_below: float = 0.0

    @property
    def greedy(self) -> bool:
        """True if the most likely token is taken, whatever the distribution."""
        return self.dynatemp_range == 0.0 and (
            self.temperature == 0.0 or self.temperature < self.greedy_below
        )

    def apply(self, candidates: Candidates, context: StageContext) -> Candidates:
        temperature = self._used(candidates)
        if temperature == 0.0:
            return candidates.only(candidates.order(1)[:1])
        if temperature == 1.0:
            return candidates
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            scaled = candidates.logits / np.float32(temperature)
            if not (np.isfinite(scaled.min()) and np.isfinite(scaled.max())):
                # Too large for float32: from the maximum down it is the same distribution.
                below = candidates.logits.astype(np.float64) - float(candidates.logits.max())
                scaled = np.maximum(below / temperature, _LOWEST).astype(np.float32)
        return candidates.with_logits(scaled)

    def derived(
        self, before: Candidates, after: Candidates, context: StageContext
    ) -> dict[str, float]:
        used = self._used(before)
        return {} if used == self.temperature else {"temperature": used}

    def _used(self, candidates: Candidates) -> float:
        """The temperature that these candidates get."""
        if self.dynatemp_range > 0.0:
            return self._dynamic(candidates)
        return 0.0 if self.greedy else max(self.temperature, self.floor)

    def _dynamic(self, candidates: Candidates) -> float:
        if len(candidates) < 2:
            return 1.0
        low = max(0.0, self.temperature - self.dynatemp_range)
        high = self.temperature + self.dynatemp_range
        share = min(1.0, candidates.entropy / math.log(len(candidates)))
        return low + (high - low) * float(share**self.dynatemp_exponent)

    def figure(self, candidates: Candidates, context: StageContext, token_id: int) -> Figure:
        return Figure("rank", candidates.rank(token_id), ">", 1)
