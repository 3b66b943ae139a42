"""The largest part of a request in words and figures; thinking in series against in parallel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from textual.content import Content

from engine.bill.prices import Kind
from engine.records.figure import Figure, Source
from engine.text import plural, quote
from engine.timing import PhaseKind
from inspector.draw.numbers import cut, derived, ms, muted, padded, right, three, wrapped
from inspector.state.shapes.carry_out import Answered, Spent
from inspector.state.shapes.requests import COLD, REUSED
from inspector.state.shapes.serial_parallel import Way

_READING, _THINKING, _REST = "reading", "thinking", "what lies around the passes"
_GROUPS: Mapping[str, tuple[PhaseKind | Spent, ...]] = {
    _READING: (PhaseKind.PREFILL, PhaseKind.HEAD),
    _THINKING: (Spent.THINKING,),
    "decoding": (Spent.DECODE,),
}
_KINDS = {
    _READING: Kind.PROMPT,
    "cached tokens": Kind.CACHED,
    _THINKING: Kind.THINKING,
    "decoding": Kind.OUTPUT,
    "drafts thrown away": Kind.DISCARDED,
}
_ANSWERS, _SHOWN = 3, 40
"""Answers that are shown, and characters of each."""
_NAME, _COUNT, _TIME = 21, 10, 12
_Parts = tuple[str | Figure, ...]


def dominating(one: Answered) -> _Parts:
    """The largest part of the time and of the price, and what each token of it cost."""
    bill, total_ms = one.account.bill, one.total_ms
    if not total_ms:
        return ("— it took no time",)
    groups = {
        name: sum(one.spent.get(kind, 0.0) for kind in kinds) for name, kinds in _GROUPS.items()
    }
    groups[_REST] = total_ms - sum(groups.values())
    most = max(groups, key=lambda name: groups[name])
    parts: list[str | Figure] = [f"{most}: ", _share(groups[most] / total_ms), " of the time"]
    prices = {
        name: line.price.value or 0.0
        for name, kind in _KINDS.items()
        if (line := bill.line(kind)) is not None
    }
    total = bill.total.price.value
    if total and prices:
        dearest = max(prices, key=lambda name: prices[name])
        parts += [", " if dearest == most else f"; {dearest}: "]
        parts += [_share(prices[dearest] / total, Source.ESTIMATED), " of the price"]
    return (*parts, *_each(one, most, groups[most]))


def _each(one: Answered, most: str, spent: float) -> _Parts:
    """The cost of one token of what dominates."""
    line = one.account.bill.line(_KINDS[most]) if most in _KINDS else None
    if line is None:
        return ()
    if most == _READING:
        each = _ms(spent / line.tokens)
        passes = plural(len(one.chunks), "pass", "passes")
        return (f"; {plural(line.tokens, 'token')} in {passes}, ", each, " a token")
    # The first token of all came with the reading.
    came = one.account.thinking[0] == (most == _THINKING)
    passes = max(1, line.tokens - came)
    told = (f"; {plural(passes, 'pass', 'passes')} of one token, ", _ms(spent / passes), " each")
    if line.moved.value is None:
        return told
    moved = Figure("moved", line.moved.value / passes, "B", Source.DERIVED, "bytes / passes")
    return (*told, ", as each moves ", moved)


def reused(done: Sequence[Answered]) -> _Parts:
    """The chat with its history cached against the one without; nothing before both are there."""
    named = {one.shape.name: one for one in done}
    if not {COLD, REUSED} <= set(named):
        return ()
    cold, warm = named[COLD], named[REUSED]
    if not cold.speed.ttft_ms or not warm.speed.ttft_ms:
        return ()
    sooner = Figure("sooner", cold.speed.ttft_ms / warm.speed.ttft_ms, "times", Source.DERIVED, "")
    parts = ("TTFT ", _ms(warm.speed.ttft_ms), " in place of ", _ms(cold.speed.ttft_ms), ", ")
    before, now = (other.account.bill.total.price.value for other in (cold, warm))
    if not before or now is None:
        return (*parts, sooner, " as soon")
    return (*parts, sooner, " as soon; ", _share(now / before, Source.ESTIMATED), " of the price")


def _share(value: float, source: Source = Source.DERIVED) -> Figure:
    return Figure("share", value, "share", source, "part / whole")


def _ms(value: float) -> Figure:
    return Figure("time", value, "ms", Source.DERIVED, "time / tokens")


def way_lines(ways: Sequence[Way], width: int) -> Iterator[Content]:
    """Both ways as a table: tokens, time, answer."""
    head = padded(muted("way"), _NAME)
    for title in ("thought", "answered", "passes"):
        head += right(muted(title), _COUNT)
    head += right(muted("time  "), _TIME) + right(muted("tok/s  "), _TIME)
    yield cut(head, width)
    for one in ways:
        line = padded(Content(f"{one.name}, {one.rows} × {one.budget:,}"), _NAME)
        for count in (one.thought, one.answered, one.passes):
            line += right(Content(f"{count:,}"), _COUNT)
        speed = one.per_second
        line += right(derived(ms(one.ms)), _TIME)
        line += right(derived(three(speed) if speed is not None else "—"), _TIME)
        yield cut(line, width)
        yield from wrapped("  answer", _NAME, width, _votes(one))


def _votes(one: Way) -> str:
    first, others = one.votes[:_ANSWERS], sum(count for _, count in one.votes[_ANSWERS:])
    silent = one.rows - others - sum(count for _, count in first)
    said = [(quote(answer, _SHOWN), count) for answer, count in first]
    said += [("others", others), ("none", silent)]
    return "; ".join(f"{count} of {one.rows}: {what}" for what, count in said if count)
