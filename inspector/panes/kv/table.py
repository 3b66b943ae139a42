"""The block table of the cursor's branch: which physical block each logical one lies in."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from textual.content import Content

from engine.records.cache import DROPPED, PoolState
from inspector.draw.cells import clip
from inspector.draw.cells import right as aligned
from inspector.draw.numbers import cut, fit, heading, labelled, muted, plural
from inspector.panes.kv.branch import CursorBranch, Place
from inspector.panes.kv.detail import text_of
from inspector.panes.kv.pool import PoolLook, group_name, span
from inspector.state.view import View

LABEL = 7
_COLUMNS = (("logical", 9), ("block", 9), ("refs", 5), ("filled", 8), ("positions", 14))


class Run(NamedTuple):
    """Logical blocks in a row that lie in a row."""

    logical: int
    block: int
    """The first physical one; -1 where they were given back."""
    blocks: int

    @property
    def words(self) -> str:
        """``0–12 → 64–76``."""
        there = "dropped" if self.block == DROPPED else span(self.block, self.blocks)
        return f"{span(self.logical, self.blocks)} → {there}"


def runs(table: NDArray[np.int32]) -> list[Run]:
    """A table as the fewest runs."""
    if not len(table):
        return []
    wide = table.astype(np.int64)
    dropped = wide == DROPPED
    goes_on = np.where(dropped[1:], dropped[:-1], (np.diff(wide) == 1) & ~dropped[:-1])
    starts = [0, *(np.flatnonzero(~goes_on) + 1).tolist()]
    ends = [*starts[1:], len(table)]
    return [Run(one, int(wide[one]), end - one) for one, end in zip(starts, ends, strict=True)]


def missing(cursor: CursorBranch, pool: PoolState, width: int) -> list[Content]:
    """The part of the cursor's text that no branch of the pool holds; empty where all is held."""
    if cursor.covered >= cursor.wanted:
        return []
    gone = span(cursor.covered, cursor.wanted - cursor.covered)
    word = "position" if cursor.wanted - cursor.covered == 1 else "positions"
    # An earlier prompt's branch may have the same tokens, which no record tells.
    known = all(branch.node is not None for branch in pool.branches)
    after = "going on here reads them again" if known else "going on here reads what is not found"
    variants = (
        f"{word} {gone} are not in the pool: evicted, or not read yet; {after}",
        f"{word} {gone} not in the pool: {after}",
        f"{gone} not in the pool: read again",
        f"{gone} not in the pool",
    )
    return [fit(width, *(Content.styled(f"! {one}", "$warning") for one in variants))]


def table_lines(pool: PoolState, cursor: CursorBranch, width: int) -> list[Content]:
    """The table as runs, one line a group."""
    lines = []
    for number in range(len(pool.groups)):
        found = runs(cursor.table(number, pool.block_size))
        name = group_name(pool, number)
        label = "table" if number == 0 else ""
        if not found:
            lines.append(
                labelled(
                    label,
                    LABEL,
                    width,
                    muted("none of it is in the pool" if cursor.wanted else "nothing read yet"),
                )
            )
            break
        how = f"  {_how_read(pool, found)}"
        short = "  a view" if _is_view(pool, found) else f"  {plural(_pieces(found), 'piece')}"
        whole = Content(" · ".join(run.words for run in found))
        notes = (f"{how}; {name}" if name else how, how, short)
        # Which runs there are says more than how they are read.
        part = Content(_joined(found, width - LABEL - len(short))) + muted(short)
        last = Content(_joined(found, width - LABEL))
        lines.append(
            labelled(label, LABEL, width, *(whole + muted(note) for note in notes), part, last)
        )
    return lines


def _pieces(found: list[Run]) -> int:
    return sum(run.block != DROPPED for run in found)


def _is_view(pool: PoolState, found: list[Run]) -> bool:
    return _pieces(found) == 1 and not pool.quantized


def _how_read(pool: PoolState, found: list[Run]) -> str:
    pieces = _pieces(found)
    if pool.quantized:
        return f"{plural(pieces, 'piece')}: 8 bits, widened at each pass"
    if pieces == 1:
        return "in one piece: read as a view, no copy"
    return f"{plural(pieces, 'piece')}: gathered into a buffer at each pass"


def _joined(found: list[Run], room: int) -> str:
    """The runs that fit, the newest among them: it is where the next position goes."""
    words = [run.words for run in found]
    text = " · ".join(words)
    if len(text) <= room or len(words) < 2:
        return text
    last = words[-1]
    kept: list[str] = []
    for word in words[:-1]:
        left = len(words) - len(kept) - 2
        tail = f" · … {left:,} more · {last}" if left else f" · {last}"
        if len(" · ".join([*kept, word])) + len(tail) > room:
            break
        kept.append(word)
    hidden = len(words) - len(kept) - 1
    more = [f"… {hidden:,} more"] if hidden else []
    return " · ".join([*kept, *more, last])


# --- block by block -------------------------------------------------------------------------


def detail_lines(
    view: View, look: PoolLook, chosen: Place | None, width: int, height: int
) -> list[Content]:
    """The blocks around the chosen one, one a line: references, filling, text."""
    pool, cursor = look.pool, look.cursor
    number = chosen.group if chosen is not None else 0
    table = cursor.table(number, pool.block_size)
    branch = cursor.branch
    if height < 3 or branch is None or not len(table):
        return []
    mine = np.flatnonzero(table == chosen.block) if chosen is not None else np.zeros(0, int)
    at = int(mine[0]) if mine.size else len(table) - 1
    shown = height - 2
    first = max(0, min(at - shown // 2, len(table) - shown))
    name = group_name(pool, number)
    title = f"Block by block{f': {name}' if name else ''}"
    head = "".join(aligned(text, cells) for text, cells in _COLUMNS)
    lines = [heading(title, width), cut(muted(f" {head}  text"), width)]
    room = width - sum(cells for _, cells in _COLUMNS) - 3
    for logical in range(first, min(first + shown, len(table))):
        block = int(table[logical])
        start = logical * pool.block_size
        end = min(start + pool.block_size, cursor.covered)
        cells = [f"{logical:,}", "dropped", "", "", span(start, end - start)]
        text = ""
        if block != DROPPED:
            group = pool.groups[number]
            cells[1:4] = (
                f"{block:,}",
                f"{group.refs[block]:,}",
                f"{group.filled[block]:,}/{pool.block_size:,}",
            )
            text = text_of(view, branch, start, end, room)
        row = "".join(
            aligned(cell, cells) for cell, (_, cells) in zip(cells, _COLUMNS, strict=True)
        )
        is_chosen = mine.size and logical == at
        mark = "▸" if is_chosen else " "
        line = Content.assemble((mark, "$cursor-token bold"), row, "  ", (clip(text, room), ""))
        lines.append(cut(line.stylize_before("bold") if is_chosen else line, width))
    return lines
