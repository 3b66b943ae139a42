"""Figures as text: their units, and the mark that says where each one comes from.

A figure is measured, derived from measured ones, or estimated. Its mark is a glyph, so that it
needs no colour: ``12.3 ms •``, ``81.3 tok/s ƒ``, ``0.2 Wh ~``. Counts are exact and carry none.
What cannot be known is ``—``, without a mark, with the reason where there is room for it.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from enum import StrEnum

from textual.content import Content

from engine.records.partial import Interval
from engine.text import plural as plural

NOTHING = "—"
MUTED = "$title"
"""Text that stands back. Not ``$text-muted``: that is an ``auto`` colour, which comes out white."""
FAINT = "$cut $cut-style"
"""Text that is not the matter now: readable, and no more."""


class Mark(StrEnum):
    """Source of a figure: measured, derived or estimated."""

    MEASURED = "•"
    DERIVED = "ƒ"
    ESTIMATED = "~"


MEANING = {Mark.MEASURED: "measured", Mark.DERIVED: "derived", Mark.ESTIMATED: "estimated"}
"""A mark's name, which is also the theme variable of its colour."""


PERCENT = f"% {Mark.DERIVED}"
"""For the lower border of a pane whose percentages are all worked out from logits or counts."""
ALL_DERIVED = f"all {Mark.DERIVED}"
"""For the lower border of a pane in which every figure is."""


# --- numbers as text ------------------------------------------------------------------------


def known(value: float | None) -> bool:
    """True if there is a number to show."""
    return value is not None and math.isfinite(value)


def three(value: float) -> str:
    """A number to about three digits, never in exponent form; what is not 0 never reads 0."""
    size = abs(value)
    if 0 < size < 0.0005:
        return "<0.001"
    decimals = 3 if 0 < size < 0.0995 else 2 if size < 9.995 else 1 if size < 99.95 else 0
    return f"{value:,.{decimals}f}"


def ms(value: float | None) -> str:
    """A duration given in milliseconds, in the unit that reads best."""
    if value is None or not math.isfinite(value):
        return NOTHING
    if value and abs(value) < 0.9995:
        return f"{three(value * 1000)} µs"
    if abs(value) < 999.5:
        return f"{three(value)} ms"
    seconds = value / 1000
    if abs(seconds) < 119.5:
        return f"{three(seconds)} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes:,} min {rest:02} s"


def size(nbytes: float | None) -> str:
    """An amount of memory, in binary units, which are named as such."""
    if nbytes is None or not math.isfinite(nbytes):
        return NOTHING
    amount = float(nbytes)
    if abs(amount) < 1024:
        return f"{amount:,.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        amount /= 1024
        if abs(amount) < 1023.5:
            return f"{three(amount)} {unit}"
    return f"{three(amount / 1024)} TiB"


def decimal_size(nbytes: float | None) -> str:
    """An amount of memory, in the decimal units of datasheets."""
    if nbytes is None or not math.isfinite(nbytes):
        return NOTHING
    for power, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if abs(nbytes) >= power * 0.9995:
            return f"{three(nbytes / power)} {unit}"
    return f"{nbytes:,.0f} B"


def bandwidth(bytes_per_second: float | None) -> str:
    """A memory bandwidth, in the decimal units that such figures are given in."""
    if bytes_per_second is None or not math.isfinite(bytes_per_second):
        return NOTHING
    return f"{three(bytes_per_second / 1e9)} GB/s"


_SCALES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"))


def scaled(value: float, digits: Callable[[float], str] = three) -> str:
    """A large number with a decimal prefix: ``12.3 G``."""
    scale, prefix = next(((one, sign) for one, sign in _SCALES if value >= one), (1e6, "M"))
    return f"{digits(value / scale)} {prefix}"


def flops(per_second: float | None) -> str:
    """Floating-point operations a second, in decimal units."""
    if per_second is None or not math.isfinite(per_second):
        return NOTHING
    return f"{scaled(per_second)}FLOP/s"


def rate(value: float | None, unit: str = "tok/s") -> str:
    """So many a second."""
    return f"{three(value)} {unit}" if value is not None and math.isfinite(value) else NOTHING


def nats(value: float | None) -> str:
    """An entropy."""
    return f"{three(value)} nats" if value is not None and math.isfinite(value) else NOTHING


def count(value: int | None) -> str:
    """A whole number of things."""
    return NOTHING if value is None else f"{value:,}"


def percent(share: float | None) -> str:
    """A share of one, in percent; what is above nothing never reads 0%."""
    if share is None or not math.isfinite(share):
        return NOTHING
    if isinstance(share, Interval):
        return share.written(percent)
    if 0 < share < 0.001:
        return "<0.1%"
    return f"{share * 100:.1f}%" if 0 < share < 0.0995 else f"{share * 100:.0f}%"


# --- figures with their mark ----------------------------------------------------------------


def marked(text: str, mark: Mark, style: str = "") -> Content:
    """A figure and its mark; ``—`` stays alone."""
    if text == NOTHING:
        return Content.styled(NOTHING, MUTED)
    return Content.assemble((text, style), (f" {mark}", f"${MEANING[mark]}"))


def measured(text: str, style: str = "") -> Content:
    """A figure that was measured, or counted from the real thing."""
    return marked(text, Mark.MEASURED, style)


def derived(text: str, style: str = "") -> Content:
    """A figure computed from measured or exact ones."""
    return marked(text, Mark.DERIVED, style)


def nothing(reason: str) -> Content:
    """``—`` and why."""
    return muted(f"{NOTHING}  {reason}" if reason else NOTHING)


def muted(text: str) -> Content:
    """Text that stands back."""
    return Content.styled(text, MUTED)


def legend(width: int) -> Content:
    """The meaning of the marks, as far as the width allows."""
    full = [
        Content.assemble((mark, f"${name}"), (f" {name}", MUTED)) for mark, name in MEANING.items()
    ]
    note = muted("   counts are exact and carry no mark")
    line = Content("   ").join(full)
    return fit(width, line + note, line, Content(" ").join(full))


def with_marks(text: str, width: int) -> Content:
    """``text`` for a pane's lower border, behind the meaning of the marks; or that alone."""
    names = [Content.assemble((mark, f"${name}"), f" {name}") for mark, name in MEANING.items()]
    every, usual = Content("  ").join(names), Content("  ").join(names[:2])
    behind = Content(f" · {text}" if text else "")
    # A border has a cell less for words than the lines above it.
    return fit(width - 1, every + behind, usual + behind, usual)


# --- lines ----------------------------------------------------------------------------------


def fit(width: int, *variants: Content) -> Content:
    """The first of the variants, longest first, that fits; else the last one, cut short."""
    for variant in variants:
        if variant.cell_length <= width:
            return variant
    return cut(variants[-1], width)


def cut(line: Content, width: int) -> Content:
    """The line in at most ``width`` cells; an ellipsis shows that something is missing."""
    return line.truncate(max(0, width), ellipsis=True)


def padded(line: Content, width: int) -> Content:
    """The line in exactly ``width`` cells."""
    line = cut(line, width)
    return line.pad_right(width - line.cell_length)


def right(line: Content, width: int) -> Content:
    """The line in exactly ``width`` cells, at the right."""
    line = cut(line, width)
    return line.pad_left(width - line.cell_length)


def labelled(label: str, label_width: int, width: int, *variants: Content) -> Content:
    """A muted label and the longest variant of what it is about that fits beside it."""
    head = padded(muted(label), label_width)
    return cut(head + fit(max(0, width - label_width), *variants), width)


def row(label: str, label_width: int, width: int, figure: Content, *notes: str) -> Content:
    """A label, a figure, and the longest of the notes on it that still fits."""
    variants = [figure + muted(f"   {note}") for note in notes]
    return labelled(label, label_width, width, *variants, figure)


def wrapped(label: str, label_width: int, width: int, text: str) -> list[Content]:
    """A label and a text that must be read to its end, on as many lines as that takes."""
    lines = textwrap.wrap(text, max(8, width - label_width)) or [""]
    return [
        labelled(label if index == 0 else "", label_width, width, muted(line))
        for index, line in enumerate(lines)
    ]


def beside(
    left: Sequence[Content], right_side: Sequence[Content], left_width: int, gap: int = 2
) -> list[Content]:
    """Two columns of lines as one."""
    blank = Content("")
    rows = max(len(left), len(right_side))
    lines = []
    for row in range(rows):
        start = left[row] if row < len(left) else blank
        end = right_side[row] if row < len(right_side) else blank
        lines.append(padded(start, left_width + gap) + end if end.cell_length else start)
    return lines


def heading(text: str, width: int) -> Content:
    """The title of a part of a pane, with a rule to the end of the line."""
    text = f"{text} "
    rule = "─" * max(0, width - len(text))
    return cut(Content.assemble((text, "$title bold"), (rule, "$kv-free")), width)
