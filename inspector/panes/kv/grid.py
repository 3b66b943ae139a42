"""The pool as a grid of physical blocks, line by line, and which block is at a place on it.

What a block is, its glyph says; colour only repeats it. Long stretches of free blocks are folded
into a few words. Lines are drawn when they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from textual.content import Content

from inspector.draw.block_chars import UP
from inspector.draw.blocks import even
from inspector.draw.numbers import cut, fit, muted
from inspector.panes.kv.branch import Place
from inspector.panes.kv.pool import GroupLook, Kind

FREE, EVICTED, AHEAD = "·", "×", "▒"
_FULL = {Kind.CACHED: "░", Kind.HELD: "▓", Kind.OURS: "█"}
_STYLES = {
    Kind.FREE: "$kv-free",
    Kind.EVICTED: "$kv-evicted",
    Kind.CACHED: "$title",
    Kind.HELD: "$title",
    Kind.OURS: "$kv-full",
}
_PART = "$kv-partial"
_SHARED, _OUR_SHARED = "$kv-shared", "$kv-shared reverse"
_CHOSEN = "$cursor-token-text on $cursor-token $cursor-token-style"
_BRACKET = "$cursor-token bold"


class Room(IntEnum):
    """Spacing of a grid."""

    TIGHT = 1
    """One cell a block."""
    SPACED = 2
    """One cell a block and one between, which shows the chosen block by brackets."""
    POSITIONS = 3
    """One cell a position."""

    def stride(self, size: int) -> int:
        """Cells from one block to the next."""
        return size + 1 if self is Room.POSITIONS else int(self)

    @property
    def fold_from(self) -> int:
        """So many free blocks in a row, or more, are folded."""
        return 3 if self is Room.POSITIONS else 13


class Stretch(NamedTuple):
    """Blocks in a row that are drawn one by one, from cell ``x`` on."""

    first: int
    number: int
    x: int


class Fold(NamedTuple):
    """Blocks that are not drawn, in words."""

    text: str


@dataclass(frozen=True, eq=False)
class GridLine:
    """Some neighbouring blocks of a group, drawn in one line."""

    look: GroupLook
    parts: tuple[Stretch | Fold, ...]
    room: Room
    label: str
    width: int

    @property
    def stretches(self) -> Iterator[Stretch]:
        """The parts of the line that are drawn block by block."""
        return (part for part in self.parts if isinstance(part, Stretch))

    @property
    def _stride(self) -> int:
        return self.room.stride(self.look.size)

    def block_at(self, x: int) -> Place | None:
        """The block at cell ``x``, if there is one."""
        for part in self.stretches:
            at = (x - part.x) // self._stride
            if 0 <= at < part.number:
                return Place(self.look.number, part.first + at)
        return None

    def nearest(self, x: int) -> Place | None:
        """The block nearest to cell ``x``; None for a line of words."""
        found = [
            (abs(part.x + at * self._stride + self._stride // 2 - x), part.first + at)
            for part in self.stretches
            for at in (max(0, min((x - part.x) // self._stride, part.number - 1)),)
        ]
        return Place(self.look.number, min(found)[1]) if found else None

    def x_of(self, place: Place) -> int | None:
        """The cell in the middle of a block; None where it is not in this line."""
        if place.group != self.look.number:
            return None
        for part in self.stretches:
            if part.first <= place.block < part.first + part.number:
                return part.x + (place.block - part.first) * self._stride + self._stride // 2
        return None

    def draw(self, chosen: Place | None) -> Content:
        parts: list[tuple[str, str]] = [(self.label, "$title")]
        at = chosen if chosen is not None and self.x_of(chosen) is not None else None
        for part in self.parts:
            if isinstance(part, Fold):
                parts.append((part.text, "$title"))
            else:
                parts += self._blocks(part, -1 if at is None else at.block)
        return cut(Content.assemble(*parts), self.width)

    def _blocks(self, part: Stretch, chosen: int) -> Iterator[tuple[str, str]]:
        last = part.first + part.number - 1
        for block in range(part.first, last + 1):
            if self.room is Room.TIGHT:
                glyph, style = _glyph(self.look, block)
                yield glyph, _CHOSEN if block == chosen else style
                continue
            before = block == chosen + 1 and block > part.first
            yield "[" if block == chosen else "]" if before else " ", _BRACKET
            if self.room is Room.SPACED:
                yield _glyph(self.look, block)
            else:
                yield from _positions(self.look, block)
        if self.room is not Room.TIGHT:
            yield "]" if last == chosen else " ", _BRACKET


def _glyph(look: GroupLook, block: int) -> tuple[str, str]:
    """A block in one cell."""
    kind, refs = Kind(look.kind[block]), int(look.group.refs[block])
    if kind <= Kind.EVICTED:
        return (EVICTED if kind is Kind.EVICTED else FREE), _STYLES[kind]
    ours = kind is Kind.OURS
    if refs > 1:
        return _count(refs), _OUR_SHARED if ours else _SHARED
    filled = int(look.group.filled[block])
    if filled >= look.size:
        return _FULL[kind], _STYLES[kind]
    # Full height is kept for full blocks.
    height = max(1, min(7, round(filled / look.size * 8)))
    return UP[height], _PART if ours else _STYLES[kind]


def _count(refs: int) -> str:
    return f"{refs}" if refs < 10 else "+"


def _positions(look: GroupLook, block: int) -> Iterator[tuple[str, str]]:
    """A block with one cell a position; how many share it stands in the first."""
    kind, refs, size = Kind(look.kind[block]), int(look.group.refs[block]), look.size
    if kind <= Kind.EVICTED:
        yield (EVICTED if kind is Kind.EVICTED else FREE) * size, _STYLES[kind]
        return
    filled = int(look.group.filled[block])
    ours = min(int(look.ours[block]), filled)
    style = _PART if kind is Kind.OURS and filled < size else _STYLES[kind]
    counted = refs > 1 and filled > 0
    if counted:
        style = _SHARED
        yield _count(refs), _OUR_SHARED if kind is Kind.OURS else _SHARED
    if kind is Kind.OURS:
        yield _FULL[kind] * (ours - (counted and ours > 0)), style
        yield AHEAD * (filled - max(ours, int(counted))), style
    else:
        yield _FULL[kind] * (filled - counted), style
    yield FREE * (size - filled), _STYLES[Kind.FREE]


# --- the grid of a group --------------------------------------------------------------------


def grid_lines(look: GroupLook, width: int, height: int) -> list[GridLine]:
    """All touched blocks of a group, as roomy as ``height`` lines allow; more if they must."""
    for room in (Room.POSITIONS, Room.SPACED):
        if _label(look) + room.stride(look.size) < width:
            lines = _wrapped(look, width, room)
            if len(lines) <= height:
                return lines
    return _wrapped(look, width, Room.TIGHT)


def _label(look: GroupLook) -> int:
    """Cells for the number of a line's first block."""
    return max(2, len(f"{max(0, len(look.kind) - 1):,}")) + 1


def _wrapped(look: GroupLook, width: int, room: Room) -> list[GridLine]:
    """The blocks in lines of ``width``."""
    label, stride = _label(look), room.stride(look.size)
    after = int(room is not Room.TIGHT)
    per_line = max(1, (width - label - after) // stride)
    if room is not Room.POSITIONS:
        per_line = even(per_line)
    lines: list[GridLine] = []
    parts: list[Stretch | Fold] = []
    x, start = label, 0

    def end_line() -> None:
        nonlocal x
        if parts:
            named = f"{start:,} " if isinstance(parts[0], Stretch) else ""
            lines.append(GridLine(look, tuple(parts), room, named.rjust(label), width))
            parts.clear()
        x = label

    for first, number, folded in _stretches(look, room):
        if folded:
            text = f" … {number:,} free … "
            if x + len(text) > width:
                end_line()
            parts.append(Fold(text))
            x += len(text)
            continue
        done = 0
        while done < number:
            left = (width - x - after) // stride
            if parts and left < min(number, 2):
                end_line()
            if not parts:
                start, left = first + done, per_line
            count = max(1, min(left, number - done))
            parts.append(Stretch(first + done, count, x))
            x += count * stride + after
            done += count
            if done < number:
                end_line()
    if look.untouched:
        text = f" … {look.untouched:,} more, never used" if len(look.kind) else "nothing in it yet"
        if x + len(text) > width:
            end_line()
        parts.append(Fold(text))
    end_line()
    return lines


def _stretches(look: GroupLook, room: Room) -> Iterator[tuple[int, int, bool]]:
    """(first block, how many, whether they are folded), in the pool's order."""
    free = np.concatenate(([False], look.kind == Kind.FREE, [False]))
    edges = np.flatnonzero(free[1:] != free[:-1])
    at = 0
    for first, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        if end - first < room.fold_from:
            continue
        if first > at:
            yield at, first - at, False
        yield first, end - first, True
        at = end
    if at < len(look.kind):
        yield at, len(look.kind) - at, False


def key(width: int, found: frozenset[Kind], *, shared: int, ahead: bool) -> Content:
    """The key to the glyphs of the grid, as far as they occur and the width allows.

    ``shared`` is a number of branches that share some block, 0 where none is shared.
    """
    names = [
        ((_FULL[Kind.OURS], _STYLES[Kind.OURS]), " this branch", " this"),
        ((UP[3], _PART), " part", ""),
    ]
    if ahead:
        names.append(((AHEAD, _PART), " after the cursor", " after"))
    if shared:
        names.append(((_count(shared), _OUR_SHARED), f" shared by {shared:,}", " shared"))
    names += [
        ((glyph, _STYLES[kind]), name, name)
        for kind, glyph, name in (
            (Kind.HELD, _FULL[Kind.HELD], " held"),
            (Kind.CACHED, _FULL[Kind.CACHED], " cached"),
            (Kind.EVICTED, EVICTED, " evicted"),
            (Kind.FREE, FREE, " free"),
        )
        if kind in found
    ]
    whole = [Content.assemble(glyph, muted(text)) for glyph, text, _ in names]
    short = [Content.assemble(glyph, muted(text)) for glyph, _, text in names if text]
    gap, narrow = Content("   "), Content("  ")
    fewer = (narrow.join(short[:number]) for number in range(len(short), 0, -1))
    return fit(width, gap.join(whole), narrow.join(whole), *fewer)
