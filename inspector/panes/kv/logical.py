"""The grid without a pool: positions read so far, counted off in blocks from the first.

Where the blocks come from is ``logical_blocks`` alone; the drawing does not know.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from engine.records.cache import KVState
from inspector.draw.blocks import Block, grid, key
from inspector.draw.numbers import cut, fit, heading, muted
from inspector.state.view import View

MAP_FROM = 14


def state(view: View) -> KVState | None:
    """The cache after the pass that the cursor's token was drawn from."""
    if view.step is not None:
        return view.step.kv
    return view.prefill.kv if view.prefill is not None else None


def logical_blocks(kv: KVState, prompt_tokens: int) -> list[Block]:
    """The positions read so far, counted off in blocks of ``kv.block_size``.

    Positions that are no longer stored are the oldest ones.
    """
    lost = max(0, kv.seen - kv.stored)
    blocks = []
    for start in range(0, kv.seen, kv.block_size):
        end = min(start + kv.block_size, kv.seen)
        gone = max(start, min(lost, end))
        prompt = max(gone, min(prompt_tokens, end))
        blocks.append(
            Block(kv.block_size, gone - start, prompt - gone, end - prompt, end == kv.seen)
        )
    return blocks


def free_blocks(kv: KVState, context: int | None) -> int:
    """Number of blocks that the model's context still has room for; 0 when it is not known."""
    if context is None:
        return 0
    return max(0, -(-context // kv.block_size) - -(-kv.seen // kv.block_size))


def logical_picture(view: View, width: int, height: int) -> list[Content]:
    """The blocks, in at most ``height`` lines (three at least)."""
    kv, facts = state(view), view.facts
    if kv is None:
        return [heading("Logical blocks", width), cut(muted("none: nothing read yet"), width)]
    if kv.stored == 0 < kv.seen:
        kept = facts is None or facts.keeps_cache
        why = "it keeps no positions" if kept else "no cache: each pass reads all of it again"
        return [heading("Logical blocks", width), cut(muted(f"n/a  {why}"), width)]
    blocks = logical_blocks(kv, view.prompt_length)
    free = free_blocks(kv, facts.context_length if facts is not None else None)
    lines = [heading(_title(kv, blocks, free, width), width)]
    foot = [key(width, lost=kv.stored < kv.seen)] if height >= 4 else []
    rows = max(1, height - 1 - len(foot))
    if rows < MAP_FROM or not free:
        return [*lines, *grid(blocks, free, width, rows), *foot]
    # With so much room the newest blocks by position, and all that there can be, a cell each.
    near = grid(blocks, free, width, rows // 2, spare=1)
    rest = rows - len(near) - 2
    whole = grid(blocks, free, width, rest, whole=True)
    title = f"The whole context: {len(blocks) + free:,} blocks"
    return [*lines, *near, *foot, Content(""), heading(title, width), *whole]


def _title(kv: KVState, blocks: Sequence[Block], free: int, width: int) -> str:
    last = f"newest {blocks[-1].size - blocks[-1].free}/{kv.block_size}" if blocks else "empty"
    of = f" of {len(blocks) + free:,}" if free else ""
    return fit(
        width - 2,
        Content(f"Logical blocks of {kv.block_size}: {len(blocks):,}{of} in use, {last} filled"),
        Content(f"Logical blocks: {len(blocks):,}{of}, {last}"),
        Content(f"Logical blocks: {len(blocks):,}{of}"),
        Content("Blocks"),
    ).plain
