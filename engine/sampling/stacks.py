"""The same logits through several stacks: what each keeps, and where and why they part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.records import IntArray
from engine.sampling.candidates import Candidates, SamplingError
from engine.sampling.explain import explain
from engine.sampling.ladder import Chain, Ladder
from engine.sampling.presets import PRESETS
from engine.sampling.settings import effective
from engine.sampling.spec import preset_of
from engine.sampling.stages import DIALS, StageContext


@dataclass(frozen=True, eq=False)
class StackColumn:
    """One stack's answer. ``ignored`` names the dials given that it does not have.

    ``chain`` and ``ladder`` are None, and ``error`` says why, where a stage refused.
    """

    preset: str
    title: str
    stack: str
    chain: Chain | None
    ladder: Ladder | None
    ignored: tuple[str, ...]
    error: str = ""

    @property
    def kept_ids(self) -> IntArray:
        """Ids that this stack could draw, ascending."""
        return np.zeros(0, np.int32) if self.ladder is None else self.ladder.final.ids


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A token that some stacks keep and others cut: one entry a column, in their order.

    ``reasons`` holds the explanation where it was cut, else nothing.
    """

    token_id: int
    raw_prob: float
    kept: tuple[bool, ...]
    final_probs: tuple[float, ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class StackComparison:
    """Several stacks side by side, and the tokens they part on, the model's favourites first."""

    columns: tuple[StackColumn, ...]
    disagreements: tuple[Disagreement, ...]
    disagreeing: int
    """How many tokens they part on; ``disagreements`` may hold fewer."""


def compare_stacks(
    logits: NDArray[Any],
    dials: Mapping[str, Any],
    context: StageContext,
    *,
    presets: Iterable[str] = tuple(PRESETS),
    limit: int = 64,
) -> StackComparison:
    """Run ``logits`` of shape ``(vocab_size,)`` through each preset with the same dials.

    A dial not given has the stack's own default. Raises SpecError for a bad dial, SamplingError
    for logits that are no distribution.
    """
    model = Candidates.from_logits(logits)
    columns = tuple(_column(name, model, dials, context) for name in presets)
    running = [column for column in columns if column.ladder is not None]
    votes = np.zeros(model.vocab_size, dtype=np.int64)
    for column in running:
        votes[column.kept_ids] += 1
    parted = np.flatnonzero((votes > 0) & (votes < len(running)))
    at, _ = model.find(parted)
    order = np.argsort(-model.logits[at], kind="stable")[:limit]
    rows = tuple(_row(int(token_id), model, columns, context) for token_id in parted[order])
    return StackComparison(columns, rows, int(parted.size))


def _column(
    name: str, model: Candidates, dials: Mapping[str, Any], context: StageContext
) -> StackColumn:
    preset = preset_of(name)
    has = {
        dial: value
        for dial, value in dials.items()
        if dial not in DIALS or (DIALS[dial][0] in preset.order and dial not in preset.lacks)
    }
    ignored = tuple(dial for dial in dials if dial not in has)
    chain = effective(name, has).chain
    try:
        ladder = chain.run_from(model, context)
    except SamplingError as error:
        return StackColumn(name, preset.title, preset.stack, None, None, ignored, str(error))
    return StackColumn(name, preset.title, preset.stack, chain, ladder, ignored)


def _row(
    token_id: int, model: Candidates, columns: Iterable[StackColumn], context: StageContext
) -> Disagreement:
    ids = np.array([token_id])
    kept, probs, reasons = [], [], []
    for column in columns:
        if column.ladder is None or column.chain is None:
            kept.append(False)
            probs.append(0.0)
            reasons.append(column.error)
            continue
        probability = float(column.ladder.final.probs_of(ids)[0])
        alive = bool(column.ladder.final.find(ids)[1][0])
        kept.append(alive)
        probs.append(probability)
        reasons.append(
            ""
            if alive
            else explain(column.chain, column.ladder, context, token_id, saving=False).text
        )
    raw = float(model.probs_of(ids)[0])
    return Disagreement(token_id, raw, tuple(kept), tuple(probs), tuple(reasons))
