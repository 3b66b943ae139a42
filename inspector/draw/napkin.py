"""Figures of a shape on a machine as a table: a row a figure, a column for each kind of bits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from textual.content import Content

from engine.napkin.figures import Variant, remarks, variants
from engine.napkin.shapes import Machine, ModelShape
from engine.text import visible
from inspector.draw.figures import figure_content
from inspector.draw.numbers import (
    NOTHING,
    cut,
    decimal_size,
    legend,
    muted,
    padded,
    right,
    three,
    wrapped,
)

_LABEL = 16
_COLUMN = 14
_WORDS = 9
"""Cells of a label in front of words."""


def napkin_lines(
    shape: ModelShape, machine: Machine | None, context: int, width: int
) -> Iterator[Content]:
    """The shape, the machine, the table, the formulas, and what was assumed."""
    width = max(_LABEL + _COLUMN, width)
    yield from wrapped("model", _WORDS, width, _shape_words(shape))
    if machine is not None:
        yield from wrapped("machine", _WORDS, width, _machine_words(machine))
    found = variants(shape, machine, context)
    each = max(1, (width - _LABEL) // _COLUMN)
    for start in range(0, len(found), each):
        yield Content("")
        yield from _table(found[start : start + each], width)
    yield legend(width)
    yield Content("")
    given = found[0].figures
    for figure in given:
        yield from wrapped(figure.name, _LABEL, width, f"= {figure.formula}")
    for reason in dict.fromkeys(one.reason for part in found for one in part.figures if one.reason):
        yield from wrapped(NOTHING, _WORDS, width, reason)
    for remark in remarks(shape, machine):
        yield from wrapped("note", _WORDS, width, remark)


def _table(columns: Sequence[Variant], width: int) -> Iterator[Content]:
    head = Content(" " * _LABEL)
    for column in columns:
        # Figures end in a blank and a mark: their heading ends where they do.
        head += right(Content.styled(f"{column.label}  ", "bold"), _COLUMN)
    yield cut(head, width)
    for row, figure in enumerate(columns[0].figures):
        line = padded(muted(figure.name), _LABEL)
        for column in columns:
            line += right(figure_content(column.figures[row], decimal=True), _COLUMN)
        yield cut(line, width)


def _shape_words(shape: ModelShape) -> str:
    name = f"{visible(shape.name)}: " if shape.name else ""
    active = f" ({_count(shape.active)} active)" if shape.active else ""
    heads = (
        f"latent of {shape.latent} for all {shape.query_heads} heads"
        if shape.latent
        else f"{shape.query_heads} query heads on {shape.kv_heads} K/V heads of {shape.head_dim}"
    )
    source = f". Source: {visible(shape.source)}" if shape.source else ""
    return (
        f"{name}{_count(shape.parameters)} parameters{active}, {shape.layers} layers, "
        f"{shape.width:,} wide, {heads} ({shape.attention}), weights in {shape.bits} bit, "
        f"K/V in {shape.kv_bits}{source}"
    )


def _count(parameters: float) -> str:
    return f"{parameters / 1e9:g}B" if parameters >= 1e9 else f"{parameters / 1e6:g}M"


def _machine_words(machine: Machine) -> str:
    name = f"{visible(machine.name)}: " if machine.name else ""
    parts = [f"{decimal_size(machine.bytes_per_second)}/s"]
    if machine.flops_per_second:
        parts.append(f"{three(machine.flops_per_second / 1e12)} TFLOP/s")
    if machine.memory_bytes:
        parts.append(decimal_size(machine.memory_bytes))
    source = f". Source: {visible(machine.source)}" if machine.source else ""
    return f"{name}{', '.join(parts)} ~{source}"
