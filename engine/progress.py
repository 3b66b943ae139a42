"""The callback by which long work reports its phase and progress."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, float | None, str], None]
"""Told the phase, how much of it is done (None: not known), and a detail.

Phases of loading are wait, download, check, convert and load.
"""


def silent(phase: str, fraction: float | None, detail: str) -> None:
    """Tells nobody."""
