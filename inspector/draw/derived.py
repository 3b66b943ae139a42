"""Values that a stage computed at one step, in words: the temperature that was used."""

from __future__ import annotations

from collections.abc import Sequence

from engine.records.step import StageTrace
from engine.text import visible
from inspector.draw.cells import clip

_WORDS = {
    "temperature": "T {}",
    "mu": "mu {}",
    "k": "k {}",
    "threshold": "p≥{}",
    "border": "logit≥{}",
    "distance": "H±{}",
    "entropy limit": "H≤{}",
    "u": "u {}",
}


def derived_words(stage: StageTrace, digits: int = 5) -> str:
    """A stage's computed values, such as ``T 1.2577`` or ``mu 10, k 27``, or nothing."""
    equal = stage.derived.get("equal")
    if equal:
        return f"{stage.survivors - equal:,.0f} + {equal:,.0f} equal"
    parts = (
        _WORDS.get(name, f"{visible(name)} {{}}").format(f"{value:.{digits}g}".replace("-", "−"))
        for name, value in stage.derived.items()
    )
    return ", ".join(parts)


def derived_cell(stage: StageTrace, cells: int) -> str:
    """The same in ``cells`` cells, with as many digits as fit."""
    words = [derived_words(stage, digits) for digits in (5, 4, 3, 2)]
    words.append(words[-1].replace(" equal", " eq"))
    words.append(words[-1].replace(" ", ""))
    return next((text for text in words if len(text) <= cells), clip(words[-1], cells))


def derived_lines(stages: Sequence[StageTrace]) -> list[str]:
    """A line for each stage that worked something out, such as ``temperature=1: T 1.2577``."""
    return [f"{visible(one.label)}: {derived_words(one)}" for one in stages if one.derived]
