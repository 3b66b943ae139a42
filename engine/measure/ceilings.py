"""Ceilings of this machine, measured on it, never taken from a datasheet."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from functools import partial
from typing import Any

from engine.records.measured import Ceilings
from engine.timing import now_ms

CPU_READ_BYTES = 512 << 20
GPU_READ_BYTES = 4 << 30
SMALL_PRODUCT = 384
CPU_PRODUCT = 1536
GPU_PRODUCT = 8192
SLOW_PRODUCT_MS = 10.0
"""A small product that takes longer would make the large one, 64 times the work, a long wait."""


class PutOff(Exception):
    """A measurement made way for something else."""


def never() -> bool:
    """False: a measurement that nothing ends early."""
    return False


def measure_ceilings(
    device: str = "cpu",
    dtype: str = "float32",
    *,
    seconds: float = 0.6,
    stop: Callable[[], bool] = never,
) -> Ceilings:
    """Measure read bandwidth and matrix-product speed on ``device``; takes about 2 x ``seconds``.

    Bandwidth: a buffer much larger than any cache is reduced to one number, over and over, and
    read by a matrix-vector product, which is what decoding does; the fastest pass of either
    counts, as a ceiling is what can be reached. Speed: the fastest product of two square matrices
    in ``dtype``, or in float32 where a CPU is faster at that, because much that is stored in 16
    bits is then multiplied in 32. Raises RuntimeError (torch's own) for a device that is not
    there, AttributeError for a dtype that is not, RuntimeError when memory is short, and PutOff
    once ``stop`` is true, which is asked between two passes.

    Measure while the machine does nothing else, and keep the result: a busy machine gives
    ceilings that are too low.
    """
    import torch

    target = torch.device(device)
    on_cpu = target.type == "cpu"
    names = (dtype, "float32") if on_cpu else (dtype,)
    dtypes = {name: getattr(torch, name) for name in names}
    clock = _clock(torch, target, stop)
    nbytes = _read_bytes(torch, target)
    columns = 4096
    # float32 whatever ``dtype`` is: a reader in 16 bits may be bound by its conversions.
    buffer = torch.ones((nbytes // 4 // columns, columns), dtype=torch.float32, device=target)
    vector = torch.ones(columns, dtype=torch.float32, device=target)
    summed = _fastest(clock, buffer.sum, seconds / 2)
    multiplied = _fastest(clock, partial(torch.mv, buffer, vector), seconds / 2)
    size = buffer.numel() * 4
    del buffer, vector
    products = {
        name: _product(torch, clock, kind, target, seconds) for name, kind in dtypes.items()
    }
    fastest = max(products, key=lambda name: _flops(*products[name]))
    side, took = products[fastest]
    return Ceilings(
        device=target.type,
        device_name=_device_name(torch, target),
        dtype=dtype,
        threads=torch.get_num_threads() if on_cpu else 0,
        read_bytes_per_second=size / min(summed, multiplied) * 1000,
        flops_per_second=_flops(side, took),
        method=f"read {size >> 20:,} MiB; {side} x {side} matrix product in {fastest}",
    )


Work = Callable[[], Any]


def _flops(side: int, took_ms: float) -> float:
    """Operations a second of a product of two squares."""
    return 2.0 * side**3 / took_ms * 1000


def _product(
    torch: Any, clock: Callable[[Work], float], dtype: Any, device: Any, seconds: float
) -> tuple[int, float]:
    """The side of the squares that were multiplied, and the ms of the fastest product."""
    sides = [SMALL_PRODUCT, CPU_PRODUCT if device.type == "cpu" else GPU_PRODUCT]
    for side in sides:
        square = torch.ones((side, side), dtype=dtype, device=device)
        multiply = partial(torch.matmul, square, square)
        took = _fastest(clock, multiply, seconds)
        # A CPU without arithmetic in this dtype would need half a minute for the large one.
        if took > SLOW_PRODUCT_MS:
            break
    return side, took


def _fastest(clock: Callable[[Work], float], work: Work, seconds: float) -> float:
    """The shortest of the runs of ``work`` that fit in ``seconds`` (three at least), in ms."""
    clock(work)
    times: list[float] = []
    while len(times) < 3 or sum(times) < seconds * 1000:
        times.append(clock(work))
    return min(times)


def _clock(torch: Any, device: Any, stop: Callable[[], bool]) -> Callable[[Work], float]:
    """A stopwatch for ``device`` that waits until the work is really done.

    It raises PutOff instead of beginning another piece of work once ``stop`` is true.
    """
    wait = {"cuda": torch.cuda.synchronize, "mps": torch.mps.synchronize}.get(device.type)

    def timed(work: Work) -> float:
        if stop():
            raise PutOff
        if wait is not None:
            wait()
        started = now_ms()
        work()
        if wait is not None:
            wait()
        return now_ms() - started

    return timed


def _read_bytes(torch: Any, device: Any) -> int:
    """Bytes to read: much more than caches hold, at most an eighth of the memory."""
    if device.type == "cuda":
        return int(min(GPU_READ_BYTES, torch.cuda.mem_get_info(device)[0] // 8))
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(CPU_READ_BYTES, memory // 8)


def _device_name(torch: Any, device: Any) -> str:
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return platform.processor() or platform.machine()
