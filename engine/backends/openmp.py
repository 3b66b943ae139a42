"""How torch's CPU threads wait for each other, which must be settled before torch is imported."""

from __future__ import annotations

import os

SPINCOUNT = "GOMP_SPINCOUNT"
"""The environment variable of GNU's OpenMP (torch on Linux) that ``limit_spin`` sets."""
SPINS = "3000"
"""Turns of an idle thread's loop before it sleeps, on a busy machine: a fraction of a millisecond,
a hundredth of the default."""
BUSY = 0.5
"""Share of the processors that others use from which on the machine counts as busy."""
SET_BY_US: list[str] = []
"""Names of the environment variables that ``limit_spin`` has set in this process."""


def limit_spin() -> None:
    """Let idle threads sleep soon where the machine is busy; leave the environment alone elsewhere.

    A decode step is some hundred short products, each of which ends when its slowest thread does.
    Where another process wants a core, a thread that waits by running keeps it from the one waited
    for; where none does, a thread that sleeps has to be woken for the next product. Figures of
    ``bench/spin.py`` (two cores, SmolLM2-135M in float32): with one core kept busy, 0.67 of the
    time by the default; on a quiet machine 1.02, and up to 1.29 on others. What the user has set
    stays.
    """
    if "OMP_WAIT_POLICY" in os.environ or SPINCOUNT in os.environ or not is_busy():
        return
    os.environ[SPINCOUNT] = SPINS
    SET_BY_US.append(SPINCOUNT)


def is_busy() -> bool:
    """Whether others used much of the processors in the last minute; False where nothing tells."""
    try:
        load = os.getloadavg()[0]
    except (AttributeError, OSError):
        return False
    return load > BUSY * (os.cpu_count() or 1)
