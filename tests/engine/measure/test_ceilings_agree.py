"""The ceilings agree with a few lines that measure the same in another way."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
import torch

from engine.measure import ceilings
from engine.measure.ceilings import measure_ceilings

MIB = 1 << 20
READ, SIDE = 16 * MIB, 384
"""A pass takes a few ms, so that some of them are not interrupted on a machine that is shared."""


def least(work: Callable[[], object], seconds: float) -> float:
    """Seconds of the fastest of the runs of ``work`` that fit."""
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        began = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - began)
    return best


@pytest.mark.usefixtures("one_thread")
def test_bandwidth_and_rate_agree_within_15_percent(monkeypatch: pytest.MonkeyPatch) -> None:
    """By turns, the best of each: a machine that is busy for a while is busy for both."""
    monkeypatch.setattr(ceilings, "CPU_READ_BYTES", READ)
    monkeypatch.setattr(ceilings, "CPU_PRODUCTS", (SIDE,))
    rows = torch.ones(READ // 4 // 4096, 4096)
    one, other = rows.flatten().view(2, -1)
    square = torch.rand(SIDE, SIDE)
    ours, theirs = np.zeros(2), np.zeros(2)
    for _ in range(12):
        found = measure_ceilings("cpu", "float32", seconds=0.06)
        read = READ / min(least(lambda: one @ other, 0.06), least(rows.sum, 0.06))
        rate = 2.0 * SIDE**3 / least(lambda: square @ square, 0.06)
        ours = np.maximum(ours, (found.read_bytes_per_second, found.flops_per_second))
        theirs = np.maximum(theirs, (read, rate))
        if np.allclose(ours, theirs, rtol=0.1):
            break
    np.testing.assert_allclose(ours, theirs, rtol=0.15)
