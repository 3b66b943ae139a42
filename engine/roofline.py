"""Roofline: bytes and operations of a step, and how much of the machine's ceilings it reached."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.records.measured import Ceilings
from engine.records.model import ModelFacts
from engine.records.step import StepRecord
from engine.records.step_table import figures_of


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
