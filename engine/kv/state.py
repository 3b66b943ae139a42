"""The pool as a pane draws it: a frozen record of numpy arrays and plain values, no torch."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from engine.kv.blocks import Blocks
from engine.kv.branch import DROPPED, Branch
from engine.kv.pool import Pool


class BlockStatus(IntEnum):
    """What a block is to the pool; the highest of those that are true."""

    FREE = 0
    EVICTED = 1
    """Free, and its last content was thrown out for want of room."""
    CACHED = 2
    """Only branches that nobody holds refer to it: reusable, and the first to go."""
    HELD = 3
    CURRENT = 4
    """Part of the branch that is being looked at."""


@dataclass(frozen=True, eq=False)
class GroupState:
    """The blocks of one group of layers. The arrays end where no block was ever in use.

    ``filled`` counts the positions written, ``refs`` the branches that refer to the block.
    ``table`` maps the current branch's logical blocks to physical ones, -1 for one that fell out
    of the window.
    """

    window: int | None
    layers: tuple[int, ...]
    blocks: int
    block_bytes: int
    filled: NDArray[np.uint16]
    refs: NDArray[np.uint16]
    status: NDArray[np.uint8]
    table: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class PoolState:
    """All of the pool at one moment. Sizes are bytes, summed from the real tensors' shapes.

    ``reserved_bytes`` is the pool as a whole; in main memory only what was ever written is really
    taken from the machine. ``used_bytes`` counts blocks with at least one reference, each once;
    ``filled_bytes`` the positions written in them. ``branch_bytes`` is what the current branch
    refers to, shared or not, and ``wasted_bytes`` the part of that which its last block has not
    filled. ``full_context_bytes`` is what one contiguous reservation of the model's whole context
    would take, None where the context's length is not known.
    """

    block_size: int
    quantized: bool
    groups: tuple[GroupState, ...]
    branch: int | None
    length: int
    pieces: int
    branches: int
    held_branches: int
    reserved_bytes: int
    used_bytes: int
    filled_bytes: int
    branch_bytes: int
    wasted_bytes: int
    full_context_bytes: int | None
    forks: int
    copied_blocks: int
    evicted_branches: int
    evicted_blocks: int

    @property
    def position_bytes(self) -> int:
        """Bytes of one position in all layers."""
        return sum(group.block_bytes for group in self.groups) // self.block_size


def pool_state(
    pool: Pool,
    current: Branch | None,
    *,
    layers: tuple[tuple[int, ...], ...],
    block_bytes: tuple[int, ...],
    quantized: bool = False,
    context: int | None = None,
) -> PoolState:
    """The record of ``pool`` with ``current`` as the branch that is being looked at.

    ``layers[g]`` are the indices of group ``g``'s layers, ``block_bytes[g]`` what one block takes
    in all of them.
    """
    groups = tuple(
        _group_state(pool, number, current, layers[number], block_bytes[number])
        for number in range(len(pool.groups))
    )
    size, length = pool.block_size, 0 if current is None else len(current)
    spare = -length % size
    position = sum(block_bytes) // size
    return PoolState(
        block_size=size,
        quantized=quantized,
        groups=groups,
        branch=None if current is None else current.number,
        length=length,
        pieces=0 if current is None else len(pool.runs(current, 0, *_visible(pool, current))),
        branches=len(pool.branches),
        held_branches=sum(branch.held for branch in pool.branches.values()),
        reserved_bytes=sum(group.blocks * group.block_bytes for group in groups),
        used_bytes=sum(int((group.refs > 0).sum()) * group.block_bytes for group in groups),
        filled_bytes=sum(int(group.filled.sum()) * group.block_bytes // size for group in groups),
        branch_bytes=sum(int((group.table >= 0).sum()) * group.block_bytes for group in groups),
        wasted_bytes=spare * position,
        full_context_bytes=None if context is None else context * position,
        forks=pool.counters.forks,
        copied_blocks=pool.counters.copied_blocks,
        evicted_branches=pool.counters.evicted_branches,
        evicted_blocks=pool.counters.evicted_blocks,
    )


def _visible(pool: Pool, branch: Branch) -> tuple[int, int]:
    return pool.first_seen(0, len(branch)), len(branch)


def _group_state(
    pool: Pool, number: int, current: Branch | None, layers: tuple[int, ...], block_bytes: int
) -> GroupState:
    blocks: Blocks = pool.groups[number]
    shown = blocks.touched
    filled = np.zeros(shown, np.uint16)
    status = np.zeros(shown, np.uint8)
    status[[block for block in blocks.evicted if block < shown]] = BlockStatus.EVICTED
    for branch in pool.branches.values():
        table = np.array(branch.tables[number], np.int32)
        counts = np.full(len(table), pool.block_size, np.uint16)
        if len(table):
            counts[-1] = len(branch) - (len(table) - 1) * pool.block_size
        there = table != DROPPED
        table, counts = table[there], counts[there]
        own = BlockStatus.HELD if branch.held else BlockStatus.CACHED
        own = BlockStatus.CURRENT if branch is current else own
        filled[table] = np.maximum(filled[table], counts)
        status[table] = np.maximum(status[table], own)
    return GroupState(
        window=pool.windows[number],
        layers=layers,
        blocks=blocks.count,
        block_bytes=block_bytes,
        filled=filled,
        refs=np.array(blocks.refs[:shown], np.uint16),
        status=status,
        table=np.array([] if current is None else current.tables[number], np.int32),
    )
