"""Growth of a pass's time with the length of the text: fitted to measurements, by formula."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BINS = 24
"""Points that a fit is made of at most, each the median of neighbours: waits distort means."""
FEWEST = 3


@dataclass(frozen=True, slots=True)
class Line:
    """``start + slope x``, fitted to ``points`` points; ``error`` is the slope's standard error."""

    start: float
    slope: float
    error: float
    points: int

    @property
    def resolved(self) -> bool:
        """True if the slope stands out of the noise: more than twice its error above 0.

        No step gets shorter as its text grows, however clearly a few of them seem to.
        """
        return self.slope > 2 * self.error

    def at(self, x: float) -> float:
        return self.start + self.slope * x


@dataclass(frozen=True, slots=True)
class Parts:
    """``linear n + quadratic n²``, ms for a text of n positions, fitted to ``points`` points."""

    linear: float
    quadratic: float
    points: int

    def at(self, n: float) -> float:
        return self.linear * n + self.quadratic * n * n

    @property
    def equal_at(self) -> float | None:
        """Length at which both parts take as long; None where the fit has no such length."""
        if self.linear > 0 and self.quadratic > 0:
            return self.linear / self.quadratic
        return None


def binned(
    x: Sequence[float] | NDArray[np.float64], y: Sequence[float] | NDArray[np.float64]
) -> tuple[list[float], list[float]]:
    """The points, sorted by ``x``, in at most ``BINS`` groups of neighbours: medians of each."""
    at, value = np.asarray(x, np.float64), np.asarray(y, np.float64)
    kept = np.isfinite(at) & np.isfinite(value)
    at, value = at[kept], value[kept]
    order = np.argsort(at, kind="stable")
    groups = [one for one in np.array_split(order, BINS) if len(one)]
    return (
        [float(np.median(at[one])) for one in groups],
        [float(np.median(value[one])) for one in groups],
    )


def fitted_line(
    x: Sequence[float] | NDArray[np.float64], y: Sequence[float] | NDArray[np.float64]
) -> Line | None:
    """Least squares through ``binned`` points; None for fewer than three different ``x``."""
    at, value = map(np.asarray, binned(x, y))
    if len(set(at.tolist())) < FEWEST:
        return None
    middle = at.mean()
    spread = float(((at - middle) ** 2).sum())
    slope = float(((at - middle) * (value - value.mean())).sum() / spread)
    start = float(value.mean() - slope * middle)
    left = value - (start + slope * at)
    error = math.sqrt(float((left**2).sum()) / max(1, len(at) - 2) / spread)
    return Line(start, slope, error, len(at))


def fitted_parts(lengths: Sequence[float], times_ms: Sequence[float]) -> Parts | None:
    """Least squares for ``linear n + quadratic n²``, relative to each time; neither is negative.

    None for fewer than three different lengths.
    """
    n, t = np.asarray(lengths, np.float64), np.asarray(times_ms, np.float64)
    kept = np.isfinite(n) & np.isfinite(t) & (n > 0) & (t > 0)
    n, t = n[kept], t[kept]
    if len(set(n.tolist())) < FEWEST:
        return None
    columns = np.stack([n / t, n * n / t], axis=1)
    ones = np.ones(len(n))
    (linear, quadratic), *_ = np.linalg.lstsq(columns, ones, rcond=None)
    if quadratic < 0 or linear < 0:
        # One of the parts alone: the other is lost in the noise.
        column = columns[:, 0] if quadratic < 0 else columns[:, 1]
        only = float(column @ ones / (column @ column))
        linear, quadratic = (only, 0.0) if quadratic < 0 else (0.0, only)
    return Parts(float(linear), float(quadratic), len(n))
