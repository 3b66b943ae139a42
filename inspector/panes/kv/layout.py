"""The lines of the KV pane: figures, the pool as a grid, its table; where there is room, all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.content import Content

from engine.records.cache import PoolState
from engine.text import visible
from inspector.draw.numbers import cut, fit, heading, muted, padded, plural
from inspector.panes.kv.branch import Place
from inspector.panes.kv.branches import branch_lines
from inspector.panes.kv.figures import figures, lengths
from inspector.panes.kv.grid import GridLine, Stretch, grid_lines, key
from inspector.panes.kv.logical import logical_picture, state
from inspector.panes.kv.pool import Kind, PoolLook, group_name, layer_ranges
from inspector.panes.kv.pool_figures import pool_figures
from inspector.panes.kv.prefix import prefix_lines
from inspector.panes.kv.table import detail_lines, missing, table_lines
from inspector.state.view import View

TWO_COLUMNS = 76
LEFT = 46
GAP = 2
ROOMY = 24
"""The height from which there is more than the pool and its figures."""
_TABLE = 16
NO_POOL = "no pool of KV blocks"
"""Beginning of the engine's note on why there is none."""
Line = Content | GridLine


@dataclass(frozen=True, eq=False)
class KVRows:
    """The pane's lines: two columns, or all in the right one. Grid lines are drawn when asked."""

    left: Sequence[Content] = ()
    right: Sequence[Line] = ()
    edge: int = 0
    """Column at which the right half begins."""
    chosen: Place | None = None

    def __len__(self) -> int:
        return max(len(self.left), len(self.right))

    def __getitem__(self, index: int) -> Content:
        start = self.left[index] if index < len(self.left) else Content("")
        line = self.right[index] if index < len(self.right) else Content("")
        end = line.draw(self.chosen) if isinstance(line, GridLine) else line
        return padded(start, self.edge) + end if end.cell_length else start

    def block_at(self, row: int, x: int) -> Place | None:
        """The block at cell ``x`` of a row, if there is one."""
        line = self.right[row] if 0 <= row < len(self.right) else None
        return line.block_at(x - self.edge) if isinstance(line, GridLine) else None

    def row_of(self, place: Place) -> int | None:
        return next((row for row, one in self._grid if one.x_of(place) is not None), None)

    @property
    def _grid(self) -> list[tuple[int, GridLine]]:
        return [
            (row, one)
            for row, one in enumerate(self.right)
            if isinstance(one, GridLine) and any(one.stretches)
        ]

    @property
    def _drawn(self) -> list[tuple[int, Stretch]]:
        """All that is drawn block by block, with its group."""
        return [(one.look.number, part) for _, one in self._grid for part in one.stretches]

    def beside(self, by: int) -> Place | None:
        """The block drawn next to the chosen one, after it or before (-1); None at the end."""
        drawn, place = self._drawn, self.chosen
        for at, (group, part) in enumerate(drawn):
            here = part.first <= place.block < part.first + part.number if place else False
            if place is None or group != place.group or not here:
                continue
            if part.first <= place.block + by < part.first + part.number:
                return Place(group, place.block + by)
            if not 0 <= at + by < len(drawn):
                return None
            group, part = drawn[at + by]
            return Place(group, part.first if by > 0 else part.first + part.number - 1)
        return self.outermost(last=False)

    def below(self, by: int) -> Place | None:
        """The block so many lines below (above: negative) the chosen one; None without one."""
        grid, place = self._grid, self.chosen
        for at, (_, line) in enumerate(grid):
            x = line.x_of(place) if place is not None else None
            if x is not None:
                return grid[at + by][1].nearest(x) if 0 <= at + by < len(grid) else None
        return self.outermost(last=False)

    def outermost(self, *, last: bool) -> Place | None:
        """The first block that is drawn, or the last one."""
        drawn = self._drawn
        if not drawn:
            return None
        group, part = drawn[-1 if last else 0]
        return Place(group, part.first + (part.number - 1) * last)


# --- the pool -------------------------------------------------------------------------------


def pool_picture(
    look: PoolLook, width: int, height: int, *, whole: bool = True, settled: bool = True
) -> list[Line]:
    """The pool's blocks and the cursor's table, in ``height`` lines if that is possible at all.

    Without ``whole`` half of the room is left for something else.
    """
    pool = look.pool
    head: list[Line] = [heading(_title(look, width), width)]
    # While it runs the engine tells of its pool now and then, and of each step at once.
    gone = missing(look.cursor, pool, width) if settled else []
    table = table_lines(pool, look.cursor, width)
    kinds = frozenset(Kind(kind) for one in look.groups for kind in set(one.kind.tolist()))
    refs = max((int(one.group.refs.max(initial=0)) for one in look.groups), default=0)
    ahead = any(bool((one.ours < one.group.filled)[one.ours > 0].any()) for one in look.groups)
    foot = [key(width, kinds, shared=refs * (refs > 1), ahead=ahead)] if height >= 5 else []
    names = [_group_title(pool, number, width) for number in range(len(pool.groups))]
    several = [bool(name) for name in names]
    fixed = 1 + len(gone) + len(table) + len(foot) + sum(several)
    room = max(len(names), height - fixed)
    room = room if whole else max(len(names), room // 2)
    lines: list[Line] = []
    for number, one in enumerate(look.groups):
        lines += [names[number]] * several[number]
        lines += grid_lines(one, width, max(1, room // len(names)))
    return [*head, *lines, *gone, *table, *foot]


def _title(look: PoolLook, width: int) -> str:
    pool = look.pool
    used = sum(one.used for one in look.groups)
    blocks = sum(one.group.blocks for one in look.groups)
    return fit(
        width - 2,
        Content(f"Pool: {used:,} of {blocks:,} blocks of {pool.block_size:,} in use"),
        Content(f"Pool: {used:,} of {blocks:,} blocks in use"),
        Content(f"Pool: {used:,} of {blocks:,}"),
        Content("Pool"),
    ).plain


def _group_title(pool: PoolState, number: int, width: int) -> Content:
    name = group_name(pool, number)
    if not name:
        return Content("")
    group = pool.groups[number]
    layers = f"layers {layer_ranges(group.layers)}"
    return cut(muted(f"{name}: {layers}; {plural(group.blocks, 'block')}"), width)


# --- the pane -------------------------------------------------------------------------------


def kv_rows(
    view: View, width: int, height: int, look: PoolLook | str, chosen: Place | None = None
) -> KVRows:
    """The whole pane. ``look`` is what ``pool_look`` found."""
    two = width >= TWO_COLUMNS
    left = max(LEFT, min(64, width * 2 // 5)) if two else width
    head, rest = figures(view, state(view), left)
    if isinstance(look, str):
        return _logical(view, width, height, (head, rest), look)
    roomy = two and height >= ROOMY
    sizes, text = pool_figures(look.pool, view.facts, left), prefix_lines(view, left)
    parts = [sizes, text]
    if view.step is None and not roomy:
        # At the prompt the first question is what of it was found.
        parts, rest = [rest, sizes], text
    lines = [*rest, *(line for part in parts for line in (_apart(part) if roomy else part))]
    if not two:
        drawn = pool_picture(look, width, max(4, height - len(head)), settled=view.settled)
        return KVRows((), [*head, *drawn, *lines], 0, chosen)
    if roomy and height > len(head) + len(lines) + 8:
        lines += _apart(lengths(view.facts, state(view), left))
    right = width - left - GAP
    drawn = pool_picture(look, right, max(height, 4), whole=not roomy, settled=view.settled)
    if roomy:
        room = min(_TABLE, height - len(drawn) - 1)
        drawn += _apart(detail_lines(view, look, chosen, right, room))
        drawn += _apart(branch_lines(view, look, right, height - len(drawn) - 1))
    return KVRows([*head, *lines], drawn, left + GAP, chosen)


def _apart(lines: list[Content]) -> list[Content]:
    """A part of the pane with a blank line above; nothing where it has nothing to say."""
    return [Content(""), *lines] if lines else []


def _logical(
    view: View, width: int, height: int, known: tuple[list[Content], list[Content]], why: str
) -> KVRows:
    """The pane where there is no pool, or none that can be drawn."""
    head, rest = known
    if why:
        words = f"! the pool's record is not drawn: {why}"
        head = [*head, cut(Content.styled(words, "$warning"), width)]
    notes = view.facts.notes if view.facts is not None else ()
    no_pool = [visible(note) for note in notes if note.startswith(NO_POOL)]
    rest = [*rest, *(cut(muted(note), width) for note in no_pool)]
    if width >= TWO_COLUMNS:
        left = max(LEFT, min(64, width * 2 // 5))
        lines = head + rest
        lines += prefix_lines(view, left) if view.step is None else []
        if height > len(lines) + 8:
            lines += [Content(""), *lengths(view.facts, state(view), left)]
        right = width - left - GAP
        return KVRows(lines, logical_picture(view, right, max(height, 3)), left + GAP, None)
    spare = height - len(head) - len(rest)
    if spare >= 4:
        drawn = logical_picture(view, width, spare)
        return KVRows((), [*head, *rest, *drawn], 0, None)
    drawn = logical_picture(view, width, max(3, height - len(head)))
    return KVRows((), [*head, *drawn, *rest], 0, None)
