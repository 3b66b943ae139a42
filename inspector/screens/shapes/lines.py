"""Requests side by side as lines: where the time and the bill of each go, and their figures."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest

from textual.content import Content

from engine.bill.prices import Kind
from engine.records.figure import Figure
from engine.text import visible
from engine.timing import PhaseKind
from inspector.draw.block_chars import bar
from inspector.draw.figures import figure_content, flowed, money
from inspector.draw.numbers import (
    MUTED,
    NOTHING,
    count,
    cut,
    derived,
    heading,
    legend,
    ms,
    muted,
    padded,
    rate,
    right,
    wrapped,
)
from inspector.draw.stacked import Part, stacked
from inspector.panes.prefill.pane import SIGNS
from inspector.screens.shapes.words import dominating, reused, way_lines
from inspector.state.shapes.carry_out import Answered, Carried, Spent

NAME = 21
_LEAST = 40
_TOTAL = 12
_PROGRESS = 16
_NAMES = {PhaseKind.SAMPLE: "first sample"}
_THINKING, _WRITING = ("▀", "$attention"), ("▄", "$accept")
TIME: Mapping[PhaseKind | Spent, tuple[str, str, str]] = {
    **{kind: (*sign, _NAMES.get(kind, kind.value)) for kind, sign in SIGNS.items()},
    Spent.THINKING: (*_THINKING, "thinking"),
    Spent.DECODE: (*_WRITING, "decode"),
    Spent.OTHER: ("░", "$kv-free", "other"),
}
"""Sign, style and name of what time is spent on; neighbours differ without colour."""
BILL = {
    Kind.PROMPT: (*SIGNS[PhaseKind.PREFILL], "prompt computed"),
    Kind.CACHED: (*SIGNS[PhaseKind.LOOKUP], "prompt cached"),
    Kind.THINKING: (*_THINKING, "thinking"),
    Kind.OUTPUT: (*_WRITING, "output"),
    Kind.DISCARDED: ("░", "$reject", "thrown away"),
}
"""The same of the kinds of tokens, with the signs of the passes that they came of."""
_TOKENS = (
    ("computed", 9),
    ("cached", 7),
    ("thinking", 9),
    ("output", 7),
    ("moved", 12),
    ("price", 12),
)
_TIMES = (("TTFT", 11), ("TPOT", 11), ("TPS", 14), ("total", 11))


def lines(found: Carried, width: int, *, common: bool = True) -> Iterator[Content]:
    """All that is known so far; ``common``: bars of all requests are on one scale."""
    width = max(_LEAST, width)
    facts, done = found.facts, found.answered
    for line in wrapped("", 0, width, visible(found.error)) if found.error else ():
        yield Content.styled(line.plain, "$error")
    if facts is not None:
        model = f"{facts.name}, {facts.dtype} on {facts.device_name}"
        yield from wrapped("", 0, width, visible(model))
    scale = "on one scale" if common else "each bar a whole"
    yield heading(f"Where the time goes, {scale}", width)
    yield from _rows(found, width, lambda one: _time_row(one, done, width, common))
    yield from _key(TIME.values(), _used_time(done), width)
    yield heading(f"Where the bill goes, {scale}", width)
    yield from _rows(found, width, lambda one: _bill_row(one, done, width, common))
    yield from _key(BILL.values(), _used_bill(done), width)
    if not done:
        return
    yield heading("Figures", width)
    tokens, times = [_tokens(one) for one in done], [_times(one) for one in done]
    if _wide((*_TOKENS, *_TIMES)) <= width:
        both = [(*a, *b) for a, b in zip(tokens, times, strict=True)]
        yield from _table(done, (*_TOKENS, *_TIMES), both, width)
    else:
        yield from _table(done, _TOKENS, tokens, width)
        yield from _table(done, _TIMES, times, width)
    if slower := [one.shape.name for one in done if one.warms_up]:
        why = f"has passes that were the first of their shape: {', '.join(slower)}"
        yield from wrapped("TTFT", NAME, width, why)
    yield heading("What dominates", width)
    for one in found.done:
        if isinstance(one, Answered):
            yield cut(padded(Content(one.shape.name), NAME) + muted(one.shape.what), width)
            yield from _said("", dominating(one), width)
        else:
            why = f"{NOTHING} {visible(one.error)}"
            yield from wrapped(one.shape.name, NAME, width, why)
    yield from _said("the prefix kept", reused(done), width)
    if found.ways:
        yield heading("One long thought, or several short ones", width)
        yield from way_lines(found.ways, width)
    yield legend(width)


def progress(found: Carried, width: int) -> Content:
    """The current request and its progress, in one line."""
    if found.error:
        return cut(Content.styled("ended by an error", "$error"), width)
    if found.ended:
        return cut(muted("all requests are answered"), width)
    at = [one.name for one in found.shapes].index(found.now) + 1 if _is_request(found) else 0
    place = f" ({at} of {len(found.shapes)})" if at else ""
    words = f"{found.now}{place}"
    if found.detail:
        words += f": {visible(found.detail)}"
    return cut(_bar(found.whole_share) + Content(f" {words}"), width)


# --- bars -----------------------------------------------------------------------------------


def _rows(found: Carried, width: int, drawn: Callable[[Answered], Content]) -> Iterator[Content]:
    """A line a request; those without an answer say why."""
    for shape, one in zip_longest(found.shapes, found.done):
        if isinstance(one, Answered):
            line = drawn(one)
        elif one is not None:
            line = muted(f"{NOTHING} {visible(one.error)}")
        elif shape.name == found.now:
            line = _bar(found.share or 0.0) + muted(f" {visible(found.detail)}")
        else:
            line = muted("not run" if found.ended else "waits")
        yield cut(padded(Content(shape.name), NAME) + line, width)


def _is_request(found: Carried) -> bool:
    return any(one.name == found.now for one in found.shapes)


def _bar(share: float) -> Content:
    return Content.assemble(
        ("▕", "$kv-free"), (bar(min(share, 1.0), _PROGRESS), "$phase-prefill"), ("▏", "$kv-free")
    )


def _time_row(one: Answered, done: Sequence[Answered], width: int, common: bool) -> Content:
    longest = max(other.total_ms for other in done)
    parts = [(*TIME[kind][:2], spent) for kind, spent in one.spent.items()]
    return _row(parts, longest if common else None, derived(ms(one.total_ms)), width)


def _bill_row(one: Answered, done: Sequence[Answered], width: int, common: bool) -> Content:
    bill = one.account.bill
    dearest = max(other.account.bill.total.price.value or 0.0 for other in done)
    parts = [
        (*sign[:2], line.price.value or 0.0)
        for kind, sign in BILL.items()
        if (line := bill.line(kind)) is not None
    ]
    return _row(parts, dearest if common else None, money(bill.total.price), width)


def _row(parts: Sequence[Part], scale: float | None, figure: Content, width: int) -> Content:
    """The parts as a bar; without a ``scale`` it is as long as all bars."""
    room = width - NAME - _TOTAL
    total = sum(value for _, _, value in parts) if scale is None else scale
    drawn = stacked(parts, total, room, least=scale is None)
    return padded(drawn, room) + right(figure, _TOTAL)


def _key(
    known: Iterable[tuple[str, str, str]], used: Container[str], width: int
) -> Iterator[Content]:
    """Meaning of the signs that were used, on as many lines as that takes."""
    line = Content("")
    for sign, style, name in known:
        if name not in used:
            continue
        told = Content.assemble((sign, style), (f" {name}   ", MUTED))
        if line.cell_length + told.cell_length > width + 3:
            yield line.rstrip()
            line = Content("")
        line += told
    if len(line):
        yield line.rstrip()


def _used_time(done: Sequence[Answered]) -> set[str]:
    return {TIME[kind][2] for one in done for kind in one.spent}


def _used_bill(done: Sequence[Answered]) -> set[str]:
    lines = (line for one in done for line in one.account.bill.lines)
    return {BILL[line.kind][2] for line in lines if line.price.value}


# --- figures --------------------------------------------------------------------------------


def _table(
    done: Sequence[Answered],
    columns: Sequence[tuple[str, int]],
    figures: Sequence[Sequence[Content]],
    width: int,
) -> Iterator[Content]:
    """A line a request; columns from the right give way."""
    head = padded(muted("request"), NAME)
    for title, room in columns:
        # Figures end in a blank and a mark: their heading ends where they do.
        head += right(muted(title if room < 10 else f"{title}  "), room)
    fit = max(at for at in range(len(columns) + 1) if _wide(columns[:at]) <= width)
    yield cut(head, _wide(columns[:fit]))
    for one, cells in zip(done, figures, strict=True):
        line = padded(Content(one.shape.name), NAME)
        for cell, (_, room) in zip(cells[:fit], columns, strict=False):
            line += right(cell, room)
        yield cut(line, width)


def _wide(columns: Sequence[tuple[str, int]]) -> int:
    return NAME + sum(room for _, room in columns)


def _tokens(one: Answered) -> Sequence[Content]:
    bill = one.account.bill
    kinds = (Kind.PROMPT, Kind.CACHED, Kind.THINKING, Kind.OUTPUT)
    counts = [line.tokens if (line := bill.line(kind)) is not None else 0 for kind in kinds]
    return (
        *(Content(count(number)) for number in counts),
        figure_content(bill.total.moved),
        money(bill.total.price),
    )


def _times(one: Answered) -> Sequence[Content]:
    times = (one.speed.ttft_ms, one.speed.itl_ms)
    return (
        *(derived(ms(time)) for time in times),
        derived(rate(one.speed.tps)),
        derived(ms(one.total_ms)),
    )


def _said(name: str, parts: Sequence[str | Figure], width: int) -> Iterator[Content]:
    for at, line in enumerate(flowed(parts, width - NAME)):
        yield cut(padded(muted(name if at == 0 else ""), NAME) + line, width)
