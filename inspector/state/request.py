"""A run as it is asked for: model, sampler settings, prompt, breakpoints, and where it is saved."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from engine.commands import Configure, Open, SetBreakpoints, Settings, Submit

MAX_SEED = 2**63 - 1


@dataclass(frozen=True)
class Save:
    """Options for saving a run. Without a ``path``: under a name of its own, if ``auto``."""

    path: Path | None = None
    full_logits: bool = False
    auto: bool = True


@dataclass(frozen=True)
class ColumnRequest:
    """A column of a comparison: its settings, its seed (None: the run's), and what it is called."""

    settings: Settings
    seed: int | None = None
    title: str = ""


@dataclass(frozen=True)
class Request:
    """A run as it is asked for: model, sampler settings, prompt, breakpoints, and saving."""

    open: Open
    configure: Configure
    submit: Submit
    breakpoints: SetBreakpoints = field(default_factory=SetBreakpoints)
    save: Save = Save()
    columns: tuple[ColumnRequest, ...] = ()
    """Columns to compare, where the run is a comparison."""
