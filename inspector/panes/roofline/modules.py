"""Time of a decode step and of a reading, module by module, and the cost of timing them."""

from __future__ import annotations

from collections.abc import Mapping

from textual.content import Content

from engine.records.measured import MEASURING_MODULES, ModulesTimed, TimedPass
from engine.text import plural, visible
from inspector.draw.block_chars import shares
from inspector.draw.numbers import (
    NOTHING,
    cut,
    derived,
    heading,
    measured,
    ms,
    muted,
    percent,
    right,
    wrapped,
)
from inspector.panes.prefill.layers import layer_table
from inspector.state.view import View

ATTENTION, MLP, NORMS, REST = "attention", "MLP", "norms", "rest"
SIGNS: Mapping[str, tuple[str, str]] = {
    ATTENTION: ("█", "$attention"),
    MLP: ("▓", "$mlp"),
    NORMS: ("▒", "$phase-detokenize"),
    "output head": ("▚", "$phase-sample"),
    "embedding": ("▞", "$phase-tokenize"),
    REST: ("░", "$cut"),
}
NAME, TIME, SHARE = 20, 11, 8


def parts_of(timed: TimedPass) -> dict[str, float]:
    """Name of a part -> its ms; what is in no module is the rest. Sums to the timed pass."""
    found = {
        ATTENTION: sum(one.attention_ms or 0.0 for one in timed.layers),
        MLP: sum(one.mlp_ms or 0.0 for one in timed.layers),
        NORMS: sum(one.norm_ms or 0.0 for one in timed.layers)
        + timed.outside.get("final norm", 0.0),
    }
    found |= {name: value for name, value in timed.outside.items() if name in SIGNS}
    found[REST] = max(0.0, timed.timed_ms - sum(found.values()))
    return found


def module_lines(view: View, width: int, height: int) -> list[Content]:
    """The table, a bar for each pass, and the layers as far as there is room."""
    found, now = view.log.modules, view.log.loading
    lines = [heading("Where the time goes, module by module", width)]
    if now is not None and now.phase == MEASURING_MODULES:
        lines += wrapped("", 0, width, f"{NOTHING}  being timed: {visible(now.detail)}")
    elif found is None:
        text = (
            "T times a step after the cursor, and the reading of its text: a run's own passes have "
            "no hooks, so that this costs them nothing"
        )
        if view.facts is not None and view.facts.top is not None:
            text = f"n/a: engine {visible(view.facts.backend)} does not time its layers"
        lines += wrapped("", 0, width, f"{NOTHING}  {text}")
    if found is not None:
        lines += _table(found, width)
        passes = [one for one in (found.step, found.prefill) if one is not None]
        room = height - len(lines) - 1
        if passes and room > 2:
            which = "step" if found.step is not None else "reading"
            lines.append(heading(f"Its layers: the {which} •", width))
            lines += layer_table(passes[0].layers, width, room)
    return lines[:height]


def _table(found: ModulesTimed, width: int) -> list[Content]:
    columns = [
        (name, one)
        for name, one in (("step", found.step), ("reading", found.prefill))
        if one is not None
    ]
    while NAME + len(columns) * (TIME + SHARE) > width and len(columns) > 1:
        columns.pop()
    names = [right(muted(name), TIME) + right(muted("share"), SHARE) for name, _ in columns]
    lines = [cut(Content(" " * NAME) + Content("").join(names), width)] if columns else []
    parts = [parts_of(one) for _, one in columns]
    for name, (sign, style) in SIGNS.items():
        if not any(name in one for one in parts):
            continue
        line = Content.assemble((f"{sign} ", style), f"{name:<{NAME - 2}}")
        for (_, timed), each in zip(columns, parts, strict=True):
            line += _cell(name, each.get(name), timed.timed_ms)
        lines.append(cut(line, width))
    for label, text in (
        ("all, timed", [measured(ms(one.timed_ms)) for _, one in columns]),
        ("as a run has it", [measured(ms(one.plain_ms)) for _, one in columns]),
        ("timing costs", [_cost(one) for _, one in columns]),
    ):
        line = muted(f"{label:<{NAME}}")
        for figure in text:
            line += right(figure, TIME) + Content(" " * SHARE)
        lines.append(cut(line, width))
    for (name, timed), each in zip(columns, parts, strict=True):
        lines.append(_bar(name, timed, each, width))
    if found.note:
        lines += wrapped("", 0, width, f"{NOTHING}  {visible(found.note)}")
    return lines


def _cell(name: str, value: float | None, whole: float) -> Content:
    """A part's time, measured but for the rest, and its share."""
    if value is None:
        return Content(" " * (TIME + SHARE))
    figure = derived(ms(value)) if name == REST else measured(ms(value))
    share = derived(percent(value / whole)) if whole > 0 else Content("")
    return right(figure, TIME) + right(share, SHARE)


def _cost(timed: TimedPass) -> Content:
    """Time with hooks less time without; noise can make it less than nothing."""
    cost = timed.cost_ms
    return derived(f"−{ms(-cost)}" if cost < 0 else ms(cost))


def _bar(name: str, timed: TimedPass, parts: Mapping[str, float], width: int) -> Content:
    """All of a pass in one line, part by part."""
    what = f"{name}, {plural(timed.tokens, 'token')}"
    label = f"{what:<{NAME}}"
    room = width - len(label) - 1
    whole = sum(parts.values())
    if room < 8 or not whole > 0:
        return cut(muted(label), width)
    cells = shares([value / whole for value in parts.values()], 1.0, room)
    drawn = [
        (SIGNS[part][0] * count, SIGNS[part][1]) for part, count in zip(parts, cells, strict=True)
    ]
    return cut(muted(label) + Content.assemble(*drawn), width)
