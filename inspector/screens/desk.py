"""Places of the panes as a tree: side by side or one above the other, each with its share of room.

In writing, ``|`` puts panes side by side, ``/`` one above the other, ``*`` gives a share of the
room, 1 where there is none: ``((transcript / tokens) | ladder)*4 / (kv | gauges)*1.6``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import accumulate, pairwise

from textual.geometry import Region

LAYOUTS = {
    "debug": "((transcript / tokens) | ladder)*4 / (kv | prefill | gauges)*1.6",
    "sampling": "((transcript / dials*2) | ladder)*3 / (shape | stacks)*2",
    "memory": "((transcript / tree) | kv*2)*3 / (prefill | gauges)*2",
    "teaching": "transcript / (tokens | ladder*2)*3",
    "speculation": "(transcript / gauges) | (speculation / ladder)*1.5",
    "timing": "(transcript / prefill) | (roofline*2 / (gauges | bill))*1.6",
}
"""The layouts that everybody has, by name."""

NARROWEST, LOWEST = 16, 4
"""Cells and lines that a drag leaves to a pane."""

_LONGEST, _DEEPEST = 1000, 8
_WORDS = re.compile(r"\s*([()|/*]|[a-z_]+|[0-9]+(?:\.[0-9]+)?)")


class LayoutError(ValueError):
    """A layout in writing that cannot be read; one line says why."""


class Axis(StrEnum):
    """The sign between the parts of a split."""

    ACROSS = "|"
    DOWN = "/"


@dataclass(frozen=True, slots=True)
class Place:
    """The place of one pane."""

    name: str
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class Split:
    """Two places or more in a row or a column."""

    axis: Axis
    parts: tuple[Part, ...]
    share: float = 1.0


Part = Place | Split


def names(part: Part) -> list[str]:
    """The panes, in the order of their places."""
    if isinstance(part, Place):
        return [part.name]
    return [name for one in part.parts for name in names(one)]


# --- in writing -------------------------------------------------------------------------------


def parse(text: str, known: Iterable[str]) -> Part:
    """The layout in writing. Raises LayoutError."""
    if len(text) > _LONGEST:
        raise LayoutError(f"longer than {_LONGEST:,} characters")
    words, at = [], 0
    while text[at:].strip():
        found = _WORDS.match(text, at)
        if found is None:
            raise LayoutError(f"cannot read {text[at : at + 12].strip()!r}")
        words.append(found[1])
        at = found.end()
    part = _rows(words, 0)
    if words:
        raise LayoutError(f"{words[0]!r} is too much")
    listed, there = names(part), list(known)
    for name in listed:
        if name not in there:
            raise LayoutError(f"no pane {name!r}; there are {', '.join(there)}")
        if listed.count(name) > 1:
            raise LayoutError(f"{name} has two places")
    return replace(part, share=1.0)


def _rows(words: list[str], depth: int) -> Part:
    if depth > _DEEPEST:
        raise LayoutError("nested too deeply")
    return _split(Axis.DOWN, words, lambda: _split(Axis.ACROSS, words, lambda: _one(words, depth)))


def _split(axis: Axis, words: list[str], next_part: Callable[[], Part]) -> Part:
    parts = [next_part()]
    while words and words[0] == axis:
        words.pop(0)
        parts.append(next_part())
    return parts[0] if len(parts) == 1 else Split(axis, tuple(parts))


def _one(words: list[str], depth: int) -> Part:
    word = words.pop(0) if words else "the end"
    if word == "(":
        part = _rows(words, depth + 1)
        if not words or words.pop(0) != ")":
            raise LayoutError("a ( without its )")
    elif word.isidentifier():
        part = Place(word)
    else:
        raise LayoutError(f"a pane is missing before {word}")
    if words and words[0] == "*":
        words.pop(0)
        try:
            share = float(words.pop(0))
        except (IndexError, ValueError):
            raise LayoutError("a * without its number") from None
        if not 0 < share < 1e6:
            raise LayoutError(f"{share:g} is no share of the room")
        part = replace(part, share=share)
    return part


def spell(part: Part, *, outer: bool = True) -> str:
    """The layout in writing."""
    if isinstance(part, Place):
        text = part.name
    else:
        text = f" {part.axis} ".join(spell(one, outer=False) for one in part.parts)
        text = text if outer else f"({text})"
    return text if outer or part.share == 1.0 else f"{text}*{part.share:.4g}"


# --- on the screen ----------------------------------------------------------------------------


def regions(part: Part, room: Region) -> dict[str, Region]:
    """The cells that each pane has in ``room``."""
    if isinstance(part, Place):
        return {part.name: room}
    found: dict[str, Region] = {}
    for one, its in zip(part.parts, _rooms(part, room), strict=True):
        found |= regions(one, its)
    return found


def _rooms(split: Split, room: Region) -> list[Region]:
    across = split.axis is Axis.ACROSS
    length, whole = room.width if across else room.height, sum(one.share for one in split.parts)
    sums = accumulate((one.share for one in split.parts), initial=0.0)
    ends = [int(length * one / whole + 1e-9) for one in sums]
    return [
        Region(room.x + start, room.y, end - start, room.height)
        if across
        else Region(room.x, room.y + start, room.width, end - start)
        for start, end in pairwise(ends)
    ]


@dataclass(frozen=True, slots=True)
class Border:
    """The line between two neighbours of a split: ``path`` leads to it, ``index`` is the first."""

    path: tuple[int, ...]
    index: int
    axis: Axis
    first: Region
    second: Region

    @property
    def at(self) -> int:
        """The first cell, or line, of the second neighbour."""
        return self.second.x if self.axis is Axis.ACROSS else self.second.y

    def touches(self, x: int, y: int) -> bool:
        """True for a cell of the frames on both sides."""
        across = self.axis is Axis.ACROSS
        return (x if across else y) in (self.at - 1, self.at) and (
            self.first.union(self.second).contains(x, y)
        )


def borders(part: Part, room: Region, path: tuple[int, ...] = ()) -> Iterator[Border]:
    """Every border in ``room``, those of the outer splits first."""
    if isinstance(part, Place):
        return
    rooms = _rooms(part, room)
    for index, (first, second) in enumerate(pairwise(rooms)):
        yield Border(path, index, part.axis, first, second)
    for index, (one, its) in enumerate(zip(part.parts, rooms, strict=True)):
        yield from borders(one, its, (*path, index))


# --- changes ----------------------------------------------------------------------------------


def moved(part: Part, border: Border, to: int) -> Part:
    """The layout with a border at another cell or line; its two neighbours share what they had."""
    across = border.axis is Axis.ACROSS
    start = border.first.x if across else border.first.y
    end = border.second.right if across else border.second.bottom
    least = NARROWEST if across else LOWEST
    if end - start < 2 * least:
        return part

    def change(split: Part) -> Part:
        assert isinstance(split, Split)
        parts = list(split.parts)
        one, other = parts[border.index : border.index + 2]
        both = one.share + other.share
        share = both * (min(max(to, start + least), end - least) - start) / (end - start)
        parts[border.index] = replace(one, share=share)
        parts[border.index + 1] = replace(other, share=both - share)
        return replace(split, parts=tuple(parts))

    return _at(part, border.path, change)


def grown(part: Part, room: Region, name: str, axis: Axis, by: int) -> Part:
    """The layout with a pane wider (or higher) by so many cells, as its nearest border allows."""
    its = regions(part, room).get(name)
    near = [
        (border, sign)
        for border in borders(part, room)
        for side, sign in ((border.first, 1), (border.second, -1))
        if border.axis is axis and its is not None and side.contains_region(its)
    ]
    if not near:
        return part
    # The innermost; of its two neighbours the one that comes after, where there is one.
    border, sign = max(near, key=lambda found: (len(found[0].path), found[1]))
    return moved(part, border, border.at + sign * by)


def swapped(part: Part, one: str, other: str) -> Part:
    """The layout with two panes in each other's place."""
    if isinstance(part, Place):
        new = {one: other, other: one}.get(part.name, part.name)
        return replace(part, name=new)
    return replace(part, parts=tuple(swapped(each, one, other) for each in part.parts))


def without(part: Part, name: str) -> Part:
    """The layout less a pane; the last one stays."""
    if isinstance(part, Place):
        return part
    parts = [
        without(one, name) for one in part.parts if not isinstance(one, Place) or one.name != name
    ]
    if not parts:
        return part
    return (
        replace(parts[0], share=part.share)
        if len(parts) == 1
        else replace(part, parts=tuple(parts))
    )


def added(part: Part, name: str, room: Region) -> Part:
    """The layout with one pane more: it gets half of the largest place."""
    its = regions(part, room)
    largest = max(its, key=lambda one: its[one].area)
    # Cells are twice as high as they are wide.
    axis = Axis.ACROSS if its[largest].width > 4 * its[largest].height else Axis.DOWN
    return _divided(part, largest, name, axis)


def _divided(part: Part, at: str, name: str, axis: Axis) -> Part:
    if isinstance(part, Split):
        return replace(part, parts=tuple(_divided(one, at, name, axis) for one in part.parts))
    if part.name != at:
        return part
    return Split(axis, (replace(part, share=1.0), Place(name)), part.share)


def _at(part: Part, path: tuple[int, ...], change: Callable[[Part], Part]) -> Part:
    """The layout with the split at the end of ``path`` changed."""
    if not path or isinstance(part, Place):
        return change(part)
    parts = list(part.parts)
    parts[path[0]] = _at(parts[path[0]], path[1:], change)
    return replace(part, parts=tuple(parts))
