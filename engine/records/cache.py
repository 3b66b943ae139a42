"""The KV cache as records: a pass's use of it, the pool of blocks, what of a prompt was found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

BLOCK_SIZE = 16
"""Positions of a block unless something else is asked for."""


DROPPED = -1
"""A table's entry for a block that fell out of a sliding window and was given back."""
LARGEST_BLOCK = 1024
"""More positions than that in a block cannot be asked for."""


@dataclass(frozen=True, slots=True)
class KVRead:
    """Bytes of K and V that a pass over several rows read; ``shared`` of them once for all rows."""

    nbytes: int
    shared: int


@dataclass(frozen=True, slots=True)
class KVState:
    """The KV cache after a pass, summed from the real tensors, or of ``ModelFacts.kv_bytes``.

    ``stored`` counts positions held (per layer the largest), ``seen`` the positions the model has
    read; they differ in sliding-window layers. ``nbytes`` is None where there is no such cache.
    ``computed`` is how many positions this pass really read; ``cached`` how many it found there.
    """

    seen: int
    stored: int
    nbytes: int | None
    computed: int
    cached: int
    block_size: int = BLOCK_SIZE
    copied_blocks: int = 0
    """Blocks that the pass copied because it wrote into one that another branch shared."""
    evicted_blocks: int = 0
    """Blocks of other branches that were thrown out to make room for the pass."""


class BlockStatus(IntEnum):
    """State of a block in the pool; the highest of those that are true."""

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
        return next((one for one in self.branches if one.number == self.branch), None)

    @property
    def position_bytes(self) -> int:
        """Bytes of one position in all layers."""
        return sum(group.block_bytes for group in self.groups) // self.block_size

    def at_nodes(self, nodes: Mapping[int, int]) -> PoolState:
        """The same with each branch's node, by the branch's number."""
        known = (replace(one, node=nodes.get(one.number)) for one in self.branches)
        return replace(self, branches=tuple(known))


@dataclass(frozen=True, slots=True)
class PrefixReport:
    """Prefix match of a prompt in the pool. ``cached + computed == prompt``, always.

    ``common`` counts the leading tokens shared with the nearest thing read before;
    ``differs_at`` is the first position where the two part, with both token ids there, or None
    where one of them simply ends. ``evicted_blocks`` were read before and thrown out for room.
    ``moved_last`` is what ``cached`` would be if the part that differs stood behind what both
    have in common; it is an estimate, for other neighbours may make other tokens.
    """

    prompt: int
    cached: int
    computed: int
    block_size: int
    hit_blocks: int
    common: int
    differs_at: int | None
    ours: int | None
    theirs: int | None
    evicted_blocks: int
    moved_last: int
    reason: str
