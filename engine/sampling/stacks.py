"""The same logits through several stacks: what each keeps, and where and why they part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from engine.records.arrays import IntArray
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
    disagreements: Sequence[Disagreement]
    """Each is worked out when it is asked for: to say why a token was cut takes long."""
    disagreeing: int
    """Number of tokens they part on; ``disagreements`` may hold fewer."""


def compare_stacks(
    logits: NDArray[Any],
    dials: Mapping[str, Any],
    context: StageContext,
    *,
    presets: Iterable[str] = tuple(PRESETS),
    limit: int = 64,
    scale_known: bool = True,
) -> StackComparison:
    """Run ``logits`` of shape ``(vocab_size,)`` through each preset with the same dials.

    Without ``scale_known`` they are log-probabilities, and a stack that needs logits refuses. A
    dial not given has the stack's own default. Raises SpecError for a bad dial, SamplingError for
    logits that are no distribution.
    """
    model = Candidates.from_logits(logits)
    columns = tuple(_column(name, model, dials, context, scale_known) for name in presets)
    running = [column for column in columns if column.ladder is not None]
    votes = np.zeros(model.vocab_size, dtype=np.int64)
    for column in running:
        votes[column.kept_ids] += 1
    parted = np.flatnonzero((votes > 0) & (votes < len(running)))
    first = _likeliest(parted, model, limit)
    rows = _Rows(first, model, columns, context) if first else ()
    return StackComparison(columns, rows, int(parted.size))


def _likeliest(ids: NDArray[np.intp], model: Candidates, limit: int) -> list[int]:
    """The first ``limit`` of ascending ids by logit; of equal ones the lowest ids."""
    at, _ = model.find(ids)
    logits = model.logits[at]
    if len(ids) > limit > 0:
        # To sort them all would take longer than all that is done with the few.
        wanted = np.flatnonzero(logits >= np.partition(logits, -limit)[-limit])
        ids, logits = ids[wanted], logits[wanted]
    found: list[int] = ids[np.argsort(-logits, kind="stable")[:limit]].tolist()
    return found


@dataclass(frozen=True, eq=False)
class _Rows(Sequence[Disagreement]):
    """The tokens that stacks part on, made one by one and kept."""

    ids: list[int]
    model: Candidates
    columns: tuple[StackColumn, ...]
    context: StageContext
    made: dict[int, Disagreement] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> Disagreement: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Disagreement]: ...
    def __getitem__(self, index: int | slice) -> Disagreement | Sequence[Disagreement]:
        if isinstance(index, slice):
            return [self[one] for one in range(*index.indices(len(self)))]
        token_id = self.ids[index]
        if token_id not in self.made:
            self.made[token_id] = _row(token_id, self.model, self.columns, self.context)
        return self.made[token_id]


def _column(
    name: str, model: Candidates, dials: Mapping[str, Any], context: StageContext, scale_known: bool
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
        ladder = chain.run_from(model, context, scale_known=scale_known)
        ladder.check_signs()
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
