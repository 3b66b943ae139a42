"""K and V of one position by kind of attention: as this model keeps them, and as it could."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from engine.napkin.figures import token_bytes
from engine.napkin.library import Library
from engine.records.model import ModelFacts
from engine.text import visible
from inspector.draw.cells import left
from inspector.draw.numbers import (
    NOTHING,
    cut,
    derived,
    fit,
    heading,
    muted,
    right,
    size,
    wrapped,
)
from inspector.panes.kv.figures import formula, kv_mark, per_token
from inspector.state.view import View

CONTEXTS = (1_024, 8_192, 131_072)
NAME, CELL = 26, 12
_NO_LATENT = "  MLA                      n/a  a latent for all heads: of what size, no config says"


def head_lines(view: View, width: int, height: int) -> list[Content]:
    """The table, as many lines of it as there is room for."""
    facts = view.facts
    title = heading("K and V of a position, by kind of attention", width)
    if facts is None:
        return [title, cut(muted(f"{NOTHING}  no model is loaded yet"), width)]
    kv = view.step.kv if view.step is not None else view.prefill.kv if view.prefill else None
    each = per_token(facts, kv)
    if each is None:
        why = "nothing was read yet" if kv is None else visible(facts.kv_note) or "not told"
        lines = wrapped("this model", 12, width, f"n/a  {why}")
    else:
        lines = [_names(width), *_this(facts, each, width)]
    room = height - len(lines) - 2
    if room > 1:
        lines += [heading("Other models, 16 bit", width), *_others(width)[:room]]
    return [title, *lines][:height]


def _others(width: int) -> list[Content]:
    """A line for each shape that ships, those that keep most first."""
    shapes = sorted(Library.load().models.values(), key=token_bytes, reverse=True)
    return [
        _row(f"{shape.name}, {shape.attention}", derived(size(each)), each, width)
        for shape in shapes
        for each in (token_bytes(shape),)
    ]


def _names(width: int) -> Content:
    names = ["a token", *(f"at {_short(one)}" for one in _contexts(width))]
    cells = Content("").join(right(muted(name), CELL) for name in names)
    return cut(Content(" " * NAME) + cells, width)


def _contexts(width: int) -> Sequence[int]:
    """The contexts whose column there is room for: a figure is never cut."""
    return CONTEXTS[: max(0, (width - NAME) // CELL - 1)]


def _short(count: int) -> str:
    return f"{count >> 10}K"


def _this(facts: ModelFacts, each: float, width: int) -> list[Content]:
    """This model's own bytes, measured and by formula, and with other numbers of K/V heads."""
    heads, expected = facts.kv_heads, facts.kv_bytes_per_token_expected
    if expected is None and facts.kv_note:
        # A latent, such as MLA's, or values narrower than keys: its heads tell nothing.
        why = wrapped("  by heads", NAME, width, f"n/a  {visible(facts.kv_note)}")
        return [_row("this model, its own kind", kv_mark(facts)(size(each)), each, width), *why]
    lines = [_row(f"this model, {kind(facts)}", kv_mark(facts)(size(each)), each, width)]
    if expected is not None:
        product = formula(facts)
        told = muted(f"  = {product[0]}") if product is not None else Content("")
        line = _row("  by formula", derived(size(expected)), None, width)
        lines.append(fit(width, line + told, line))
    if not heads or not facts.query_heads:
        return lines
    one = each / heads
    for name, count in _kinds(facts):
        lines.append(_row(name, derived(size(one * count)), one * count, width))
    return [*lines, cut(muted(_NO_LATENT), width)]


def kind(facts: ModelFacts) -> str:
    """Kind of attention by its heads: one K/V head for each query head, for several, for all."""
    heads, queries = facts.kv_heads, facts.query_heads
    if not heads or not queries:
        return "no attention heads"
    if heads == queries:
        return f"MHA {heads}"
    return "MQA 1" if heads == 1 else f"GQA {queries}:{heads}"


def _kinds(facts: ModelFacts) -> Sequence[tuple[str, int]]:
    """The kinds that this model is not, with as many K/V heads as they would have."""
    queries, groups = facts.query_heads, facts.kv_heads
    found = [(f"  MHA {queries}", queries)]
    if groups not in (1, queries):
        found.append((f"  GQA {queries}:{groups}", groups))
    found.append(("  MQA 1", 1))
    return [(name, count) for name, count in found if count != groups]


def _row(name: str, figure: Content, each: float | None, width: int) -> Content:
    line = Content(left(name, NAME)) + right(figure, CELL)
    for length in _contexts(width) if each is not None else ():
        line += right(derived(size((each or 0.0) * length)), CELL)
    return cut(line, width)
