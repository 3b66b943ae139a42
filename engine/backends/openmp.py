"""How torch's CPU threads wait for each other, which must be settled before torch is imported."""

from __future__ import annotations

import os

SPINS = "3000"
"""Turns of an idle thread's loop before it sleeps; a few dozen microseconds.

Longer than the pauses between the products of one pass, so that a machine with nothing else to do
is as fast as ever; a hundredth of the default, which is many milliseconds.
"""


def settle() -> None:
    """Let idle threads sleep soon, unless the user has said how they shall wait.

    A decode step is some three hundred short products, each of which ends when its slowest thread
    does. Where another process (our own screen, say) wants a core, a thread that waits by running
    keeps it from the one waited for. Measured on two cores with SmolLM2-135M in float16: 18 ms a
    token either way when idle; with a second process that takes two thirds of one core, 400 ms by
    the default and 80 ms by this. It concerns GNU's OpenMP (torch on Linux); others ignore it.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)
