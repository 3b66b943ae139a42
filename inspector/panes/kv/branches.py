"""The branches in the pool: who holds blocks, how many, and how many of them with others."""

from __future__ import annotations

from rich.cells import cell_len
from textual.content import Content

from engine.records.cache import BranchState
from inspector.draw.cells import right
from inspector.draw.numbers import cut, heading, muted
from inspector.panes.kv.detail import branch_name, text_of
from inspector.panes.kv.pool import PoolLook
from inspector.state.view import View

_COLUMNS = (("positions", 10), ("blocks", 8), ("shared", 8))
_TAIL = 24
"""Positions at a branch's end of which the text is shown, as far as there is room."""


def branch_lines(view: View, look: PoolLook, width: int, height: int) -> list[Content]:
    """One line a branch, the cursor's first, then those that are held; nothing without room."""
    pool, own = look.pool, look.cursor.branch
    if height < 3 or not pool.branches:
        return []
    listed = sorted(pool.branches, key=lambda one: (one is not own, not one.held, -one.number))
    shown = listed if len(listed) <= height - 2 else listed[: height - 3]
    head = "".join(right(text, cells) for text, cells in _COLUMNS)
    lines = [
        heading(f"Branches in the pool: {len(listed):,}", width),
        cut(muted(f" state  {head}  ends with"), width),
        *(_line(view, look, one, width) for one in shown),
    ]
    if len(shown) < len(listed):
        lines.append(cut(muted(f" … {len(listed) - len(shown):,} more"), width))
    return lines


def _line(view: View, look: PoolLook, branch: BranchState, width: int) -> Content:
    group, table = look.pool.groups[0], branch.tables[0]
    there = table[table >= 0]
    counts = (branch.length, len(there), int((group.refs[there] > 1).sum()))
    cells = "".join(
        right(f"{count:,}", cells) for count, (_, cells) in zip(counts, _COLUMNS, strict=True)
    )
    state = "held" if branch.held else "cached"
    if branch.node is None:
        end = muted("an earlier prompt's")
    else:
        name = f"{branch_name(view, look, branch)} "
        room = max(0, width - len(cells) - cell_len(name) - 12)
        start = max(0, branch.length - _TAIL)
        text = text_of(view, branch, start, branch.length, _TAIL * room)
        end = Content.assemble(name, ("…", "$title"), _end(text, room))
    line = Content.assemble(f" {state:6} {cells}  ", end)
    return cut(line.stylize_before("bold") if branch is look.cursor.branch else line, width)


def _end(text: str, cells: int) -> str:
    """The end of ``text``, as much as ``cells`` cells can hold."""
    for at in range(len(text) - 1, -1, -1):
        cells -= cell_len(text[at])
        if cells < 0:
            return text[at + 1 :]
    return text
