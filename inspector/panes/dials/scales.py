"""Steps by which a key turns a dial, and the track its value is drawn on.

A dial's range says what is possible; most of it nobody wants. The scale is the part that people
use. A dial without one gets a scale from its range.
"""

from __future__ import annotations

import math

from engine.sampling.stages import Dial, DialScale, Value


def scale_of(dial: Dial) -> DialScale:
    """The scale of a numeric dial."""
    if dial.scale is not None:
        return dial.scale
    low = dial.low if math.isfinite(dial.low) else 0.0
    if dial.kind is int:
        high = dial.high if math.isfinite(dial.high) else low + 100
        return DialScale(int(low), int(high), 1, 10, int(low) + 1)
    high = dial.high if math.isfinite(dial.high) else low + 1.0
    unit = 10.0 ** math.floor(math.log10((high - low) / 50))
    return DialScale(low, high, unit, unit * 10, low + unit * 10)


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


def started(dial: Dial, value: Value, was: Value | None, steps: int, *, far: bool = False) -> Value:
    """The value to which a press turns a dial that was off at ``value``.

    That of the record; one people use, if it lies that way; else a step from where it is.
    """
    if was is not None:
        return was
    start = scale_of(dial).start
    if not isinstance(value, int | float) or value == dial.apart:
        return start
    return start if (start - value) * steps > 0 else moved(dial, value, steps, far=far)


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
