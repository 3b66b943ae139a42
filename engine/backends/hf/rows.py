"""Passes over several sequences, each at a position of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from engine.backends.base import (
    BackendError,
    ForwardPass,
    Row,
    RowLogits,
    TokenSequence,
    checked_rows,
    own_list,
    whole,
)
from engine.backends.hf.pool import branch_of
from engine.backends.hf.probe import alike
from engine.backends.hf.reader import Reader
from engine.backends.hf.results import check_finite, explained, in_main_memory
from engine.backends.hf.upcast import ROWS
from engine.kv import attention
from engine.kv.branch import Branch, OutOfBlocks
from engine.kv.cache import PooledCache
from engine.kv.rows import reading_rows
from engine.kv.rows_step import can_step, stepping_rows
from engine.records.cache import KVRead
from engine.timing import now_ms

NOT_TIMED = "layers are not timed in a pass over several rows"
_TRIAL = 4
"""Positions of the text that tries out whether rows can share a pass."""


def read_rows(reader: Reader, rows: Sequence[Row], *, all_positions: bool) -> ForwardPass:
    """Read each row's ids behind its sequence; see ``Backend.forward``. Raises BackendError."""
    checked_rows(rows)
    if len(rows) == 1:
        return _extend(reader, *rows[0], all_positions)
    for sequence, ids in rows:
        reader.check(ids, len(sequence))
    pool = reader.pool
    if pool is None:
        return _one_by_one(reader, rows, all_positions)
    branches = [(branch_of(pool, sequence), ids) for sequence, ids in rows]
    with _held(pool, [branch for branch, _ in branches]):
        if _shares_passes(reader, pool, branches[0]):
            return _side_by_side(reader, pool, branches, all_positions)
        return _one_by_one(reader, rows, all_positions)


def fork(reader: Reader, sequence: TokenSequence, *, pinned: bool) -> TokenSequence:
    """A second sequence with what ``sequence`` holds; in a pool it copies nothing."""
    if reader.pool is None:
        return list(own_list(sequence))
    branch = branch_of(reader.pool, sequence)
    twin = reader.pool.pool.fork(branch, len(branch))
    twin.pinned = pinned
    return twin


# --- one after the other ------------------------------------------------------------------------


def _extend(
    reader: Reader, sequence: TokenSequence, ids: Sequence[int], all_positions: bool
) -> ForwardPass:
    """Read ``ids`` behind ``sequence``, which holds them afterwards.

    Where K and V depend on the text's length, a longer text goes on in a branch of its own, which
    is the reader's ``sequence`` then.
    """
    again = reader.go_to(sequence)
    found = reader.prefill([*again, *ids], profile=False, all_positions=all_positions)
    if isinstance(sequence, list) and sequence is not reader.sequence:
        reader.adopt(sequence, ids)
    if not (again and all_positions):
        return found
    own = (RowLogits(whole(row.values)[len(again) :]) for row in found.rows)
    return replace(found, rows=tuple(own))


def _one_by_one(reader: Reader, rows: Sequence[Row], all_positions: bool) -> ForwardPass:
    """A pass for each row; where one fails, those before it are taken back."""
    lengths = [len(sequence) for sequence, _ in rows]
    found: list[ForwardPass] = []
    try:
        for sequence, ids in rows:
            found.append(_extend(reader, sequence, ids, all_positions))
    except BaseException:
        for (sequence, _), length in list(zip(rows, lengths, strict=True))[: len(found)]:
            _take_back(reader, sequence, length)
        raise
    return ForwardPass(
        rows=tuple(row for one in found for row in one.rows),
        ms=sum(one.ms for one in found),
        warmup=any(one.warmup for one in found),
        layers_note=NOT_TIMED,
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


# --- side by side -------------------------------------------------------------------------------


def _side_by_side(
    reader: Reader,
    pool: PooledCache,
    rows: Sequence[tuple[Branch, Sequence[int]]],
    all_positions: bool,
) -> ForwardPass:
    """One pass for all rows, padded on the right; each branch holds its ids afterwards."""
    parts, counts = reader.parts, [len(ids) for _, ids in rows]
    size = len(rows) * max(counts)
    warmup = reader.is_first_of((f"{len(rows)} rows", max(counts).bit_length()))
    before = reader.blocks_moved()
    parts.synchronize()
    started = now_ms()
    try:
        with torch.inference_mode():
            found, read = _run(reader, pool, rows, all_positions)
            ms = now_ms() - started
    except Exception as error:
        raise explained(error, size) from error
    pool.switch(rows[-1][0])
    moved = zip(reader.blocks_moved(), before, strict=True)
    copied, evicted = (now - then for now, then in moved)
    return ForwardPass(
        tuple(found),
        ms,
        warmup,
        layers_note=NOT_TIMED,
        copied_blocks=copied,
        evicted_blocks=evicted,
        kv_read=read,
    )


def _run(
    reader: Reader,
    pool: PooledCache,
    rows: Sequence[tuple[Branch, Sequence[int]]],
    all_positions: bool,
) -> tuple[list[RowLogits], KVRead]:
    """The pass itself: logits of each row, none of which keeps the others in memory."""
    parts, counts = reader.parts, [len(ids) for _, ids in rows]
    if max(counts) == 1 and not all_positions and parts.fused is not None and can_step(pool):
        with stepping_rows(pool, rows) as step:
            ids = torch.tensor([ids[0] for _, ids in rows], device=parts.device)
            logits = parts.fused.rows(ids, step)
            return [_checked(row, parts.dtype) for row in logits], step.read
    with reading_rows(pool, rows) as cache:
        given = torch.zeros((len(rows), max(counts)), dtype=torch.long)
        for row, (_, ids) in enumerate(rows):
            given[row, : len(ids)] = torch.tensor(ids)
        wanted = range(max(counts)) if all_positions else sorted({one - 1 for one in counts})
        more: dict[str, Any] = {"position_ids": cache.positions, str(reader.argument): cache}
        if parts.last_only:
            more["logits_to_keep"] = torch.tensor(wanted, device=parts.device)
        upcast = given.numel() >= ROWS and parts.widened
        with upcast or contextlib.nullcontext():
            output = parts.model(given.to(parts.device), **reader.keywords, **more)
        kept = output.logits if parts.last_only else output.logits[:, list(wanted)]
        found = []
        for row, count in enumerate(counts):
            own = kept[row, :count] if all_positions else kept[row, wanted.index(count - 1)]
            found.append(_checked(own, parts.dtype))
        return found, cache.read


def _checked(logits: torch.Tensor, dtype: str) -> RowLogits:
    """A row's own logits. Raises BackendError where they are not finite."""
    # Cloned, or one row would keep all the others in memory.
    row = in_main_memory(logits.clone())
    check_finite(row, dtype)
    return row


@contextlib.contextmanager
def _held(pool: PooledCache, branches: Sequence[Branch]) -> Iterator[None]:
    """Keep every row's branch from eviction for the pass; afterwards as before."""
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


def _shares_passes(reader: Reader, pool: PooledCache, row: tuple[Branch, Sequence[int]]) -> bool:
    """True if this model can read several rows in one pass; tried out the first time."""
    parts = reader.parts
    if (
        parts.rope is not None  # K and V of each row depend on its own length
        or not parts.takes_positions
        or pool.layout.shared
        or parts.model.config._attn_implementation != attention.NAME
    ):
        return False
    if reader.shares_passes is None:
        branch, ids = row
        text = ([*branch.ids[:_TRIAL], *ids] * _TRIAL)[:_TRIAL]
        reader.shares_passes = _agree(reader, pool, text)
    return bool(reader.shares_passes)


def _agree(reader: Reader, pool: PooledCache, text: Sequence[int]) -> bool | None:
    """True if two beginnings of ``text``, taken to its end in one pass, give what it gives alone.

    None where there is no room to find out. Leaves no trace but warmth.
    """
    before, opened = pool.current, [pool.pool.open() for _ in range(3)]
    rows = list(zip(opened, (text[:-1], text[:1], text), strict=True))
    with _held(pool, [before, *opened]):
        try:
            alone = [_extend(reader, branch, ids, False).logits for branch, ids in rows][-1]
            rest = [(opened[0], text[-1:]), (opened[1], text[1:])]
            found = _side_by_side(reader, pool, rest, False)
            return all(alike(reader, alone, whole(row.values)) for row in found.rows)
        except BackendError as error:
            return None if isinstance(error.__cause__, OutOfBlocks) else False
        finally:
            pool.switch(before)
            for branch in opened:
                pool.discard(branch)
