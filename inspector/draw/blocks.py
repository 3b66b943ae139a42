"""Drawing blocks of KV positions: a grid that fills as the cache grows.

Knows nothing of where the blocks come from: it draws a list of ``Block``, by position where there
is room, else one character a block. What a cell is, its glyph says; colour only repeats it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from textual.content import Content

from inspector.draw.block_chars import UP
from inspector.draw.numbers import cut, fit, muted

PROMPT, OUTPUT, LOST, FREE = "█", "▓", "×", "·"
NEWEST = "◂"


@dataclass(frozen=True, slots=True)
class Block:
    """One block: how many of its positions are what. In a block they lie in this order."""

    size: int
    lost: int = 0
    """Positions once read and no longer held (a sliding window has passed them)."""
    prompt: int = 0
    output: int = 0
    newest: bool = False
    """True if the newest position that is held lies here."""

    @property
    def held(self) -> int:
        return self.prompt + self.output

    @property
    def free(self) -> int:
        return self.size - self.lost - self.held

    @property
    def style(self) -> str:
        if self.held == 0:
            return "$kv-evicted" if self.lost else "$kv-free"
        return "$kv-full" if self.free == 0 else "$kv-partial"

    @property
    def glyph(self) -> str:
        if self.held == 0:
            return LOST if self.lost else FREE
        if self.free:
            # Full height is kept for full blocks.
            return UP[max(1, min(7, round((self.size - self.free) / self.size * 8)))]
        return OUTPUT if self.output else PROMPT


def grid(
    blocks: Sequence[Block],
    more_free: int,
    width: int,
    height: int,
    *,
    whole: bool = False,
    spare: int | None = None,
) -> list[Content]:
    """At most ``height`` lines of blocks, with as many of ``more_free`` free ones as still fit.

    As roomy as ``height`` allows; if the ``whole`` is to be seen, the free ones count as well.
    ``spare`` limits the lines that are all free.

    Where even one cell a block is too much, the lines around the newest block are shown; the
    position that each line begins with says where that is.
    """
    size = max((block.size for block in blocks), default=16)
    height = max(1, height)
    label = 2
    fitted = len(blocks) + more_free if whole else len(blocks)
    while True:
        draw, per_row = _layout(fitted, size, width - label - 1, height)
        rows = -(-len(blocks) // per_row)
        newest = next((i for i, block in enumerate(blocks) if block.newest), len(blocks) - 1)
        first = max(0, min(newest // per_row - height // 2, rows - height))
        shown = height if spare is None else min(height, rows + spare)
        count = min(shown * per_row, len(blocks) + more_free - first * per_row)
        last = (first + max(0, count - 1) // per_row) * per_row * size
        if len(f"{last:,}") < label:
            break
        label += 1
    drawn = list(blocks[first * per_row : first * per_row + count])
    drawn += [Block(size)] * (count - len(drawn))
    lines = []
    for start in range(0, count, per_row):
        head = muted(f"{(first * per_row + start) * size:,} ".rjust(label))
        lines.append(cut(Content.assemble(head, draw(drawn[start : start + per_row])), width))
    return lines


Drawing = Callable[[Sequence[Block]], Content]


def _layout(blocks: int, size: int, room: int, height: int) -> tuple[Drawing, int]:
    """Layout of a row of blocks, and how many go in one: the roomiest way that fits."""
    by_position = max(1, room // (size + 1))
    if size + 1 <= room and -(-blocks // by_position) <= height:
        return _by_position, by_position
    spaced = even(room // 2)
    if room >= 2 and -(-blocks // spaced) <= height:
        return _spaced, spaced
    return _tight, even(room)


def even(per_row: int) -> int:
    """A little less, so that lines begin at round positions."""
    if per_row <= 8:
        return max(1, per_row)
    return per_row - per_row % (4 if per_row < 24 else 8)


def _by_position(blocks: Sequence[Block]) -> Content:
    """``[████▓▓▓▓▓▓······]``: one cell a position, brackets around the newest block."""
    parts: list[str | tuple[str, str]] = []
    after = " "
    for block in blocks:
        parts.append("[" if block.newest else after)
        held = (PROMPT * block.prompt) + (OUTPUT * block.output)
        parts.append((LOST * block.lost, "$kv-evicted"))
        parts.append((held, block.style))
        parts.append((FREE * block.free, "$kv-free"))
        after = "]" if block.newest else " "
    parts.append(after)
    return Content.assemble(*parts)


def _spaced(blocks: Sequence[Block]) -> Content:
    """``█ █ ▓ ▃◂· ·``: one cell a block and one between."""
    parts: list[str | tuple[str, str]] = []
    for block in blocks:
        parts.append((block.glyph, block.style))
        parts.append((NEWEST, "$bar-drawn") if block.newest else " ")
    return Content.assemble(*parts)


def _tight(blocks: Sequence[Block]) -> Content:
    """``███▓▃···``: one cell a block, the newest one in reverse."""
    return Content.assemble(
        *((b.glyph, f"{b.style} reverse" if b.newest else b.style) for b in blocks)
    )


def key(width: int, *, lost: bool) -> Content:
    """The key to the glyphs of the grid."""
    names = [
        Content.assemble((PROMPT, "$kv-full"), muted(" prompt")),
        Content.assemble((OUTPUT, "$kv-full"), muted(" output")),
        Content.assemble((UP[3], "$kv-partial"), muted(" filling")),
        Content.assemble((FREE, "$kv-free"), muted(" free")),
    ]
    if lost:
        names.insert(2, Content.assemble((LOST, "$kv-evicted"), muted(" out of the window")))
    names.append(Content.assemble("[ ]", muted(" or "), (NEWEST, "$bar-drawn"), muted(" newest")))
    return fit(
        width,
        Content("   ").join(names),
        Content("  ").join(names),
        Content("  ").join(names[:-1]),
        Content(" ").join(names[: 3 if lost else 2]),
    )
