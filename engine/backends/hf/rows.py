"""Passes over several sequences, each at a position of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from engine.backends.base import (
    BackendError,
    ForwardPass,
    Row,
    TokenSequence,
    checked_rows,
    own_list,
)
from engine.backends.hf.reader import Reader
from engine.kv.branch import Branch
from engine.kv.cache import PooledCache


def read_rows(reader: Reader, rows: Sequence[Row], *, all_positions: bool) -> ForwardPass:
    """Read each row's ids behind its sequence; see ``Backend.forward``. Raises BackendError."""
    checked_rows(rows)
    if len(rows) == 1:
        return reader.extend(*rows[0], all_positions=all_positions)
    for sequence, ids in rows:
        reader.check(ids, len(sequence))
    if reader.pool is None:
        return _one_by_one(reader, rows, all_positions)
    with _held(reader.pool, [sequence for sequence, _ in rows]):
        return _one_by_one(reader, rows, all_positions)


def _one_by_one(reader: Reader, rows: Sequence[Row], all_positions: bool) -> ForwardPass:
    """A pass for each row; where one fails, those before it are taken back."""
    lengths = [len(sequence) for sequence, _ in rows]
    found: list[ForwardPass] = []
    try:
        for sequence, ids in rows:
            found.append(reader.extend(sequence, ids, all_positions=all_positions))
    except BaseException:
        for (sequence, _), length in list(zip(rows, lengths, strict=True))[: len(found)]:
            _take_back(reader, sequence, length)
        raise
    return ForwardPass(
        rows=tuple(row for one in found for row in one.rows),
        ms=sum(one.ms for one in found),
        warmup=any(one.warmup for one in found),
        layers_note="several rows: layers are not timed",
        copied_blocks=sum(one.copied_blocks for one in found),
        evicted_blocks=sum(one.evicted_blocks for one in found),
        passes=sum(one.passes for one in found),
    )


def _take_back(reader: Reader, sequence: TokenSequence, length: int) -> None:
    if isinstance(sequence, list):
        # What the cache holds of it is found out again by the next ``seek``.
        if sequence is reader.sequence:
            reader.forget()
        del sequence[length:]
    elif reader.pool is not None and reader.pool.pool.readable(sequence, length):
        reader.pool.pool.truncate(sequence, length)


@contextmanager
def _held(pool: PooledCache, sequences: Sequence[TokenSequence]) -> Iterator[None]:
    """Keep every row's branch from eviction for the pass; afterwards as before."""
    branches = [one for one in sequences if isinstance(one, Branch)]
    free = [one for one in branches if not one.pinned]
    for branch in free:
        pool.pool.hold(branch)
        branch.pinned = True
    try:
        yield
    finally:
        for branch in free:
            branch.pinned = False
            if branch is not pool.current and branch.number in pool.pool.branches:
                pool.pool.release(branch)


def fork(reader: Reader, sequence: TokenSequence) -> TokenSequence:
    """A second sequence with what ``sequence`` holds; in a pool it copies nothing."""
    if reader.pool is None:
        return list(own_list(sequence))
    if not isinstance(sequence, Branch) or sequence.number not in reader.pool.pool.branches:
        raise BackendError("that sequence is no longer held: seek to its text again")
    twin = reader.pool.pool.fork(sequence, len(sequence))
    twin.pinned = True
    return twin
