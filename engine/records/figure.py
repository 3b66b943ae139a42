"""A figure with its unit, where it comes from and how: what screens and reports show."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Source(StrEnum):
    """Origin of a figure."""

    MEASURED = "measured"
    DERIVED = "derived"
    ESTIMATED = "estimated"


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure, its unit, where it comes from and how; None with the reason where there is none."""

    name: str
    value: float | None
    unit: str
    source: Source
    formula: str
    reason: str = ""
