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
    keeps it from the one waited for. Measured on two cores with SmolLM2-135M in float16, turn and
    turn about: 18 ms a token either way in the idle moments; on average 400 ms by the default and
    80 ms by this while others kept the cores busy. It concerns GNU's OpenMP (torch on Linux).
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)
