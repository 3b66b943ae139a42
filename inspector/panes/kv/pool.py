"""Blocks of the pool seen from the cursor, ready to be drawn; checks of impossible records.

A record may come from a file that nobody vouches for: what contradicts itself is not drawn at all,
rather than drawn wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from engine.records.cache import BlockStatus, GroupState, PoolState
from engine.run.step_tree import StepTree
from inspector.draw.numbers import plural
from inspector.panes.kv.branch import CursorBranch, TextTree, cursor_branch
from inspector.state.view import RunLog, View

_MOST_BYTES = 1 << 62
_MOST_THINGS = 1 << 31


class Kind(IntEnum):
    """Kind of block, as it is drawn."""

    FREE = 0
    EVICTED = 1
    CACHED = 2
    HELD = 3
    OURS = 4
    """Part of what the cursor's token was drawn from."""


@dataclass(frozen=True, eq=False)
class GroupLook:
    """The blocks of one group of layers. Arrays are as long as the group's own."""

    number: int
    group: GroupState
    size: int
    kind: NDArray[np.uint8]
    ours: NDArray[np.uint32]
    """Positions of each block that the cursor's token was drawn from."""

    @property
    def used(self) -> int:
        """Blocks that some branch refers to."""
        return int((self.group.refs > 0).sum())

    @property
    def untouched(self) -> int:
        """Blocks that were never in use."""
        return self.group.blocks - len(self.kind)


def looks(pool: PoolState, cursor: CursorBranch) -> tuple[GroupLook, ...]:
    """Every group of the pool as the cursor's branch sees it."""
    return tuple(_look(pool, number, cursor) for number in range(len(pool.groups)))


def _look(pool: PoolState, number: int, cursor: CursorBranch) -> GroupLook:
    group, size = pool.groups[number], pool.block_size
    # What the engine goes on with may be another branch than the one looked at.
    kind = np.minimum(group.status, BlockStatus.HELD).astype(np.uint8)
    ours = np.zeros(len(kind), np.uint32)
    table = cursor.table(number, size)
    counts = np.minimum(size, cursor.covered - np.arange(len(table)) * size)
    there = table >= 0
    kind[table[there]] = Kind.OURS
    ours[table[there]] = counts[there]
    return GroupLook(number, group, size, kind, ours)


def group_name(pool: PoolState, number: int) -> str:
    """The name of a group of layers among the others; "" where there is only one."""
    group = pool.groups[number]
    if len(pool.groups) == 1 and group.window is None:
        return ""
    window = "all positions" if group.window is None else f"window {group.window:,}"
    return f"{window}, {plural(len(group.layers), 'layer')}"


def span(first: int, count: int) -> str:
    """``4`` or ``4–7``: so many numbers from ``first`` on."""
    return f"{first:,}" if count == 1 else f"{first:,}–{first + count - 1:,}"


def layer_ranges(layers: tuple[int, ...]) -> str:
    """``0–4, 6–10``."""
    parts: list[list[int]] = []
    for layer in sorted(layers):
        if parts and parts[-1][1] + 1 == layer:
            parts[-1][1] = layer
        else:
            parts.append([layer, layer])
    return ", ".join(span(first, last - first + 1) for first, last in parts)


@dataclass(frozen=True, eq=False)
class PoolLook:
    """The pool as the cursor sees it."""

    pool: PoolState
    cursor: CursorBranch
    groups: tuple[GroupLook, ...]


def pool_look(view: View) -> PoolLook | str:
    """The pool as the cursor sees it; or why it is not drawn, "" where there is none."""
    return _pool_look(view.log, view.cursor, view.pool, view.prompt, view.prefill)


@lru_cache(maxsize=2)
def _pool_look(log: RunLog, cursor: int, pool: PoolState | None, *_: object) -> PoolLook | str:
    """Remembered for as long as the records are the same that it is made of."""
    if pool is None:
        return ""
    if found := contradiction(pool):
        return found
    seen = cursor_branch(View(log, cursor), pool, _texts(log.tree))
    return PoolLook(pool, seen, looks(pool, seen))


@lru_cache(maxsize=2)
def _texts(tree: StepTree) -> TextTree:
    return TextTree(tree)


# --- records that cannot be drawn -----------------------------------------------------------


def contradiction(pool: PoolState) -> str:
    """The reason for which a record cannot be true; "" for one that can."""
    return next(_contradictions(pool), "")


def _contradictions(pool: PoolState) -> Iterator[str]:
    sizes = (
        pool.reserved_bytes,
        pool.used_bytes,
        pool.filled_bytes,
        pool.branch_bytes,
        pool.wasted_bytes,
        pool.full_context_bytes or 0,
    )
    counts = (
        pool.pieces,
        pool.forks,
        pool.copied_blocks,
        pool.evicted_branches,
        pool.evicted_blocks,
        *(branch.length for branch in pool.branches),
        *(group.blocks for group in pool.groups),
        *(layer for group in pool.groups for layer in group.layers),
        *(group.window or 0 for group in pool.groups),
    )
    if not all(0 <= one < _MOST_BYTES for one in sizes):
        yield "its sizes are impossible"
    if not (all(0 <= one < _MOST_THINGS for one in counts) and pool.block_size < _MOST_THINGS):
        yield "its counts are impossible"
        return
    if not pool.filled_bytes <= pool.used_bytes <= pool.reserved_bytes:
        yield "it holds more than it has room for"
    for group in pool.groups:
        if not 0 <= group.block_bytes < _MOST_BYTES:
            yield "its sizes are impossible"
        if any(array.dtype.kind not in "iu" for array in (group.filled, group.refs, group.status)):
            yield "its blocks are not counted in whole numbers"
        elif group.filled.size and not 0 <= group.filled.min() <= group.filled.max() <= (
            pool.block_size
        ):
            yield "a block holds more positions than it has"
        elif group.refs.size and group.refs.min() < 0:
            yield "its counts are impossible"
    for branch in pool.branches:
        blocks = -(-branch.length // pool.block_size)
        if any(len(table) != blocks for table in branch.tables):
            yield "a branch's table is not as long as the branch"
        if any(table.dtype.kind not in "iu" for table in branch.tables):
            yield "its tables are not whole numbers"
