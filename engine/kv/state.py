"""The pool as a pane draws it: a frozen record of numpy arrays and plain values, no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
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
    """Part of the branch that the next pass goes on with."""


@dataclass(frozen=True, eq=False)
class GroupState:
    """The blocks of one group of layers. The arrays end where no block was ever in use.

    ``filled`` counts the positions written, ``refs`` the branches that refer to the block, and
    ``status`` is a ``BlockStatus``; ``window`` is how many positions these layers can see, None
    for all. Raises ValueError where the arrays do not fit each other.
    """

    window: int | None
    layers: tuple[int, ...]
    blocks: int
    block_bytes: int
    filled: NDArray[np.uint16]
    refs: NDArray[np.uint16]
    status: NDArray[np.uint8]

    def __post_init__(self) -> None:
        shapes = {self.filled.shape, self.refs.shape, self.status.shape}
        if len(shapes) != 1 or self.filled.ndim != 1 or self.filled.size > self.blocks:
            raise ValueError("the arrays of a group of blocks do not fit each other")
        if self.status.size and not 0 <= int(self.status.max()) <= max(BlockStatus):
            raise ValueError(f"there is no block status {int(self.status.max())}")


@dataclass(frozen=True, eq=False)
class BranchState:
    """One sequence in the pool: ``tables[g]`` maps its logical blocks to those of group ``g``.

    -1 stands for a block that fell out of a sliding window and was given back. ``node`` is the
    node of the run's tree that its last position belongs to, None for what the run does not know,
    such as an earlier prompt.
    """

    number: int
    length: int
    held: bool
    tables: tuple[NDArray[np.int32], ...]
    node: int | None = None


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
    branches: tuple[BranchState, ...]
    branch: int | None
    """The number of the current branch, which the next pass goes on with."""
    pieces: int
    """Runs of neighbouring blocks that the current branch lies in: one is read without a copy."""
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

    def __post_init__(self) -> None:
        if self.block_size < 1 or not self.groups:
            raise ValueError("a pool has groups of blocks, of at least one position each")
        for branch in self.branches:
            if len(branch.tables) != len(self.groups):
                raise ValueError(f"branch {branch.number} needs a table for every group")
            for table, group in zip(branch.tables, self.groups, strict=True):
                known = group.filled.size
                if table.ndim != 1 or (table.size and not -1 <= table.min() <= table.max() < known):
                    raise ValueError(f"the table of branch {branch.number} names unknown blocks")

    @property
    def current(self) -> BranchState | None:
        """The current branch."""
        return next((one for one in self.branches if one.number == self.branch), None)

    @property
    def position_bytes(self) -> int:
        """Bytes of one position in all layers."""
        return sum(group.block_bytes for group in self.groups) // self.block_size

    def at_nodes(self, nodes: Mapping[int, int]) -> PoolState:
        """The same with each branch's node, by the branch's number."""
        known = (replace(one, node=nodes.get(one.number)) for one in self.branches)
        return replace(self, branches=tuple(known))


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
