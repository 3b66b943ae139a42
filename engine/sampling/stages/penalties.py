"""The stage that makes tokens less likely because they were there before."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.records.arrays import IntArray
from engine.sampling.candidates import Candidates
from engine.sampling.stages.base import (
    Dial,
    DialScale,
    Locality,
    Parameters,
    Role,
    StageContext,
    stage,
)
from engine.sampling.stages.bias import Over

_NO_LIMIT = float("inf")
LAST_N = "looks at the last n tokens; -1 at all"


@stage(
    "penalties",
    Dial(
        "repetition_penalty", float, 0, 100, 1.0, "divides a seen token's logit, or multiplies it",
        low_included=False, scale=DialScale(0.5, 2, 0.05, 0.25, 1.1),
    ),
    Dial(
        "frequency_penalty", float, -100, 100, 0.0, "subtracted once per occurrence", "logits",
        scale=DialScale(-2, 2, 0.1, 0.5, 0.5),
    ),
    Dial(
        "presence_penalty", float, -100, 100, 0.0, "subtracted once from a seen token", "logits",
        scale=DialScale(-2, 2, 0.1, 0.5, 0.5),
    ),
    Dial(
        "penalty_last_n", int, -1, _NO_LIMIT, None, LAST_N, "tokens", apart=-1,
        scale=DialScale(1, 2048, 1, 16, 64, log=True),
    ),
    role=Role.LOGITS,
    source="CTRL (arXiv:1909.05858) for repetition; OpenAI API for frequency and presence",
    locality=Locality.BY_ID,
)  # fmt: skip
@dataclass(frozen=True)
class Penalties(Parameters):
    """Make the tokens of the text so far less likely.

    Repetition: a positive logit is divided, another multiplied, once per distinct token.
    Frequency and presence: ``logit - frequency * count - presence``. Stacks differ in which
    tokens count (OpenAI and vLLM count the output alone), how far back, and what comes first.
    """

    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    penalty_last_n: int = -1
    repeats_in: Over = Over.ALL
    counts_in: Over = Over.OUTPUT
    subtract_first: bool = False

    def apply(self, candidates: Candidates, context: StageContext) -> Candidates:
        if self.off:
            return candidates
        logits = candidates.logits.copy()
        steps = (self._repetition, self._frequency_and_presence)
        for step in reversed(steps) if self.subtract_first else steps:
            step(candidates, context, logits)
        return candidates.with_logits(logits)

    def _repetition(
        self, candidates: Candidates, context: StageContext, logits: NDArray[np.float32]
    ) -> None:
        if self.repetition_penalty == 1.0:
            return
        ids = np.unique(self._window(context, self.repeats_in))
        at, present = candidates.find(ids)
        at, factor = at[present], np.float32(self.repetition_penalty)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            changed = np.where(logits[at] < 0, logits[at] * factor, logits[at] / factor)
        logits[at] = changed

    def _frequency_and_presence(
        self, candidates: Candidates, context: StageContext, logits: NDArray[np.float32]
    ) -> None:
        if self.frequency_penalty == 0.0 and self.presence_penalty == 0.0:
            return
        ids, counts = np.unique(self._window(context, self.counts_in), return_counts=True)
        at, present = candidates.find(ids)
        logits[at[present]] -= (
            counts[present] * np.float64(self.frequency_penalty) + self.presence_penalty
        ).astype(np.float32)

    def _window(self, context: StageContext, over: Over) -> IntArray:
        past = context.history
        if over is Over.OUTPUT:
            past = past[len(context.prompt_ids) :]
        return last_tokens(past, self.penalty_last_n)


def last_tokens(past: IntArray, count: int) -> IntArray:
    """The last ``count`` tokens; all of them for -1."""
    return past if count < 0 else past[max(0, past.size - count) :]
