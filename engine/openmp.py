"""Waiting of OpenMP's idle threads, beside a screen that wants the cores too.

It has to be said in the environment before torch is imported: by the process that starts the
engine.
"""

from __future__ import annotations

import os

SPINCOUNT = "GOMP_SPINCOUNT"
"""The environment variable of GNU's OpenMP (torch on Linux)."""
SPINS = "3000"
"""Turns of an idle thread's loop before it sleeps: a fraction of a millisecond, a hundredth of the
default."""


def limit_spin() -> None:
    """Let idle threads of engines that are started from now on sleep soon.

    A decode step is some hundred short products, each of which ends when its slowest thread does.
    Where something else wants a core, a thread that waits by running keeps it from the one waited
    for; where nothing does, a thread that sleeps has to be woken for the next product. So the app
    asks for it, whose screen is painted while the engine runs, and a run without a screen leaves
    the environment alone. Figures of ``bench/spin.py`` (two cores, SmolLM2-135M in float32): 0.67
    of the default's time with one core kept busy, 1.02 on a quiet machine. What the user has set
    stays.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault(SPINCOUNT, SPINS)
