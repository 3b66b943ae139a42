"""A comparison in words for a terminal. Every line is safe for one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.text import plural, quote, visible
from sessions.compare.alone import alone_lines
from sessions.compare.column_figures import ColumnFigures
from sessions.compare.compared import Batch, Compared, ComparedColumn
from sessions.compare.text import bound_text
from sessions.compare.why_part import WhyPart
from sessions.export.words import named

NOTHING = "—"
FIGURES = (
    *("column", "tokens", "entropy", "left", "surprisal", "distinct-1", "distinct-2"),
    *("repeats", "survivors", "closest", "rounds", "accepted", "tokens/s", "ended by"),
)
"""Names of the figures; entropies and surprisal are in nats."""


def lines(found: Compared) -> Iterator[str]:
    """The whole comparison."""
    for one in found.columns:
        yield from _column(one)
    yield from _rows(figure_table(found))
    yield "entropy, left and surprisal in nats; all but the counts derived"
    yield ""
    yield from parting_lines(found)
    yield from told_alone(found)
    yield ""
    yield from batch_lines(found.batch)


def _column(one: ComparedColumn) -> Iterator[str]:
    yield f"── {one.state.column}: {visible(one.title)} (seed {one.state.seed})"
    if one.figures.ended_by == "error":
        yield f"error: {visible(one.figures.ended_detail)}"
    yield visible(one.text, newline="\n", tab="\t")
    yield ""


def figure_table(found: Compared) -> list[tuple[str, ...]]:
    """Titles and a row a column; the figures of drafts only where a column drafted."""
    rows = [FIGURES, *(figure_row(one) for one in found.columns)]
    if any(one.figures.rounds for one in found.columns):
        return rows
    out = {FIGURES.index("rounds"), FIGURES.index("accepted")}
    return [tuple(cell for at, cell in enumerate(row) if at not in out) for row in rows]


def figure_row(one: ComparedColumn) -> tuple[str, ...]:
    """The figures of a column as text, in the order of ``FIGURES``."""
    figures: ColumnFigures = one.figures
    return (
        str(one.state.column),
        f"{figures.tokens:,}",
        _number(figures.entropy, 3),
        _number(figures.entropy_final, 3),
        _number(figures.surprisal, 3),
        _number(figures.distinct_1, 2),
        _number(figures.distinct_2, 2),
        str(figures.repetition),
        _number(figures.survivors, 1),
        NOTHING if figures.closest is None else f"{figures.closest:.2g}",
        str(figures.rounds) if figures.rounds else NOTHING,
        NOTHING if figures.accepted is None else f"{figures.accepted:.0%}",
        _number(figures.tps, 1),
        figures.ended_by,
    )


def parting_lines(found: Compared) -> Iterator[str]:
    """Lines on the place where columns part, and on the reasons of the first two."""
    parts = found.divergence
    if parts.index is None:
        yield "the columns do not part: as far as they go they have the same tokens"
        return
    yield f"they part at token {parts.index + 1} (position {parts.position}):"
    for one, token in zip(found.columns, parts.tokens, strict=True):
        yield f"  {one.state.column} {NOTHING if token is None else named(token)}"
    if found.why is not None:
        a, b, why = found.why
        yield from why_lines(str(a), str(b), why)


def why_lines(a: str, b: str, why: WhyPart) -> Iterator[str]:
    """The reasons for which column ``a`` and column ``b`` part."""
    changes = [f"{visible(one.name)} {_value(one.a)} / {_value(one.b)}" for one in why.settings]
    yield f"why {a} and {b} part: {', '.join(changes) or 'no setting differs'}"
    if why.by_logits and why.drift is not None:
        yield f"  two passes over the same text: their logits lie up to {why.drift:.2g} apart"
    if why.stage is None:
        yield "  candidates: the same after every stage"
    else:
        left = f"{why.stage.a} / {why.stage.b}"
        yield f"  candidates differ from stage {visible(why.stage.stage)} on: {left} left"
    variation = f"total variation {why.total_variation:.3g}"
    yield f"  final distributions: KL {bound_text(why.kl)} nats, {variation} (derived)"
    for name, other, dice in ((b, a, why.b_with_a), (a, b, why.a_with_b)):
        told = NOTHING if dice.token is None else named(dice.token)
        note = f" ({visible(dice.why)})" if dice.why else ""
        yield f"  {name} with the dice of {other}: {told}{note}"


def told_alone(found: Compared) -> Iterator[str]:
    """Each column held against its text read alone; nothing where none was."""
    return alone_lines([(one.state.column, one.alone) for one in found.columns], found.dtype)


def batch_lines(found: Batch) -> Iterator[str]:
    """The bill: tokens of all columns, in how many passes and how long."""
    if not found.tokens:
        yield "no pass was made for several columns"
        return
    rate = found.tokens_per_second
    speed = NOTHING if rate is None else f"{rate:.1f} tokens/s (derived)"
    read = f"{plural(found.passes, 'pass', 'passes')} of {plural(found.rows, 'row')} in all"
    yield f"{plural(found.tokens, 'token')} in {found.ms / 1000:.2f} s (measured), {speed}: {read}"
    costs = [f"{one.rows}: {one.forward_ms:.1f} ms" for one in found.by_rows]
    if costs:
        yield f"  a pass by its rows (median, measured): {', '.join(costs)}"
    if found.alone_ms is not None:
        yield f"  one column after the other: about {found.alone_ms / 1000:.2f} s (derived)"
    for note in found.notes:
        yield f"  {visible(note)}"


def _rows(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(f"{one:>{width}}" for one, width in zip(row, widths, strict=True)).rstrip()


def _number(value: float | None, digits: int) -> str:
    return NOTHING if value is None else f"{value:.{digits}f}"


def _value(value: object) -> str:
    return NOTHING if value is None else quote(value) if isinstance(value, str) else str(value)
