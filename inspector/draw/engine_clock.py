"""Figures of an engine's own clock as text: its times and counts, and what is ours beside them."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from engine.records.engine import EngineTimes
from inspector.draw.numbers import measured, ms, nothing

MEANS = "by the engine's own clock and counters; the rest is its queue, the network and parsing"


def engine_figure(times: Sequence[EngineTimes]) -> Content:
    """The time that the engine says it took for these requests together."""
    total = engine_ms(times)
    return nothing("it does not say") if total is None else measured(ms(total))


def engine_ms(times: Sequence[EngineTimes]) -> float | None:
    """Milliseconds that the engine says it took; None where it does not say of one."""
    known = [one.own_ms for one in times]
    return None if None in known else sum(one for one in known if one is not None)


def engine_notes(times: Sequence[EngineTimes], total_ms: float) -> tuple[str, ...]:
    """Counts, and where the rest of ``total_ms``, measured here, went; the longest first."""
    cached, evaluated = times[0].cached, [one.evaluated for one in times]
    counts = "counts not told"
    if cached is not None and None not in evaluated:
        computed = sum(one for one in evaluated if one is not None)
        counts = f"{cached:,} cached, {computed:,} evaluated"
    parsing = sum(one.parse_ms for one in times)
    rest = [f"parsing {ms(parsing)} •"]
    own = engine_ms(times)
    if own is not None:
        rest.append(f"queue and network {ms(max(0.0, total_ms - own - parsing))} ƒ")
    asked = sum(one.requests for one in times)
    how = [counts]
    how += ["a share of one request"] if times[0].ahead else []
    how += [f"{asked} requests"] if asked > len(times) else []
    short = ", ".join(how)
    return (f"{short}; {', '.join(rest)}", short, counts)
