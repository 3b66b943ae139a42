"""How torch's CPU threads wait for each other, which must be settled before torch is imported."""

from __future__ import annotations

import os

SPINCOUNT = "GOMPSPINCOUNT"
SPINS = "30000"
SET_BY_US: list[str] = []
"""Names of the environment variables that ``limit_spin`` has set in this process."""


def limit_spin() -> None:
    """Let idle threads sleep soon, unless the user has said how they shall wait."""
    if "OMP_WAIT_POLICY" not in os.environ and SPINCOUNT not in os.environ:
        os.environ[SPINCOUNT] = SPINS
        SET_BY_US.append(SPINCOUNT)
