"""Two greedy runs of one prompt that part: by a near-tie that rounding decides, or by a fault."""

from __future__ import annotations

from dataclasses import dataclass

from engine.backends.abilities import Measurable, measurable
from engine.measure.drift import rounding
from engine.records.arrays import FloatArray
from engine.records.vocabulary import Token
from engine.run.stepper import Stepper


@dataclass(frozen=True, slots=True)
class Parting:
    """The first token in which two runs differ: ``ours`` has taken ``other``.

    ``margin`` is by how much ``token`` is ahead in the first run, in logits; ``drift`` the largest
    difference that another way to read the same text in the same dtype makes to a logit there, None
    where it cannot be measured.
    """

    position: int
    token: Token
    other: Token
    margin: float
    drift: float | None

    @property
    def near_tie(self) -> bool:
        """True if rounding explains it: two logits may both move, towards each other."""
        return self.drift is not None and self.margin <= 2 * self.drift

    @property
    def words(self) -> str:
        """The same in a line."""
        tie = "a near-tie" if self.near_tie else "NO near-tie"
        drift = "not known" if self.drift is None else f"{self.drift:.4f}"
        return f"part at position {self.position:,}: {tie}, {self.margin:.4f} logits, drift {drift}"


def first_parting(plain: Stepper, ours: Stepper) -> Parting | None:
    """The first token in which two runs differ; None if one is the beginning of the other.

    Raises BackendError.
    """
    for one, other in zip(plain.path(), ours.path(), strict=False):
        if one.token.id == other.token.id:
            continue
        logits = plain.dense(one.node)
        margin = float(logits[one.token.id]) - float(logits[other.token.id])
        drift = _drift(plain, one.node, logits)
        return Parting(one.position, one.token, other.token, margin, drift)
    return None


def _drift(run: Stepper, node: int, logits: FloatArray) -> float | None:
    if not isinstance(run.backend, Measurable):
        return None
    return rounding(measurable(run.backend), run.path_ids(run.tree.parents[node]), logits)
