"""Details of one block: its holders, its positions and their text."""

from __future__ import annotations

import numpy as np
from textual.content import Content

from engine.records.cache import BranchState
from engine.run.tree import ROOT
from engine.text import visible, visible_bytes
from inspector.draw.cells import ELLIPSIS
from inspector.draw.numbers import FAINT, cut, fit, muted
from inspector.panes.kv.branch import CursorBranch, Owner, Place, name_of, node_at, owners, token_at
from inspector.panes.kv.pool import GroupLook, Kind, PoolLook, group_name, span
from inspector.state.view import View

_NAMED = 3
"""So many of a block's branches are named."""
_BYTES_A_CELL = 4


def text_of(view: View, branch: BranchState, start: int, end: int, room: int) -> str:
    """The text of some positions, safe to show, as far as ``room`` cells can hold it."""
    data = bytearray()
    for position in range(start, end):
        token = token_at(view, branch, position)
        data += ELLIPSIS.encode() if token is None else token.bytes
        if len(data) > _BYTES_A_CELL * max(1, room):
            break
    return visible_bytes(bytes(data))


def block_lines(view: View, look: PoolLook, place: Place, width: int) -> list[Content]:
    """Two lines on a block: what and whose it is, and its text."""
    pool, group = look.pool, look.groups[place.group]
    kind = Kind(group.kind[place.block])
    name = group_name(pool, place.group)
    head = Content.assemble(("▸ ", "$cursor-token"), (f"block {place.block:,}", "bold"))
    if name:
        head += muted(f" ({name})")
    held = owners(pool, place)
    if kind <= Kind.EVICTED or not held:
        words = "evicted: thrown out for room, and free" if kind is Kind.EVICTED else "free"
        return [cut(head + f"  {words}", width), Content("")]
    shown = _shown(held, look.cursor)
    start, end = shown.positions(pool.block_size)
    numbers = span(start, max(1, end - start))
    where = f"position{'s' * (end - start > 1)} {numbers}"
    filled = f"{int(group.group.filled[place.block]):,}/{pool.block_size:,} filled"
    by, few = _holders(view, look, held), _holders(view, look, held, names=1)
    gap = _free_before(group, place.block)
    apart = f"  ·  {gap:,} free before it: room to grow"
    variants = (
        *([f"  {where}  ·  {by}{apart}", f"  {where}{apart}"] if gap > 1 else []),
        f"  {where}, {filled}  ·  {by}",
        f"  {where}  ·  {by}",
        f"  {where}, {filled}  ·  {few}",
        f"  {where}  ·  {few}",
        f"  {where}",
        f"  {numbers}",
    )
    return [fit(width, *(head + one for one in variants)), _text(view, look, shown, width)]


def _free_before(group: GroupLook, block: int) -> int:
    """Number of free blocks between a block and another branch's before it."""
    taken = np.flatnonzero(group.kind[:block] != Kind.FREE)
    return block - 1 - int(taken[-1]) if taken.size else 0


def _text(view: View, look: PoolLook, shown: Owner, width: int) -> Content:
    """Text of a block's positions; those after the cursor's stand back."""
    start, end = shown.positions(look.pool.block_size)
    if shown.branch.node is None:
        return cut(muted("  an earlier prompt's: its text is no longer known"), width)
    ours = shown.branch is look.cursor.branch
    until = max(start, min(end, look.cursor.covered)) if ours else end
    room = max(0, width - 4)
    text = text_of(view, shown.branch, start, until, room)
    after = text_of(view, shown.branch, until, end, room)
    line = Content.assemble(("  “", "$title"), text, (after, FAINT), ("”", "$title"))
    return cut(line, width)


def _shown(held: list[Owner], cursor: CursorBranch) -> Owner:
    """Of the branches that hold a block the one to show: the cursor's, else one that is known."""
    ours = (one for one in held if one.branch is cursor.branch)
    known = (one for one in held if one.branch.node is not None)
    return next(ours, next(known, held[0]))


def _holders(view: View, look: PoolLook, held: list[Owner], names: int = _NAMED) -> str:
    """Owner of a block, the one that is shown first."""
    first = _shown(held, look.cursor)
    if len(held) == 1:
        idle = "" if first.branch.held or first.branch is look.cursor.branch else "cached: "
        return f"{idle}{branch_name(view, look, first.branch)}"
    others = [one for one in held if one is not first]
    words = [branch_name(view, look, one.branch) for one in (first, *others[: names - 1])]
    more = len(held) - len(words)
    return f"shared by {len(held):,}: {', '.join(words)}" + (f", {more:,} more" if more else "")


def branch_name(view: View, look: PoolLook, branch: BranchState) -> str:
    """The name of a branch of the pool: the user's, or after the node that it ends at."""
    if branch is look.cursor.branch:
        return "this branch"
    if branch.node is None:
        return "an earlier prompt's"
    name = name_of(view, branch)
    end = "the prompt's" if branch.node == ROOT else f"node {branch.node:,}'s"
    return f"“{visible(name)}” ({end})" if name else end


def last_node(view: View, look: PoolLook, place: Place) -> int | None:
    """The node of the last position in a block; None where this run has none there."""
    held = owners(look.pool, place)
    if not held:
        return None
    shown = _shown(held, look.cursor)
    last = shown.positions(look.pool.block_size)[1] - 1
    own, prompt = shown.branch is look.cursor.branch, view.prompt_length
    if own and prompt <= last < look.cursor.covered:
        # The branch may be of the same text, and yet go by other nodes.
        return view.path.node(last - prompt)
    return node_at(view, shown.branch, last)
