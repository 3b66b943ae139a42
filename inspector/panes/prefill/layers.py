"""Time inside the model of one pass: attention, MLP and the rest, layer by layer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from textual.content import Content

from engine.records.prompt import LayerTime, PrefillChunk
from engine.text import visible
from inspector.draw.block_chars import spark
from inspector.draw.numbers import (
    beside,
    cut,
    derived,
    fit,
    heading,
    measured,
    ms,
    muted,
    padded,
    percent,
    plural,
    right,
)
from inspector.draw.stacked import stacked

ATTENTION, MLP, REST = "█", "▓", "░"
STYLES = ("$attention", "$mlp", "$cut")
GLYPHS = (ATTENTION, MLP, REST)
NAMES = ("attention", "MLP", "rest")
WIDE_LAYER = 64
SPLIT_GAP = 3


def total_layers(chunks: Sequence[PrefillChunk]) -> list[LayerTime]:
    """Each layer's times over all the chunks that were timed by layer."""
    timed = [chunk.layers for chunk in chunks if chunk.layers]
    return [
        LayerTime(
            _sum_known([layer.attention_ms for layer in same]),
            _sum_known([layer.mlp_ms for layer in same]),
            sum(layer.total_ms for layer in same),
        )
        for same in zip(*timed, strict=False)
    ]


def _sum_known(values: Sequence[float | None]) -> float | None:
    kept = [value for value in values if value is not None]
    return sum(kept) if len(kept) == len(values) else None


def split(layers: Sequence[LayerTime], whole_ms: float) -> tuple[float, float, float] | None:
    """Shares of ``whole_ms``: attention, MLP, and the rest, which is all that is neither.

    None where the layers' parts are not known.
    """
    attention = _sum_known([layer.attention_ms for layer in layers])
    mlp = _sum_known([layer.mlp_ms for layer in layers])
    if attention is None or mlp is None or not layers:
        return None
    # The parts are timed one by one and the whole once: noise must not make a share negative.
    whole = max(whole_ms, attention + mlp)
    if not whole > 0:
        return None
    return attention / whole, mlp / whole, 1 - (attention + mlp) / whole


def layer_lines(chunks: Sequence[PrefillChunk], width: int, height: int) -> list[Content]:
    """The split of the time and a bar a layer; in columns where ``height`` asks for it."""
    return list(_layer_lines(tuple(chunks), width, height))


# Read once, shown at every step.
@lru_cache(maxsize=4)
def _layer_lines(chunks: tuple[PrefillChunk, ...], width: int, height: int) -> list[Content]:
    layers = total_layers(chunks)
    lines = [heading("Where the reading went", width)]
    if not layers:
        note = next((chunk.layers_note for chunk in chunks if chunk.layers_note), "")
        return [*lines, cut(muted(f"—  {visible(note) or 'layers were not timed'}"), width)]
    timed = [chunk for chunk in chunks if chunk.layers]
    whole = sum(chunk.ms for chunk in timed)
    parts = split(layers, whole)
    if parts is None:
        lines.append(cut(muted("—  attention and MLP were not found in these layers"), width))
    else:
        lines += [*_shares(parts, width), _stacked(parts, 1.0, width)]
    if len(timed) < len(chunks):
        of = f"{len(timed)} of {plural(len(chunks), 'chunk')}"
        lines.append(cut(muted(f"layers timed in {of}"), width))
    room = height - len(lines)
    table = layer_table(layers, width, room)
    if room < len(table):
        lines.append(_profile(layers, width))
    return [*lines, *table]


def _shares(parts: Sequence[float], width: int) -> list[Content]:
    """``█ attention 48% ƒ   ▓ MLP 37% ƒ   ░ rest 15% ƒ``, or one below the other."""
    figures = [derived(percent(share), "bold") for share in parts]
    named = [
        Content.assemble((glyph, style), f" {name} ", figure)
        for glyph, style, name, figure in zip(GLYPHS, STYLES, NAMES, figures, strict=True)
    ]
    line = Content("   ").join(named)
    if line.cell_length > width:
        return [cut(one, width) for one in named]
    note = muted("   rest: norms, embedding, output head, and the timing itself")
    return [fit(width, line + note, line)]


def _stacked(parts: Sequence[float], total: float, width: int) -> Content:
    return stacked([*zip(GLYPHS, STYLES, parts, strict=True)], total, width)


def _profile(layers: Sequence[LayerTime], width: int) -> Content:
    """All layers in one line: a column each."""
    times = [layer.total_ms for layer in layers]
    high = max(times)
    columns = spark(times[: max(1, width)], high)
    text = f"  {plural(len(layers), 'layer')}, {ms(min(times))}–{ms(high)}"
    line = Content.styled(columns, "$phase-prefill")
    return fit(width, Content.assemble(line, muted(text), ("  •", "$measured")), line)


def layer_table(layers: Sequence[LayerTime], width: int, height: int) -> list[Content]:
    """A line a layer, column by column where they do not fit otherwise."""
    columns = min(-(-len(layers) // max(1, height)), max(1, (width + SPLIT_GAP) // 50))
    each = (width - SPLIT_GAP * (columns - 1)) // columns
    high = max(layer.total_ms for layer in layers)
    lines = [_layer(index, layer, high, each) for index, layer in enumerate(layers)]
    tall = -(-len(lines) // columns)
    table = lines[:tall]
    for column in range(1, columns):
        here = lines[column * tall : (column + 1) * tall]
        table = beside(table, here, column * (each + SPLIT_GAP) - SPLIT_GAP, SPLIT_GAP)
    return table


def _layer(index: int, layer: LayerTime, high: float, width: int) -> Content:
    attention, mlp = layer.attention_ms or 0.0, layer.mlp_ms or 0.0
    rest = max(0.0, layer.total_ms - attention - mlp)
    label = padded(muted(f"layer {index}"), 9) if width >= 40 else muted(f"{index:>2} ")
    figure = right(measured(ms(layer.total_ms)), 10)
    if width >= WIDE_LAYER and layer.attention_ms is not None and layer.mlp_ms is not None:
        named = zip(GLYPHS, STYLES, (attention, mlp, rest), ("•", "•", "ƒ"), strict=True)
        figure += Content.assemble(
            *(Content.assemble((f"  {g} ", s), muted(f"{ms(t):>7} {m}")) for g, s, t, m in named)
        )
    room = width - label.cell_length - figure.cell_length
    if room < 4 or not (high > 0 and math.isfinite(high)):
        return cut(label + figure, width)
    bars = _stacked((attention, mlp, rest), high, room)
    return label + padded(bars, room) + figure
