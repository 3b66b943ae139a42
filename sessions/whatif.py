"""Other settings for a saved step, as an answer that always has figures and says what they are."""

from __future__ import annotations

from dataclasses import dataclass

from engine.records.step import StepRecord
from engine.sampling.chain import Chain, Ladder
from engine.sampling.head import completed
from engine.sampling.stages import StageContext
from engine.sampling.tail import rest_mass, settled


@dataclass(frozen=True, eq=False)
class WhatIf:
    """A chain's work on a saved step. ``ladder`` is exact where ``exact`` says so.

    What is then exact is who survives and every probability after the last stage; the stages
    before it may have counted tail tokens, whose figures are those of an even tail.
    """

    ladder: Ladder
    exact: bool
    missing_mass: float
    """The model's probability of all tokens that were not kept."""

    @property
    def note(self) -> str:
        """What a screen says when the result is not exact; empty when it is."""
        if self.exact:
            return ""
        return f"{self.missing_mass:.2%} of the model's mass was not kept: this is an estimate"


def what_if(step: StepRecord, chain: Chain, context: StageContext, vocab_size: int) -> WhatIf:
    """Run ``chain`` on a saved step.

    Raises ``engine.sampling.chain.SamplingError`` when a stage leaves nothing to draw from.
    """
    exact = settled(step, chain, context, vocab_size)
    ladder, _ = completed(step, chain, context, vocab_size)
    return WhatIf(ladder, exact, rest_mass(step))
