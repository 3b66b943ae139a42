"""What the KV cache holds and costs: measured, expected, and what it could have been."""

from __future__ import annotations

from textual.content import Content

from engine.records import KVState, ModelFacts
from engine.text import visible
from inspector.panes.figures import (
    MUTED,
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
)
from inspector.view import View

LABEL = 12
COLUMN = 11


def per_token(kv: KVState | None) -> float | None:
    """Bytes a position, from the real tensors."""
    if kv is None or kv.nbytes is None or kv.stored <= 0:
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


def figures(view: View, kv: KVState | None, width: int) -> list[Content]:
    """What the cache holds and costs, most important first."""
    facts = view.facts
    lines = [_now(facts, kv, width), _measured(facts, kv, width)]
    if facts is not None:
        lines += _expected(facts, kv, width)
        lines += _heads(facts, width)
    lines.append(labelled("this pass", LABEL, width, *_pass(view, kv)))
    if facts is not None:
        lines.append(_full(facts, kv, width))
    return lines


def _why(facts: ModelFacts | None, kv: KVState | None) -> str:
    """Why there is no size."""
    if kv is None:
        return "nothing read yet"
    if facts is not None and facts.kv_note:
        return visible(facts.kv_note)
    return "this cache does not tell its size" if kv.nbytes is None else "no position stored"


def _line(label: str, width: int, figure: Content, *notes: str) -> Content:
    return row(label, LABEL, width, figure, *notes)


def _now(facts: ModelFacts | None, kv: KVState | None, width: int) -> Content:
    if kv is None or kv.nbytes is None:
        return _line("cache now", width, nothing(_why(facts, kv)))
    if kv.stored != kv.seen:
        notes = [f"{kv.stored:,} stored of {kv.seen:,} seen", f"{kv.stored:,} of {kv.seen:,}"]
    else:
        notes = [f"{plural(kv.stored, 'position')} stored, all seen", plural(kv.stored, "position")]
    return _line("cache now", width, measured(size(kv.nbytes), "bold"), *notes)


def _measured(facts: ModelFacts | None, kv: KVState | None, width: int) -> Content:
    each = per_token(kv)
    if each is None:
        return _line("a token", width, nothing(_why(facts, kv)))
    short = f"{each:,.0f} bytes"
    return _line(
        "a token", width, measured(size(each), "bold"), f"{short}, summed from the tensors", short
    )


def _expected(facts: ModelFacts, kv: KVState | None, width: int) -> list[Content]:
    expected = facts.kv_bytes_per_token_expected
    if expected is None:
        why = visible(facts.kv_note) or f"no formula for a cache of kind {facts.cache_kind}"
        return [_line("  expected", width, muted(f"n/a  {why}"))]
    figure = derived(size(expected))
    each = per_token(kv)
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


def _heads(facts: ModelFacts, width: int) -> list[Content]:
    if not facts.kv_heads or not facts.query_heads:
        why = visible(facts.kv_note) or "no attention heads"
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
    expected = facts.kv_bytes_per_token_expected
    if expected is not None and group != 1:
        times = f"{group:.3g}×"
        whole = f"{facts.query_heads} K/V heads: {times}"
        figure = derived(size(expected * group))
        lines.append(_line("  ungrouped", width, figure, f"a token, with {whole}", whole, times))
    return lines


def _full(facts: ModelFacts, kv: KVState | None, width: int) -> Content:
    """What the cache would hold at the end of the context."""
    if facts.context_length is None:
        return _line("at the end", width, nothing("context length not known"))
    each = per_token(kv) or facts.kv_bytes_per_token_expected
    if each is None or (kv is not None and kv.stored < kv.seen):
        why = "it no longer grows with each token" if each is not None else _why(facts, kv)
        return _line("at the end", width, nothing(why))
    positions = f"{facts.context_length:,} positions"
    figure = derived(size(each * facts.context_length))
    return _line("at the end", width, figure, f"of the context: {positions}", positions)


def _pass(view: View, kv: KVState | None) -> list[Content]:
    """What the pass behind this state read: cached + computed."""
    if kv is None:
        return [nothing("none yet")]
    if view.step is not None and view.step.timing.reused:
        # Nothing ran, so the cache is as the last pass left it, which may be another branch's.
        elsewhere = "; the cache is another branch's" if kv.seen != view.step.position else ""
        return [Content(f"none: the logits were kept{elsewhere}"), Content(f"none{elsewhere}")]
    parts = f"{count(kv.cached)} cached + {count(kv.computed)} computed"
    total = kv.cached + kv.computed
    return [Content(f"{parts} = {plural(total, 'position')}"), Content(parts)]


LENGTHS = (1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576)


def lengths(facts: ModelFacts | None, kv: KVState | None, width: int) -> list[Content]:
    """A table: the cache at some lengths up to the context's, against the weights."""
    if facts is None or facts.context_length is None or (kv is not None and kv.stored < kv.seen):
        return []
    each = per_token(kv) or facts.kv_bytes_per_token_expected
    if each is None:
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
