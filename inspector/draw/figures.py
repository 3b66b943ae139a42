"""Figures that carry their unit and source, as text with their mark."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from engine.records.figure import Figure, Source
from engine.text import visible
from inspector.draw.numbers import (
    NOTHING,
    Mark,
    decimal_size,
    marked,
    ms,
    percent,
    rate,
    size,
    three,
)

_MARKS = {
    Source.MEASURED: Mark.MEASURED,
    Source.DERIVED: Mark.DERIVED,
    Source.ESTIMATED: Mark.ESTIMATED,
}


def figure_text(value: float | None, unit: str, *, decimal: bool = False) -> str:
    """A figure in its unit: ``40.0 GiB``, ``23.9 tok/s``, ``12%``; ``decimal``: bytes in GB."""
    if value is None:
        return NOTHING
    match unit:
        case "B":
            return decimal_size(value) if decimal else size(value)
        case "tok/s":
            return rate(value)
        case "ms":
            return ms(value)
        case "share":
            return percent(value)
    text = f"{value:,.0f}" if float(value).is_integer() else three(value)
    return f"{text} {unit}".rstrip()


def figure_content(figure: Figure, *, decimal: bool = False) -> Content:
    """A figure with the mark of where it comes from."""
    text = figure_text(figure.value, figure.unit, decimal=decimal)
    return marked(text, _MARKS[figure.source])


def money(figure: Figure) -> Content:
    """A price in its currency, estimated; two digits at least, however small it is."""
    if figure.value is None:
        return figure_content(figure)
    value = figure.value
    digits = next((one for one in range(2, 9) if value * 10**one >= 9.5), 9) if value else 2
    return marked(f"{visible(figure.unit)}{value:,.{digits}f}", Mark.ESTIMATED)


def flowed(parts: Sequence[str | Figure], width: int) -> list[Content]:
    """Words and figures in lines of at most ``width`` cells; a figure is never broken."""
    words: list[tuple[bool, Content]] = []
    glued = False
    for part in parts:
        if isinstance(part, Figure):
            words.append((glued, figure_content(part)))
            glued = True
            continue
        for at, word in enumerate(part.split(" ")):
            if word:
                words.append((at == 0 and bool(words), Content(word)))
        glued = not part.endswith(" ")
    lines: list[Content] = []
    for together, text in words:
        gap = "" if together else " "
        if lines and lines[-1].cell_length + len(gap) + text.cell_length <= width:
            lines[-1] = lines[-1] + gap + text
        else:
            lines.append(text)
    return [line.truncate(max(1, width), ellipsis=True) for line in lines]
