"""One step's candidates as a file keeps them, and back, bit for bit.

A step has dozens of candidates and a probability for each after every stage, most of which follow
from the raw logits. So a stage's probabilities are kept only as far as they do not follow:

1. The logits after a stage are those before it, divided by the stage's divisor where it has one
   (``scaled``); a cut candidate drops out.
2. A probability is ``exp(logit - largest) / weight_sum``.

The writer checks both against the record. Where (1) fails it keeps the logits (float32), where
(2) fails the probabilities (float64). What is read back is therefore what was recorded, whatever
a stage does; on another machine, to the last bit of its ``exp``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.records.arrays import DoubleArray, FloatArray
from engine.records.step import SURVIVES, StageTrace, TopTable

Mask = NDArray[np.bool_]


class RowsError(ValueError):
    """Rows that do not make up a step."""


@dataclass(frozen=True, slots=True)
class Level:
    """Storage of the probabilities at one level of the ladder. None: it follows."""

    weight_sum: float | None
    logits: bytes | None = None
    probs: bytes | None = None


def divisor_of(trace: StageTrace) -> float | None:
    """The divisor that the stage applies to the logits, None where there is none (as greedy)."""
    value = trace.params.get("temperature")
    if trace.name != "temperature" or not isinstance(value, int | float) or not value > 0:
        return None
    return float(value)


def scaled(logits: FloatArray, divisor: float | None) -> FloatArray:
    """Logits after a stage that divides by ``divisor``. Part of the format: never change it."""
    if divisor is None:
        return logits
    with np.errstate(over="ignore", divide="ignore"):
        return logits / np.float32(divisor)


def alive_at(cut_by: NDArray[np.int8], level: int) -> Mask:
    """Mask of the candidates still there after ``level`` stages, shape ``(n,)``."""
    alive: Mask = (cut_by == SURVIVES) | (cut_by >= level)
    return alive


def pack_levels(top: TopTable, stages: Sequence[StageTrace]) -> list[Level]:
    """Pack ``top.probs`` but its last row: the model's, and each stage's but the last.

    The last row, the final probabilities, is kept as it is, beside the candidates.
    """
    alive = alive_at(top.cut_by, 0)
    logits = top.raw_logits[alive]
    levels: list[Level] = []
    log_zs = (None, *(trace.log_z for trace in stages))
    for index, probs in enumerate(top.probs):
        if index:
            before, alive = alive, alive_at(top.cut_by, index)
            logits = scaled(logits, divisor_of(stages[index - 1]))[alive[before]]
        if probs[~alive].any():
            raise RowsError("a candidate has a probability after the stage that cut it")
        if index < len(stages):
            level, logits = _pack(logits, probs[alive], log_zs[index])
            levels.append(level)
    return levels


def _pack(logits: FloatArray, probs: DoubleArray, log_z: float | None) -> tuple[Level, FloatArray]:
    """Pack one level's ``probs``, and return the logits that the next level goes on from."""
    weight_sum = _weight_sum(logits, probs)
    if weight_sum is not None:
        return Level(weight_sum), logits
    if log_z is None:
        return Level(None, probs=probs.astype("<f8").tobytes()), logits
    real = _from_probs(probs, log_z)
    weight_sum = _weight_sum(real, probs)
    if weight_sum is not None:
        return Level(weight_sum, logits=real.astype("<f4").tobytes()), real
    return Level(None, probs=probs.astype("<f8").tobytes()), real


def unpack_levels(
    raw_logits: FloatArray,
    cut_by: NDArray[np.int8],
    levels: Sequence[Level],
    divisors: Sequence[float | None],
    log_zs: Sequence[float],
) -> DoubleArray:
    """Unpack ``pack_levels``' rows, shape ``(stages, n)``; with each stage's divisor and log_z."""
    probs = np.zeros((len(levels), cut_by.size))
    alive = alive_at(cut_by, 0)
    logits = raw_logits[alive]
    for index, level in enumerate(levels):
        if index:
            before, alive = alive, alive_at(cut_by, index)
            logits = scaled(logits, divisors[index - 1])[alive[before]]
        if level.logits is not None:
            logits = _array(level.logits, "<f4", logits.size).astype(np.float32)
        if level.probs is None:
            probs[index, alive] = _probs(logits, level.weight_sum)
        else:
            probs[index, alive] = _array(level.probs, "<f8", logits.size)
            if index:
                logits = _from_probs(probs[index, alive], log_zs[index - 1])
    return probs


def _probs(logits: FloatArray, weight_sum: float | None) -> DoubleArray:
    if logits.size == 0:
        return np.zeros(0)
    if not weight_sum:
        raise RowsError("a stage has neither a sum of weights nor probabilities")
    weights: DoubleArray = np.exp(logits.astype(np.float64) - float(logits.max()))
    return weights / weight_sum


def _weight_sum(logits: FloatArray, probs: DoubleArray) -> float | None:
    """The sum that makes ``_probs`` give exactly ``probs``; None where there is none."""
    if logits.size == 0:
        return 0.0
    largest = probs[logits.argmax()]
    if not 0.0 < largest <= 1.0 or not np.isfinite(logits).all():
        return None
    # 1 / (1 / x) is off by at most one unit in the last place.
    near = 1.0 / float(largest)
    for guess in (near, np.nextafter(near, np.inf), np.nextafter(near, 0.0)):
        if np.array_equal(_probs(logits, float(guess)), probs):
            return float(guess)
    return None


def _from_probs(probs: DoubleArray, log_z: float) -> FloatArray:
    """The float32 logits that ``probs`` came from."""
    with np.errstate(divide="ignore"):
        return (np.log(probs) + log_z).astype(np.float32)


def _array(data: bytes, dtype: str, size: int) -> NDArray[np.floating[Any]]:
    if len(data) != size * np.dtype(dtype).itemsize:
        raise RowsError(f"{size} values expected, not {len(data)} bytes")
    return np.frombuffer(data, dtype)
