"""The next token's distribution, before it is drawn."""

from __future__ import annotations

from dataclasses import dataclass

from engine.records.step import StageTrace, TopTable


@dataclass(frozen=True, eq=False, slots=True)
class Upcoming:
    """The distribution that the token after ``parent`` will be drawn from; nothing was drawn.

    Its figures are those of a ``StepRecord``. It is of the moment: no file holds one.
    """

    parent: int
    entropy_raw: float
    entropy_final: float
    stages: tuple[StageTrace, ...]
    top: TopTable
    tried: tuple[str, str] | None = None
    """Preset and chain of the settings that it was asked for with; None: the run's own."""
