"""Size and cost of the KV cache: measured, expected, and what it could have been."""

from __future__ import annotations

from collections.abc import Callable

from textual.content import Content

from engine.records.cache import KVState
from engine.records.model import ModelFacts
from engine.text import visible
from inspector.draw.numbers import (
    MUTED,
    NOTHING,
    count,
    cut,
    derived,
    heading,
    labelled,
    measured,
    muted,
    nothing,
    percent,
    plural,
    right,
    row,
    size,
    three,
    wrapped,
)
from inspector.panes.kv.round import round_lines
from inspector.state.view import View

LABEL = 12
COLUMN = 11


FULL_ATTENTION = "full attention"
"""The ``cache_kind`` of a cache that grows by the same amount with each token."""


def kv_mark(facts: ModelFacts | None) -> Callable[..., Content]:
    """The mark of the cache's bytes: summed from its tensors, or by the formula."""
    return derived if facts is not None and facts.kv_by_formula else measured


def per_token(facts: ModelFacts | None, kv: KVState | None) -> float | None:
    """Bytes a position, from the real tensors; None where there is no such constant."""
    if kv is None or kv.nbytes is None or kv.stored <= 0 or kv.stored < kv.seen:
        return None
    if facts is not None and facts.kv_note and facts.cache_kind != FULL_ATTENTION:
        return None
    return kv.nbytes / kv.stored


def formula(facts: ModelFacts) -> tuple[str, str] | None:
    """The expected bytes a token as a product: in numbers and in words. None if it is not one."""
    heads = 2 * facts.layers * facts.kv_heads * facts.head_dim
    expected = facts.kv_bytes_per_token_expected
    if not expected or not heads or expected % heads:
        return None
    each = plural(expected // heads, "byte")
    numbers = f"2 × {facts.layers} × {facts.kv_heads} × {facts.head_dim} × {each}"
    return numbers, "K and V × layers × K/V heads × head dim × bytes"


def figures(view: View, kv: KVState | None, width: int) -> tuple[list[Content], list[Content]]:
    """Size and cost of the cache: the most important figures, and the rest."""
    facts = view.facts
    each = per_token(facts, kv)
    now, sizes = _now(facts, kv, width), _measured(facts, kv, each, width)
    this_pass = [labelled("this pass", LABEL, width, *_pass(view, kv))]
    if kv is not None:
        # A round's tokens are of one pass, which wrote more than one position.
        this_pass = round_lines(view, LABEL, width, kv.block_size) or this_pass
    rest = []
    if facts is not None:
        in_8_bits = view.pool is not None and view.pool.quantized
        rest += _expected(facts, each, width)
        rest += _heads(facts, width, each if in_8_bits else None)
    # With a pool, what the pass moved there is news.
    head = [*now, *sizes] if view.pool is None else [*now, *this_pass, *sizes]
    rest += this_pass if view.pool is None else []
    if facts is not None:
        rest.append(_full(facts, kv, each, width))
    return head, rest


def _note(facts: ModelFacts | None) -> str:
    """The reason for which the usual figures do not exist."""
    return visible(facts.kv_note) if facts is not None else ""


def _line(label: str, width: int, figure: Content, *notes: str) -> Content:
    return row(label, LABEL, width, figure, *notes)


def _now(facts: ModelFacts | None, kv: KVState | None, width: int) -> list[Content]:
    if kv is None:
        return [_line("cache now", width, nothing("nothing read yet"))]
    if kv.nbytes is None:
        why = _note(facts) or "this cache does not tell its size"
        return wrapped("cache now", LABEL, width, f"{NOTHING}  {why}")
    if facts is not None and facts.kv_by_formula:
        notes = [f"{plural(kv.stored, 'position')}, by the formula", "by the formula"]
    elif kv.stored != kv.seen:
        notes = [f"{kv.stored:,} stored of {kv.seen:,} seen", f"{kv.stored:,} of {kv.seen:,}"]
    else:
        notes = [f"{plural(kv.stored, 'position')} stored, all seen", plural(kv.stored, "position")]
    return [_line("cache now", width, kv_mark(facts)(size(kv.nbytes), "bold"), *notes)]


def _measured(
    facts: ModelFacts | None, kv: KVState | None, each: float | None, width: int
) -> list[Content]:
    if each is not None:
        short = f"{each:,.0f} bytes"
        by_formula = facts is not None and facts.kv_by_formula
        how = "by the formula" if by_formula else "summed from the tensors"
        figure = kv_mark(facts)(size(each), "bold")
        return [_line("a token", width, figure, f"{short}, {how}", short)]
    if kv is None:
        return [_line("a token", width, nothing("nothing read yet"))]
    if kv.nbytes is None:
        return [_line("a token", width, muted("n/a"))]
    why = _note(facts) or "positions have left the window"
    return wrapped("a token", LABEL, width, f"n/a  {why}")


def _expected(facts: ModelFacts, each: float | None, width: int) -> list[Content]:
    expected = facts.kv_bytes_per_token_expected
    if expected is None:
        # Where there is no figure to compare with, the reason has been given already.
        note = _note(facts) or "the usual formula does not hold"
        return wrapped("  expected", LABEL, width, f"n/a  {note}") if each is not None else []
    figure = derived(size(expected))
    if each is not None and abs(each - expected) >= 0.5:
        figure += Content.styled(f"  ! {three(each / expected)}× measured", "$warning")
    product = formula(facts)
    if product is None:
        return [_line("  expected", width, figure)]
    numbers, words = product
    tight = numbers.replace(" × ", "×").replace(" bytes", " B").replace(" byte", " B")
    lines = [_line("  expected", width, figure, f"= {numbers}", f"= {tight}", tight)]
    if width >= LABEL + len(words) + 2:
        lines.append(_line("", width, muted(f"= {words}")))
    return lines


def _heads(facts: ModelFacts, width: int, eight_bits: float | None) -> list[Content]:
    """``eight_bits``: the bytes of a token where K and V are kept in 8 bits."""
    if not facts.kv_heads or not facts.query_heads:
        why = "the server does not tell" if facts.remote else "no attention heads"
        return [_line("heads", width, muted(f"n/a  {why}"))]
    group = facts.query_heads / facts.kv_heads
    heads = f"{count(facts.query_heads)} query, {count(facts.kv_heads)} K/V"
    shared = f"{group:g} queries share one" if group != 1 else "one each"
    layers = plural(facts.layers, "layer")
    lines = [
        labelled(
            "heads",
            LABEL,
            width,
            Content(f"{heads}: {shared}; {layers}"),
            Content(f"{heads}; {layers}"),
            Content(f"{facts.query_heads}q {facts.kv_heads}kv {facts.layers}L"),
        )
    ]
    expected = facts.kv_bytes_per_token_expected or eight_bits
    if expected is not None and group != 1:
        times = f"{group:.3g}× ƒ"
        whole = f"{facts.query_heads} K/V heads: {times}"
        figure = derived(size(expected * group))
        lines.append(_line("  ungrouped", width, figure, f"a token, with {whole}", whole, times))
    return lines


def _full(facts: ModelFacts, kv: KVState | None, each: float | None, width: int) -> Content:
    """Size of the cache at the end of the context."""
    if facts.context_length is None:
        return _line("at the end", width, nothing("context length not known"))
    if each is None and kv is None:
        each = facts.kv_bytes_per_token_expected
    if each is None:
        why = "no fixed growth" if kv is None or kv.nbytes else "as its size is not known"
        return _line("at the end", width, muted(f"n/a  {why}"))
    positions = f"{facts.context_length:,} positions"
    figure = derived(size(each * facts.context_length))
    return _line("at the end", width, figure, f"of the context: {positions}", positions)


def _pass(view: View, kv: KVState | None) -> list[Content]:
    """Positions read by the pass behind this state: cached + computed."""
    if kv is None:
        return [nothing("none yet")]
    if view.step is not None and view.step.timing.reused:
        # Nothing ran, so the cache is as the last pass left it, which may be another branch's.
        elsewhere = "; the cache is another branch's" if kv.seen != view.step.position else ""
        return [Content(f"none: the logits were kept{elsewhere}"), Content(f"none{elsewhere}")]
    sums = _sums(kv)
    moved = _moved(view, kv)
    if not moved:
        return sums
    gap = Content("; ")
    everything, first, short = gap.join(one for one, _ in moved), moved[0][0], moved[0][1]
    variants = [one + gap + everything for one in sums]
    return [*variants, *(one + gap + end for end in (first, short) for one in sums[1:]), sums[-1]]


def _sums(kv: KVState) -> list[Content]:
    """Positions that the pass found and read, long and short."""
    total = kv.cached + kv.computed
    parts = f"{count(kv.cached)} cached + {count(kv.computed)} computed"
    tight = f"{count(kv.cached)} + {count(kv.computed)} = {count(total)}"
    return [Content(f"{parts} = {plural(total, 'position')}"), Content(parts), Content(tight)]


def _moved(view: View, kv: KVState) -> list[tuple[Content, Content]]:
    """Work of the pass besides reading, long and short; the most telling first."""
    words = []
    if view.step is not None and view.step.timing.reread:
        why = "not all of it was there" if kv.computed > 1 else "for its logits"
        words.append((f"read again: {why}", "read again", "$warning"))
    if kv.evicted_blocks:
        gone = f"{plural(kv.evicted_blocks, 'block')} evicted"
        words.append((gone, gone, "$warning"))
    if kv.copied_blocks:
        copied = f"{plural(kv.copied_blocks, 'block')} copied"
        words.append((copied, copied, ""))
    return [
        (Content.styled(long, style), Content.styled(short, style)) for long, short, style in words
    ]


LENGTHS = (1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576)


def lengths(facts: ModelFacts | None, kv: KVState | None, width: int) -> list[Content]:
    """A table: the cache at some lengths up to the context's, against the weights."""
    each = per_token(facts, kv)
    if facts is None or facts.context_length is None or each is None:
        return []
    group = facts.query_heads / facts.kv_heads if facts.kv_heads else 1.0
    names = ("positions", "cache", "ungrouped", "of weights")
    lines = [
        heading("At other lengths ƒ", width),
        cut(Content("").join(right(muted(name), COLUMN) for name in names), width),
    ]
    for length in (*(n for n in LENGTHS if n < facts.context_length), facts.context_length):
        share = each * length / facts.weight_bytes if facts.weight_bytes else None
        texts = (f"{length:,}", size(each * length), size(each * length * group), percent(share))
        cells = [right(Content(text), COLUMN) for text in texts]
        note = "  the whole" if length == facts.context_length else ""
        lines.append(cut(Content.assemble(*cells, (note, MUTED)), width))
    return lines
