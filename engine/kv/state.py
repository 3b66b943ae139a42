"""The pool as a pane draws it: a frozen record of numpy arrays and plain values, no torch."""

from __future__ import annotations

import numpy as np

from engine.kv.blocks import Blocks
from engine.kv.branch import Branch
from engine.kv.pool import Pool
from engine.records.cache import DROPPED, BlockStatus, BranchState, GroupState, PoolState


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
    size = pool.block_size
    spare = 0 if current is None else -len(current) % size
    position = sum(block_bytes) // size
    own = [] if current is None else zip(groups, current.tables, strict=True)
    held = sum(sum(block != DROPPED for block in table) * group.block_bytes for group, table in own)
    return PoolState(
        block_size=size,
        quantized=quantized,
        groups=groups,
        branches=tuple(_branch_state(branch) for branch in pool.branches.values()),
        branch=None if current is None else current.number,
        pieces=0 if current is None else len(pool.runs(current, 0, *_visible(pool, current))),
        reserved_bytes=sum(group.blocks * group.block_bytes for group in groups),
        used_bytes=sum(int((group.refs > 0).sum()) * group.block_bytes for group in groups),
        filled_bytes=sum(int(group.filled.sum()) * group.block_bytes // size for group in groups),
        branch_bytes=held,
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
    )


def _branch_state(branch: Branch) -> BranchState:
    tables = tuple(np.array(table, np.int32) for table in branch.tables)
    return BranchState(branch.number, len(branch), branch.held, tables)
