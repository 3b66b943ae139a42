"""Roofline: bytes and operations of a step, and what the machine can move and compute.

Ceilings are measured on the machine itself (``measure_ceilings``), never taken from a datasheet.
All else here is arithmetic on plain numbers; only the measuring imports torch.
"""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from engine.records.measured import Ceilings
from engine.records.model import ModelFacts
from engine.records.step import StepRecord
from engine.records.step_table import figures_of
from engine.timing import now_ms

CPU_READ_BYTES = 512 << 20
GPU_READ_BYTES = 4 << 30
SMALL_PRODUCT = 384
CPU_PRODUCT = 1536
GPU_PRODUCT = 8192
SLOW_PRODUCT_MS = 10.0
"""A small product that takes longer would make the large one, 64 times the work, a long wait."""


@dataclass(frozen=True, slots=True)
class Reached:
    """Bandwidth and operations that decode steps reached, beside the machine's ceilings."""

    nbytes: float
    """Bytes that a step had to move, on average."""
    mbu: float | None
    """Their bytes / their time / bandwidth; None where there is nothing to divide."""
    floor_ms: float
    """The least that the last of the steps could take."""


# --- what a step needs ----------------------------------------------------------------------


def step_bytes(weight_bytes: float, kv_bytes: float) -> float:
    """Bytes that one decode step must at least read: every weight once, and K and V so far.

    The numerator of MBU as Databricks defined it ("LLM Inference Performance Engineering: Best
    Practices", 2023): model size plus KV cache size. An upper bound of what is really read where
    an input embedding of its own (not tied to the output head) is looked up row by row, or where
    only some experts are used.
    """
    return weight_bytes + kv_bytes


def step_flops(
    parameters: int, layers: int, query_heads: int, head_dim: int, context: int
) -> float:
    """Floating-point operations of one decode step that attends to ``context`` positions.

    ``2 N + 4 layers query_heads head_dim context``: a multiplication and an addition for each
    weight, and for each position the products with K and with V. The forward part (a third) of
    the count in PaLM's appendix B (arXiv:2204.02311). N counts a tied embedding once, as the
    output head.
    """
    return 2.0 * parameters + 4.0 * layers * query_heads * head_dim * context


# --- against what there is ------------------------------------------------------------------


def utilisation(amount: float, took_ms: float, per_second: float) -> float | None:
    """``amount / time / ceiling``: the share of the ceiling that was reached, 0..1.

    With bytes and a bandwidth it is MBU, with operations and a product's speed MFU. Above 1 the
    ceiling is too low or the amount was not all moved (a cache held part of it). None where a
    figure is missing or nothing was done.
    """
    if not all(math.isfinite(x) and x > 0 for x in (amount, took_ms, per_second)):
        return None
    return amount / (took_ms / 1000) / per_second


def floor_ms(nbytes: float, flops: float, ceilings: Ceilings) -> float:
    """The shortest time that the ceilings allow a step: the longer of moving and of computing.

    The roofline model (Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009).
    """
    moving = nbytes / ceilings.read_bytes_per_second
    computing = flops / ceilings.flops_per_second
    return max(moving, computing) * 1000


def reached(facts: ModelFacts, steps: Sequence[StepRecord], ceilings: Ceilings) -> Reached | None:
    """Bandwidth and operations that ``steps`` (those that count) reached.

    None without a step, or where the cache's size is not known.
    """
    figures = figures_of(steps)
    sizes = figures["kv_bytes"]
    if not len(sizes) or np.isnan(sizes).any():
        return None
    last = float(sizes[-1])
    moved = len(sizes) * step_bytes(facts.weight_bytes, float(sizes.mean()))
    took = float(figures["total_ms"].sum())
    flops = step_flops(
        facts.parameters, facts.layers, facts.query_heads, facts.head_dim, steps[-1].kv.seen
    )
    return Reached(
        nbytes=moved / len(steps),
        mbu=utilisation(moved, took, ceilings.read_bytes_per_second),
        floor_ms=floor_ms(step_bytes(facts.weight_bytes, last), flops, ceilings),
    )


# --- measuring ------------------------------------------------------------------------------


def measure_ceilings(
    device: str = "cpu", dtype: str = "float32", *, seconds: float = 0.6
) -> Ceilings:
    """Measure read bandwidth and matrix-product speed on ``device``; takes about 2 x ``seconds``.

    Bandwidth: a buffer much larger than any cache is reduced to one number, over and over, and
    read by a matrix-vector product, which is what decoding does; the fastest pass of either
    counts, as a ceiling is what can be reached. Speed: the fastest product of two square matrices
    in ``dtype``, or in float32 where a CPU is faster at that, because much that is stored in 16
    bits is then multiplied in 32. Raises RuntimeError (torch's own) for a device that is not
    there, AttributeError for a dtype that is not, and RuntimeError when memory is short.

    Measure while the machine does nothing else, and keep the result: a busy machine gives
    ceilings that are too low.
    """
    import torch

    target = torch.device(device)
    on_cpu = target.type == "cpu"
    names = (dtype, "float32") if on_cpu else (dtype,)
    dtypes = {name: getattr(torch, name) for name in names}
    clock = _clock(torch, target)
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


def _clock(torch: Any, device: Any) -> Callable[[Work], float]:
    """A stopwatch for ``device`` that waits until the work is really done."""
    wait = {"cuda": torch.cuda.synchronize, "mps": torch.mps.synchronize}.get(device.type)

    def timed(work: Work) -> float:
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
