"""Pools made by hand, with the blocks of the default model: 46,080 bytes a position."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from textual.content import Content

from engine.records.cache import BlockStatus, BranchState, GroupState, PoolState
from engine.records.step import StepRecord
from engine.records.vocabulary import Token
from inspector.panes.kv.branch import Place
from inspector.panes.kv.layout import kv_rows
from inspector.panes.kv.pool import PoolLook, pool_look
from inspector.state.view import View
from tests.fakes import SMOLLM2, chunk, kv, prefill, prompt, step, timing, view

EACH = 46_080
FREE, EVICTED, CACHED, HELD, CURRENT = BlockStatus


def branch(
    number: int,
    length: int,
    *tables: Sequence[int],
    node: int | None = None,
    held: bool = False,
) -> BranchState:
    """A branch; one that nobody holds unless it is said."""
    return BranchState(
        number, length, held, tuple(np.array(table, np.int32) for table in tables), node
    )


def pool(
    *branches: BranchState,
    current: int | None = None,
    size: int = 16,
    blocks: int = 2048,
    evicted: Iterable[int] = (),
    windows: Sequence[int | None] = (None,),
    layers: Sequence[Sequence[int]] = (tuple(range(30)),),
    **changes: Any,
) -> PoolState:
    """The record of a pool with these branches, its arrays counted from their tables."""
    groups = []
    for number, window in enumerate(windows):
        used = [int(one.tables[number].max(initial=-1)) for one in branches]
        touched = max([*used, *evicted, -1]) + 1
        filled, refs = np.zeros(touched, np.uint16), np.zeros(touched, np.uint16)
        status = np.zeros(touched, np.uint8)
        status[list(evicted)] = EVICTED
        for one in branches:
            own = CURRENT if one.number == current else HELD if one.held else CACHED
            for at, block in enumerate(one.tables[number].tolist()):
                if block < 0:
                    continue
                filled[block] = max(filled[block], min(size, one.length - at * size))
                refs[block] += 1
                status[block] = max(status[block], own)
        share = EACH * size * len(layers[number]) // 30
        groups.append(
            GroupState(window, tuple(layers[number]), blocks, share, filled, refs, status)
        )
    mine = next((one for one in branches if one.number == current), None)
    held = (
        0
        if mine is None
        else sum(
            int((table >= 0).sum()) * group.block_bytes
            for table, group in zip(mine.tables, groups, strict=True)
        )
    )
    known: dict[str, Any] = {
        "block_size": size,
        "quantized": False,
        "groups": tuple(groups),
        "branches": branches,
        "branch": current,
        "pieces": 1,
        "reserved_bytes": sum(group.blocks * group.block_bytes for group in groups),
        "used_bytes": sum(int((g.refs > 0).sum()) * g.block_bytes for g in groups),
        "filled_bytes": sum(int(g.filled.sum()) * g.block_bytes // size for g in groups),
        "branch_bytes": held,
        "wasted_bytes": 0 if mine is None else -mine.length % size * EACH,
        "full_context_bytes": 8192 * EACH,
        "forks": 0,
        "copied_blocks": 0,
        "evicted_branches": 0,
        "evicted_blocks": 0,
    }
    return PoolState(**{**known, **changes})


OTHER = Token(8, b" other")


def _of_token(record: StepRecord, token: Token) -> StepRecord:
    top = replace(record.top, ids=np.array([token.id], np.int32), tokens=(token,))
    return replace(record, token=token, draw=replace(record.draw, token_id=token.id), top=top)


def forked(
    state: PoolState | None, cursor: int | None = None, token: Token = OTHER, **changes: Any
) -> View:
    """A look at a run of 40 prompt tokens, nodes 1–30 and, from node 10 on, 31–34 besides.

    Node 10 is at position 49, node 30 at 69, node 34 at 53. All tokens are the same but node 31's.
    """
    steps = [step(1, timing(0.0), kv(40, computed=40))]
    steps += [step(node, timing(100.0), kv(39 + node)) for node in range(2, 31)]
    steps.append(_of_token(step(31, timing(100.0), kv(50), parent=10, **changes), token))
    steps += [step(node, timing(100.0), kv(19 + node)) for node in range(32, 35)]
    read = prefill(chunk(0, 40, 500.0))
    pools = [] if state is None else [state]
    return view(SMOLLM2, prompt(40), read, *steps, *pools, cursor=cursor)


LONG = branch(1, 69, range(5), node=29)
"""All of the first line but its last token: block 4 has 5 of 16 positions."""
SIDE = branch(2, 53, (0, 1, 2, 68), node=33, held=True)
"""The other line; block 3 was shared until it was written."""
FORKED = pool(LONG, SIDE, current=2, forks=1, copied_blocks=1, pieces=2)
"""Blocks 0, 1 and 2 twice."""


def kv_lines(view: View, width: int, height: int, chosen: Place | None = None) -> list[Content]:
    """The whole pane as a list."""
    look = pool_look(view)
    if chosen is None and isinstance(look, PoolLook):
        chosen = look.cursor.newest(look.pool.block_size)
    rows = kv_rows(view, width, height, look, chosen)
    return [rows[index] for index in range(len(rows))]
