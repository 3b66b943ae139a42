"""What a step must move and compute, against what a machine can: arithmetic by hand."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import asdict

import pytest
import torch

from engine.measure import ceilings
from engine.records.measured import Ceilings
from engine.roofline import floor_ms, step_bytes, step_flops, utilisation

CEILINGS = Ceilings("cpu", "a CPU", "float32", 2, 20e9, 100e9, "by hand")


def test_a_step_reads_every_weight_once_and_all_of_k_and_v() -> None:
    # SmolLM2-135M in float32 at 100 positions: 538,060,032 + 100 * 46,080
    assert step_bytes(538_060_032, 100 * 46_080) == 542_668_032


def test_a_step_multiplies_and_adds_once_a_weight_and_twice_a_position() -> None:
    # 2 * 1000 + 4 * 2 layers * 3 heads * 5 wide * 7 positions
    assert step_flops(1000, 2, 3, 5, 7) == 2000 + 840


def test_mbu_is_bytes_by_time_by_bandwidth() -> None:
    # 1 GB in 100 ms is 10 GB/s, half of 20 GB/s
    assert utilisation(1e9, 100.0, 20e9) == pytest.approx(0.5)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_there_is_no_share_of_nothing(bad: float) -> None:
    assert utilisation(bad, 100.0, 20e9) is None
    assert utilisation(1e9, bad, 20e9) is None
    assert utilisation(1e9, 100.0, bad) is None


def test_the_floor_is_the_slower_of_moving_and_computing() -> None:
    assert floor_ms(1e9, 1e9, CEILINGS) == pytest.approx(50.0)  # 1 GB at 20 GB/s
    assert floor_ms(1e9, 1e10, CEILINGS) == pytest.approx(100.0)  # 10 GFLOP at 100 GFLOP/s


def test_the_ceilings_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings, "CPU_READ_BYTES", 16 << 20)
    monkeypatch.setattr(ceilings, "CPU_PRODUCTS", (128,))
    found = ceilings.measure_ceilings("cpu", "float32", seconds=0.01)
    assert found.device == "cpu"
    assert found.dtype == "float32"
    assert found.threads >= 1
    # No machine that runs this reads under 100 MB/s or over 10 TB/s.
    assert 1e8 < found.read_bytes_per_second < 1e13
    assert 1e8 < found.flops_per_second < 1e16
    assert found.method == "read 16 MiB; 128 x 128 matrix product in float32"
    assert found.cpu_share is not None
    assert 0 < found.cpu_share <= 1
    assert Ceilings(**json.loads(json.dumps(asdict(found)))) == found


def test_a_dtype_that_the_cpu_cannot_multiply_is_measured_on_a_small_product(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ceilings, "CPU_READ_BYTES", 16 << 20)
    monkeypatch.setattr(ceilings, "CPU_PRODUCTS", (64, 1 << 20))
    monkeypatch.setattr(ceilings, "SLOW_PRODUCT_MS", 0.0)
    found = ceilings.measure_ceilings("cpu", "float32", seconds=0.01)
    assert found.method.endswith("64 x 64 matrix product in float32")


def test_what_interrupts_a_part_of_a_read_is_not_in_the_figure() -> None:
    """Two parts in rounds; the first warms up. Of each its fastest: 5 + 3 ms, and no round is 8."""
    times = iter([1.0, 1.0, 5.0, 9.0, 8.0, 3.0, 70.0, 7.0, 6.0, 4.0])
    assert ceilings.fastest(lambda _: next(times), [int, int], seconds=0.1) == 8.0
    assert next(times) == 6.0  # Three rounds took 102 ms, more than the 100 asked for.


def test_the_share_of_the_cpu_that_a_measurement_got(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two pieces of 100 ms on two threads could run for 0.4 s of CPU time; they ran for 0.1 s."""
    clock, cpu = iter([0.0, 100.0, 500.0, 600.0]), iter([0.0, 0.04, 0.5, 0.56])
    monkeypatch.setattr(ceilings, "now_ms", lambda: next(clock))
    monkeypatch.setattr("time.process_time", lambda: next(cpu))
    watch = ceilings.Stopwatch(torch, torch.device("cpu"), ceilings.never)
    assert [watch(int), watch(int)] == [100.0, 100.0]
    assert watch.share(threads=2) == 0.25


def test_the_arithmetic_needs_no_torch() -> None:
    code = "import engine.roofline, sys; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
