"""Bytes of the pool: reserved, used, wasted, and those of other ways to keep K and V."""

from __future__ import annotations

from functools import lru_cache

from textual.content import Content

from engine.records.cache import PoolState
from engine.records.model import ModelFacts
from inspector.draw.numbers import (
    derived,
    heading,
    labelled,
    measured,
    muted,
    nothing,
    percent,
    plural,
    row,
    size,
    three,
)

LABEL = 12
_FLOAT16, _SCALE = 2, 2
"""Bytes of a number in float16, and of the scale that an 8-bit vector has."""


@lru_cache(maxsize=8)
def pool_figures(pool: PoolState, facts: ModelFacts | None, width: int) -> list[Content]:
    """Sizes are those of the record, which sums them from the real tensors."""
    blocks = sum(group.blocks for group in pool.groups)
    used = sum(int((group.refs > 0).sum()) for group in pool.groups)
    counted = f"{plural(used, 'block')}, each once"
    share = f"{percent(pool.used_bytes / pool.reserved_bytes)} ƒ" if pool.reserved_bytes else ""
    of_used = f"{percent(pool.filled_bytes / pool.used_bytes)} ƒ" if pool.used_bytes else ""
    whole = f"{plural(blocks, 'block')} of {plural(pool.block_size, 'position')}"

    def line(label: str, figure: Content, *notes: str) -> Content:
        return row(label, LABEL, width, figure, *(note for note in notes if note))

    lines = [
        heading("The pool", width),
        line("reserved", measured(size(pool.reserved_bytes), "bold"), whole),
        line("  used", measured(size(pool.used_bytes)), f"{share}: {counted}", counted, share),
        line("  filled", measured(size(pool.filled_bytes)), of_used and f"{of_used} of used"),
        _wasted(pool, width),
        _unpaged(pool, width),
    ]
    lines += _eight_bits(pool, facts, width)
    return [*lines, *_events(pool, width)]


def _wasted(pool: PoolState, width: int) -> Content:
    if pool.current is None or not pool.branch_bytes:
        return row("  wasted", LABEL, width, nothing("nothing read yet"))
    share = f"{percent(pool.wasted_bytes / pool.branch_bytes)} ƒ"
    notes = (
        f"{share} of the branch last read, in its last block",
        f"{share} of the branch, in its last block",
        f"{share}, in the last block",
        share,
    )
    return row("  wasted", LABEL, width, measured(size(pool.wasted_bytes)), *notes)


def _unpaged(pool: PoolState, width: int) -> Content:
    """Waste of a contiguous reservation of the whole context for the same branch."""
    if pool.full_context_bytes is None:
        return row("  unpaged", LABEL, width, nothing("context length not known"))
    if pool.current is None:
        return row("  unpaged", LABEL, width, nothing("nothing read yet"))
    waste = pool.full_context_bytes - pool.branch_bytes + pool.wasted_bytes
    notes = (
        "wasted, were the whole context reserved in one piece",
        "wasted, were the context reserved",
        "wasted without blocks",
    )
    return row("  unpaged", LABEL, width, derived(size(max(0, waste))), *notes)


def _eight_bits(pool: PoolState, facts: ModelFacts | None, width: int) -> list[Content]:
    """A token in 8 bits against float16, where the usual sum holds for it."""
    if not pool.quantized or facts is None:
        return []
    each = pool.position_bytes
    vectors = 2 * facts.layers * facts.kv_heads
    figure = measured(size(each))
    if each != vectors * (facts.head_dim + _SCALE):
        return [row("  8 bits", LABEL, width, figure, "a token, scales included", "a token")]
    half = vectors * facts.head_dim * _FLOAT16
    times = f"{three(each / half)}×"
    notes = (f"a token: {times} of float16's {size(half)} ƒ", f"{times} of float16 ƒ")
    return [row("  8 bits", LABEL, width, figure, *notes)]


def _events(pool: PoolState, width: int) -> list[Content]:
    held = sum(branch.held for branch in pool.branches)
    idle = len(pool.branches) - held
    cached = f"{held:,} held, {idle:,} cached"
    meaning = "  cached: nobody holds it, so it goes first" if idle else ""
    copied = plural(pool.copied_blocks, "block")
    gone = plural(pool.evicted_blocks, "block")
    branches = "branch" if pool.evicted_branches == 1 else "branches"
    nothing_yet = Content("nothing so far")
    long = f"{plural(pool.forks, 'fork')}, {copied} copied on writing"
    evicted = f"{gone} of {pool.evicted_branches:,} {branches}, to make room"
    return [
        labelled("branches", LABEL, width, Content(cached) + muted(meaning), Content(cached)),
        labelled("shared", LABEL, width, Content(long), Content(f"{copied} copied")),
        labelled(
            "evicted",
            LABEL,
            width,
            *(map(Content, (evicted, gone)) if pool.evicted_branches else [nothing_yet]),
        ),
    ]
