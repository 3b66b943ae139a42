"""Size of the pool: a budget in bytes, and how the groups of layers share it."""

from __future__ import annotations

from collections.abc import Sequence

_CONTEXTS = 4
"""Full contexts that the pool holds if memory allows: branches share most of theirs."""
_SHARE = 4
"""At most one part in so many of the memory that is free."""
_UNKNOWN_CONTEXT = 8192
_WINDOWED_BRANCHES = 16
"""Branches that a group which gives back what left its window has room for."""


def default_budget(position_bytes: int, context: int | None, available: int | None) -> int:
    """Bytes to reserve for K and V, from ``position_bytes`` a position and the free memory.

    In main memory a reservation costs nothing until it is written.
    """
    wanted = position_bytes * (context or _UNKNOWN_CONTEXT) * _CONTEXTS
    return wanted if available is None else min(wanted, available // _SHARE)


def blocks_within(
    budget: int,
    block_bytes: Sequence[int],
    windows: Sequence[int | None],
    *,
    block_size: int,
    window_keep: int | None,
) -> tuple[int, ...]:
    """Number of blocks for each group of layers; all get as many as they can use.

    Raises ValueError when the budget holds no block.
    """
    each = budget // sum(block_bytes)
    if each < 1:
        raise ValueError(
            f"a KV budget of {budget:,} bytes holds no block of {block_size} positions "
            f"({sum(block_bytes):,} bytes): raise it"
        )
    counts = [each] * len(windows)
    if window_keep is None or None not in windows:
        return tuple(counts)
    # What the windowed groups cannot use goes to those that see everything.
    for number, window in enumerate(windows):
        if window is not None:
            branch = -(-(window + window_keep) // block_size) + 2
            counts[number] = min(each, branch * _WINDOWED_BRANCHES)
    taken = sum(
        count * size
        for count, size, window in zip(counts, block_bytes, windows, strict=True)
        if window is not None
    )
    full = windows.index(None)
    counts[full] = (budget - taken) // block_bytes[full]
    return tuple(counts)
