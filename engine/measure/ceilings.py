"""Ceilings of this machine, measured on it, never taken from a datasheet."""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from engine.records.measured import Ceilings
from engine.timing import now_ms

CPU_READ_BYTES = 512 << 20
GPU_READ_BYTES = 4 << 30
CPU_PARTS = 16
"""Pieces of a read on a CPU: each takes a few ms, so that some are not interrupted."""
CPU_PRODUCTS = (384, 768, 1536)
GPU_PRODUCTS = (384, 8192)
SLOW_PRODUCT_MS = 10.0
"""The smallest product, where it takes longer than this, is the only one: a CPU without arithmetic
in a dtype would need half a minute for the largest."""


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
    """Measure read bandwidth and matrix-product speed on ``device``; takes about 3 x ``seconds``.

    With the threads that decode. Bandwidth: a buffer much larger than any cache is reduced to one
    number, over and over, and read by a matrix-vector product, which is what decoding does; whole,
    and in parts in turn, of which each counts at its fastest. The fastest way counts, as a ceiling
    is what can be reached. Speed: the best rate of products of two square matrices of several
    sizes in ``dtype``, or in float32 where a CPU is faster at that, because much that is stored in
    16 bits is then multiplied in 32. Raises RuntimeError (torch's own) for a device that is not
    there, AttributeError for a dtype that is not, RuntimeError when memory is short, and PutOff
    once ``stop`` is true, which is asked between two pieces of work.

    A busy machine gives ceilings that are too low; ``cpu_share`` tells.
    """
    import torch

    target = torch.device(device)
    on_cpu = target.type == "cpu"
    names = (dtype, "float32") if on_cpu else (dtype,)
    dtypes = {name: getattr(torch, name) for name in names}
    clock = Stopwatch(torch, target, stop)
    nbytes = _read_bytes(torch, target)
    columns = 4096
    # float32 whatever ``dtype`` is: a reader in 16 bits may be bound by its conversions.
    buffer = torch.ones((nbytes // 4 // columns, columns), dtype=torch.float32, device=target)
    vector = torch.ones(columns, dtype=torch.float32, device=target)
    parts = buffer.chunk(CPU_PARTS if on_cpu else 1)
    ways: list[list[Work]] = [
        [buffer.sum],
        [part.sum for part in parts],
        [partial(torch.mv, part, vector) for part in parts],
    ]
    read_ms = min(fastest(clock, way, seconds / len(ways)) for way in ways)
    size = buffer.numel() * 4
    del buffer, vector, parts, ways
    rate, product = max(
        (flops, f"{side} x {side} matrix product in {name}")
        for name, kind in dtypes.items()
        for side, flops in products(torch, clock, kind, target, seconds)
    )
    return Ceilings(
        device=target.type,
        device_name=_device_name(torch, target),
        dtype=dtype,
        threads=torch.get_num_threads() if on_cpu else 0,
        read_bytes_per_second=size / read_ms * 1000,
        flops_per_second=rate,
        method=f"read {size >> 20:,} MiB; {product}",
        cpu_share=clock.share(torch.get_num_threads()) if on_cpu else None,
    )


Work = Callable[[], Any]


def products(
    torch: Any, clock: Stopwatch, dtype: Any, device: Any, seconds: float
) -> Iterator[tuple[int, float]]:
    """Sides of squares, and the operations a second of the fastest product of two of them."""
    sides = CPU_PRODUCTS if device.type == "cpu" else GPU_PRODUCTS
    for side in sides:
        square = torch.ones((side, side), dtype=dtype, device=device)
        multiply = partial(torch.matmul, square, square)
        took = fastest(clock, [multiply], seconds / len(sides))
        yield side, 2.0 * side**3 / took * 1000
        if side == sides[0] and took > SLOW_PRODUCT_MS:
            break


def fastest(clock: Callable[[Work], float], works: Sequence[Work], seconds: float) -> float:
    """The ms of all ``works``, each at its fastest in the rounds that fit in ``seconds``.

    Three rounds at least, behind one that warms up.
    """
    best, spent, rounds = [math.inf] * len(works), 0.0, -1
    while rounds < 3 or spent < seconds * 1000:
        times = [clock(work) for work in works]
        if rounds >= 0:
            best, spent = [min(pair) for pair in zip(best, times, strict=True)], spent + sum(times)
        rounds += 1
    return sum(best)


class Stopwatch:
    """A stopwatch for a device that waits until the work is really done."""

    def __init__(self, torch: Any, device: Any, stop: Callable[[], bool]) -> None:
        self._wait = {"cuda": torch.cuda.synchronize, "mps": torch.mps.synchronize}.get(device.type)
        self._stop = stop
        self._took = self._ran = 0.0

    def __call__(self, work: Work) -> float:
        """Time of ``work`` in ms. Raises PutOff instead of beginning it once ``stop`` is true."""
        if self._stop():
            raise PutOff
        if self._wait is not None:
            self._wait()
        started, ran = now_ms(), time.process_time()
        work()
        if self._wait is not None:
            self._wait()
        took = now_ms() - started
        self._took += took / 1000
        self._ran += time.process_time() - ran
        return took

    def share(self, threads: int) -> float:
        """Share of the CPU time that ``threads`` could have had meanwhile."""
        return round(min(1.0, self._ran / (self._took * threads)), 3) if self._took else 1.0


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
