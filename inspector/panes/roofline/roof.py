"""The roofline: this run's passes below the two ceilings of this machine, and their figures."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from textual.content import Content

from engine.passes import (
    Pass,
    PassFigures,
    PassKind,
    batch_passes,
    by_kind,
    decode_passes,
    figures_of_kind,
    in_one_pass,
    prefill_passes,
    ridge,
    roof,
    round_passes,
    why_none,
)
from engine.records.measured import SERVERS_MACHINE, Ceilings
from engine.records.model import ModelFacts
from engine.roofline import floor_ms, step_bytes
from engine.text import visible
from inspector.draw.numbers import (
    MUTED,
    NOTHING,
    bandwidth,
    cut,
    derived,
    fit,
    flops,
    labelled,
    measured,
    ms,
    muted,
    nothing,
    percent,
    right,
    scaled,
    size,
    three,
    wrapped,
)
from inspector.draw.xy_chart import LEAST_HEIGHT, LINE, Axis, Dots, decades, xy_chart
from inspector.panes.ceilings import asked_for
from inspector.state.ceilings import busy
from inspector.state.view import View

LABEL = 10
SIGNS = {
    PassKind.PREFILL: ("■", "$phase-prefill"),
    PassKind.DECODE: ("●", "$bar"),
    PassKind.ROUND: ("◆", "$accent"),
    PassKind.BATCH: ("▲", "$kv-shared"),
}
NAMES = {
    PassKind.PREFILL: "prefill",
    PassKind.DECODE: "decode",
    PassKind.ROUND: "verify",
    PassKind.BATCH: "batch",
}
"""Kinds of passes as the table calls them."""
COLUMNS = (
    ("passes", 7),
    ("tokens", 7),
    ("time •", 9),
    ("FLOP/B ƒ", 9),
    ("FLOP/s ƒ", 9),
    ("MBU ƒ", 7),
    ("MFU ƒ", 7),
)
KIND, BOUND = 10, 12
"""Cells of the sign and name of a kind, and of what binds it."""
AHEAD = (1_024, 8_192, 32_768, 131_072)
"""Contexts at which the floor is told, as far as the model has them."""
LOOKED_AT = 1000
"""Batched passes that are looked at, the newest."""
EVERY = 16
"""While a run goes on, its passes are drawn again after so many tokens."""


@dataclass(frozen=True, eq=False)
class Found:
    """A run's passes, and the reason where there can be none."""

    facts: ModelFacts | None
    passes: dict[PassKind, list[Pass]]
    ceilings: Ceilings | None
    why: str
    each: float | None
    """Bytes of K and V for one position, from the tensors."""


def found_in(view: View) -> Found:
    """The passes along the cursor's path."""
    facts, known = view.facts, view.log.ceilings
    ceilings = known.ceilings if known is not None else None
    if ceilings is not None and facts is not None and _elsewhere(facts, ceilings):
        ceilings = None
    kv = view.prefill.kv if view.prefill is not None else None
    nbytes = kv.nbytes if kv is not None else None
    why = why_none(facts, nbytes)
    if facts is None or kv is None or nbytes is None or why:
        return Found(facts, {}, ceilings, why or "nothing was read yet", None)
    path = view.path
    if not view.settled:
        path = path[: len(path) // EVERY * EVERY]
    passes = prefill_passes(facts, view.prefill)
    batches = [one for one in view.log.passes[-LOOKED_AT:] if in_one_pass(one)]
    shared = {node for one in batches for node in one.nodes}
    passes += decode_passes(facts, path, view.prompt_length, shared)
    passes += round_passes(facts, path, view.prompt_length, view.log.rounds)
    passes += batch_passes(facts, batches, view.log.nodes)
    each = nbytes / kv.stored if kv.stored else None
    return Found(facts, by_kind(passes), ceilings, "", each)


def _elsewhere(facts: ModelFacts, ceilings: Ceilings) -> bool:
    return facts.device.partition(":")[0] != ceilings.device


def roof_lines(view: View, found: Found, width: int, height: int) -> list[Content]:
    """The ceilings, the chart as far as there is room, the table, the floor and what it means."""
    head = _ceilings(view, found, width)
    table = _table(found, width)
    notes = [*_floor(found, width), *_above_one(found, width)]
    room = height - len(head) - len(table)
    chart_room = room - len(notes)
    if chart_room < LEAST_HEIGHT + 2:
        chart_room, notes = max(room - 1, 0), notes[:1]
    return [*head, *_chart(found, width, chart_room), *table, *notes]


def _ceilings(view: View, found: Found, width: int) -> list[Content]:
    """The two roofs and where they meet; or how they are measured."""
    known, one = view.log.ceilings, found.ceilings
    if one is None or known is None:
        why = asked_for(view)
        figure = muted(why) if why == SERVERS_MACHINE else nothing(why)
        return [labelled("machine", LABEL, width, figure)]
    roofs = measured(bandwidth(one.read_bytes_per_second)) + "  "
    roofs += measured(flops(one.flops_per_second))
    meet = roofs + muted("  meet at ") + derived(f"{three(ridge(one))} FLOP/B")
    old = muted(f"  of {known.stale}") if known.stale else Content("")
    lines = [labelled("machine", LABEL, width, meet + old, meet, roofs)]
    if busy(one):
        told = f"measured with {percent(one.cpu_share)} • of the CPU time: too low (M)"
        lines.append(labelled("", LABEL, width, muted(told)))
    return lines


# --- the chart ------------------------------------------------------------------------------


def _chart(found: Found, width: int, height: int) -> Sequence[Content]:
    passes = [one for kind in found.passes.values() for one in kind]
    if not passes:
        return []
    ceilings = found.ceilings
    across = [one.intensity for one in passes]
    up = [one.flops_per_second for one in passes]
    if ceilings is not None:
        across.append(ridge(ceilings) * 3)
        up.append(ceilings.flops_per_second * 1.2)
    low, high = decades(across)
    bottom, top = decades(up)
    dots = [
        Dots(tuple((one.intensity, one.flops_per_second) for one in kind), *SIGNS[name])
        for name, kind in found.passes.items()
    ]
    if ceilings is not None:
        # The bandwidth's roof begins where it comes into the picture from below.
        start = max(low, bottom / ceilings.read_bytes_per_second)
        ends = [(at, roof(ceilings, at)) for at in (start, ridge(ceilings), high)]
        dots.insert(0, Dots(tuple(ends), LINE, "$warning"))
    return xy_chart(
        tuple(dots),
        Axis(low, high, _ticks(low, high, _plain), log=True),
        Axis(bottom, top, _ticks(bottom, top, _scaled), log=True),
        width,
        height,
    )


def _plain(value: float) -> str:
    return f"{value:,.10g}"


def _scaled(value: float) -> str:
    return scaled(value, _plain).rstrip()


def _ticks(low: float, high: float, text: Callable[[float], str]) -> tuple[tuple[float, str], ...]:
    ticks, at = [], low
    while at <= high * 1.001:
        ticks.append((at, text(at)))
        at *= 10
    return tuple(ticks)


# --- the table ------------------------------------------------------------------------------


def _table(found: Found, width: int) -> list[Content]:
    """A line for each kind of pass."""
    if not found.passes:
        why = visible(found.why) or "no pass yet"
        return wrapped("passes", LABEL, width, f"{NOTHING}  {why}")
    columns = [*COLUMNS]
    while sum(cells for _, cells in columns) + KIND + BOUND > width and len(columns) > 3:
        # The count of passes gives way first, then what the chart shows anyhow.
        columns.pop(0 if columns[0][0] == "passes" else -3 if len(columns) > 4 else -1)
    names = [name for name, _ in columns]
    title = Content("").join(right(muted(name), cells) for name, cells in columns)
    lines = [cut(Content(" " * KIND) + title + muted("  bound by"), width)]
    for kind, passes in found.passes.items():
        figures = figures_of_kind(passes, found.ceilings)
        if figures is not None:
            lines.append(_row(kind, figures, names, dict(columns), width))
    return lines


def _row(
    kind: PassKind,
    figures: PassFigures,
    names: Sequence[str],
    cells: dict[str, int],
    width: int,
) -> Content:
    sign, style = SIGNS[kind]
    texts = {
        "passes": f"{figures.count:,}",
        "tokens": three(figures.tokens) if figures.tokens % 1 else f"{figures.tokens:,.0f}",
        "time •": ms(figures.ms),
        "FLOP/B ƒ": three(figures.intensity),
        "FLOP/s ƒ": scaled(figures.flops_per_second),
        "MBU ƒ": percent(figures.mbu),
        "MFU ƒ": percent(figures.mfu),
    }
    line = Content.assemble((f"{sign} ", style), (f"{NAMES[kind]:<{KIND - 2}}", MUTED))
    for name in names:
        line += right(Content(texts[name]), cells[name])
    bound = str(figures.roof or NOTHING)
    warm = muted("  w: first of its shape") if figures.warmup else Content("")
    return fit(width, line + muted(f"  {bound}") + warm, line + muted(f"  {bound}"), line)


# --- the floor ------------------------------------------------------------------------------


def _floor(found: Found, width: int) -> list[Content]:
    """The least time of a decode step, beside what one took, and how that grows."""
    facts, ceilings, each = found.facts, found.ceilings, found.each
    steps = found.passes.get(PassKind.DECODE, ())
    if facts is None or ceilings is None or each is None:
        return []
    context = (
        steps[-1].context
        if steps
        else max((one.context for one in found.passes.get(PassKind.PREFILL, ())), default=1)
    )

    def floor(at: int) -> float:
        return floor_ms(step_bytes(facts.weight_bytes, each * at), 0.0, ceilings)

    took = statistics.median(one.ms for one in steps[-16:]) if steps else None
    figure = derived(ms(floor(context)), "bold")
    beside = Content("")
    if took is not None:
        beside = muted("  a step ") + measured(ms(took), "bold")
        beside += muted("  ") + derived(f"{three(took / floor(context))} ×")
    what = f"  (weights {size(facts.weight_bytes)} + K/V {size(each * context)}) / bandwidth ƒ"
    lines = [labelled("floor", LABEL, width, figure + beside + muted(what), figure + beside)]
    limit = facts.context_length or AHEAD[-1]
    ahead = [at for at in AHEAD if context < at <= limit]
    if ahead:
        told = [muted(f"at {at:,} ") + derived(ms(floor(at))) for at in ahead]
        variants = [Content("   ").join(told[:count]) for count in range(len(told), 0, -1)]
        lines.append(labelled("", LABEL, width, *variants))
    return lines


def _above_one(found: Found, width: int) -> list[Content]:
    """The reason for which tokens of one pass can exceed 100%, and a pass itself cannot."""
    lines = []
    for kind in (PassKind.ROUND, PassKind.BATCH):
        figures = figures_of_kind(found.passes.get(kind, ()), found.ceilings)
        if figures is None or figures.plain_mbu is None:
            continue
        what = "a round" if kind is PassKind.ROUND else "a batch"
        figure = derived(percent(figures.plain_mbu), "bold")
        lines.append(
            labelled(
                "per token",
                LABEL,
                width,
                figure + muted(f"  MBU, had plain steps brought these tokens: {what} may exceed"),
                figure + muted(f"  MBU as plain steps: {what} may exceed"),
                figure,
            )
        )
        text = "100% ƒ, as it reads the weights once for several tokens; no pass itself does"
        lines += wrapped("", LABEL, width, text)
    kinds = [figures_of_kind(one, found.ceilings) for one in found.passes.values()]
    if any(one is not None and one.too_fast for one in kinds):
        text = (
            f"{NOTHING}  a pass was faster than memory can be: weights that stay in the "
            "processor's cache, or a ceiling measured on a busy machine (M measures again)"
        )
        lines += wrapped("MBU", LABEL, width, text)
    return lines
