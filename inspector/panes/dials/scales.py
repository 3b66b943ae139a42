"""Steps by which a key turns a dial, and the track its value is drawn on.

A dial's range says what is possible; most of it nobody wants. The scale is the part that people
use. A dial without an entry gets a scale from its range, so a new stage works without one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.sampling.stages import Dial, Value

Number = int | float


@dataclass(frozen=True, slots=True)
class Scale:
    """The track from ``low`` to ``high``; a small and a large step; where to begin when off.

    ``log``: equal distances on the track are equal ratios.
    """

    low: Number
    high: Number
    step: Number
    leap: Number
    start: Number
    log: bool = False


SCALES: dict[str, Scale] = {
    "temperature": Scale(0, 2, 0.05, 0.25, 0.8),
    "dynatemp_range": Scale(0, 2, 0.05, 0.25, 0.5),
    "dynatemp_exponent": Scale(0, 4, 0.1, 0.5, 1.0),
    "top_k": Scale(1, 1000, 1, 10, 40, log=True),
    "top_p": Scale(0, 1, 0.01, 0.1, 0.95),
    "min_keep": Scale(0, 100, 1, 10, 1),
    "min_p": Scale(0, 0.5, 0.005, 0.05, 0.05),
    "typical_p": Scale(0, 1, 0.01, 0.1, 0.95),
    "epsilon_cutoff": Scale(0, 0.01, 0.0002, 0.002, 0.001),
    "eta_cutoff": Scale(0, 0.01, 0.0002, 0.002, 0.001),
    "top_h": Scale(0, 1, 0.01, 0.1, 0.4),
    "top_n_sigma": Scale(0, 5, 0.1, 0.5, 1.0),
    "xtc_probability": Scale(0, 1, 0.05, 0.25, 0.5),
    "xtc_threshold": Scale(0, 0.5, 0.01, 0.1, 0.1),
    "mirostat_tau": Scale(0, 10, 0.1, 1.0, 5.0),
    "mirostat_eta": Scale(0, 1, 0.01, 0.1, 0.1),
    "mirostat_version": Scale(1, 2, 1, 1, 2),
    "repetition_penalty": Scale(0.5, 2, 0.05, 0.25, 1.1),
    "frequency_penalty": Scale(-2, 2, 0.1, 0.5, 0.5),
    "presence_penalty": Scale(-2, 2, 0.1, 0.5, 0.5),
    "penalty_last_n": Scale(1, 2048, 1, 16, 64, log=True),
    "dry_multiplier": Scale(0, 4, 0.1, 0.5, 0.8),
    "dry_base": Scale(1, 4, 0.05, 0.25, 1.75),
    "dry_allowed_length": Scale(1, 16, 1, 4, 2),
    "dry_last_n": Scale(1, 2048, 1, 16, 64, log=True),
    "min_new_tokens": Scale(0, 100, 1, 10, 10),
    "no_repeat_ngram_size": Scale(0, 10, 1, 2, 3),
}


def scale_of(dial: Dial) -> Scale:
    """The scale of a numeric dial."""
    known = SCALES.get(dial.name)
    if known is not None:
        return known
    low = dial.low if math.isfinite(dial.low) else 0.0
    if dial.kind is int:
        high = dial.high if math.isfinite(dial.high) else low + 100
        return Scale(int(low), int(high), 1, 10, int(low) + 1)
    high = dial.high if math.isfinite(dial.high) else low + 1.0
    unit = 10.0 ** math.floor(math.log10((high - low) / 50))
    return Scale(low, high, unit, unit * 10, low + unit * 10)


def moved(dial: Dial, value: Value, steps: int, *, far: bool = False) -> Value:
    """A value so many presses on, kept in range; ``value`` itself for a dial of text.

    From a value that continues no scale (top_k's 0) any press leads to where one begins.
    """
    if not isinstance(value, int | float) or not dial.numeric:
        return value
    scale = scale_of(dial)
    if value == dial.apart:
        return dial.kind(scale.start)
    return _nearest(dial, value + steps * (scale.leap if far else scale.step))


def share_of(dial: Dial, value: Value) -> float | None:
    """Place of a value on its track, from 0 to 1; None where it has none."""
    if not isinstance(value, int | float) or not dial.numeric or value == dial.apart:
        return None
    scale = scale_of(dial)
    low, high, at = float(scale.low), float(scale.high), float(value)
    if scale.log:
        low, high, at = math.log(low), math.log(high), math.log(max(at, low))
    return min(max((at - low) / (high - low), 0.0), 1.0)


def value_at(dial: Dial, share: float) -> Value:
    """The value at a place on the track, from 0 to 1: the nearest one that small steps lead to."""
    scale = scale_of(dial)
    low, high = float(scale.low), float(scale.high)
    if scale.log:
        wanted = math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
    else:
        wanted = low + share * (high - low)
    return _nearest(dial, wanted)


def _nearest(dial: Dial, wanted: float) -> Value:
    """The value in range that small steps lead to, without the tail of digits of a sum."""
    unit = scale_of(dial).step
    value = float(f"{round(wanted / unit) * unit:.10g}")
    low = dial.low if dial.low_included and dial.apart != dial.low else dial.low + unit
    high = dial.high if dial.high_included else dial.high - unit
    return dial.kind(min(max(value, low), high))


def track(dial: Dial, value: Value, was: Value | None, cells: int) -> str:
    """``━━━━╸──│──``: filled up to the value, with a tick where it was; in ``cells`` cells."""
    share = share_of(dial, value)
    if cells <= 0 or not dial.numeric:
        return " " * max(0, cells)
    filled = 0 if share is None else round(share * cells * 2)
    drawn = list(("━" * (filled // 2) + "╸" * (filled % 2)).ljust(cells, "─"))
    old = share_of(dial, was) if was is not None and was != value else None
    if old is not None:
        drawn[min(cells - 1, round(old * (cells - 1)))] = "│"
    return "".join(drawn)
