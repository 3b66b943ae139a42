"""Reference counts and free runs of a pool's blocks. No tensors here.

One ``Blocks`` keeps the books of one group of layers. Blocks are numbers from 0 on; block ``b``
stands for positions ``b * size`` to ``(b + 1) * size`` of that group's tensors.
"""

from __future__ import annotations

from bisect import bisect_right, insort

_ROOM = 64
"""Blocks left free after somebody else's last one, so that both branches stay in one piece."""


class Blocks:
    """Reference counts and the free runs of ``count`` blocks."""

    def __init__(self, count: int) -> None:
        if count < 1:
            raise ValueError(f"a pool needs at least one block, not {count}")
        self.count = count
        self.refs = [0] * count
        self.free = count
        self.touched = 0
        """Blocks from here on were never in use."""
        self.evicted: set[int] = set()
        """Free blocks whose last content was thrown out for want of room."""
        self._starts = [0]
        self._lengths = {0: count}

    def take(self, after: int | None) -> int:
        """A free block with one reference, right behind block ``after`` if that is possible.

        Otherwise one from the longest free run. Raises IndexError when none is free.
        """
        if not self.free:
            raise IndexError("no block is free")
        block = self._next_to(after)
        if block is None:
            block = self._elsewhere()
        self._cut(block)
        self.refs[block] = 1
        self.free -= 1
        self.touched = max(self.touched, block + 1)
        self.evicted.discard(block)
        return block

    def share(self, block: int) -> None:
        if self.refs[block] < 1:
            raise ValueError(f"block {block} is free: it cannot be shared")
        self.refs[block] += 1

    def drop(self, block: int, *, evicted: bool = False) -> None:
        if self.refs[block] < 1:
            raise ValueError(f"block {block} is free already")
        self.refs[block] -= 1
        if not self.refs[block]:
            self._give_back(block)
            self.free += 1
            if evicted:
                self.evicted.add(block)

    def _next_to(self, after: int | None) -> int | None:
        if after is None or after + 1 >= self.count or self.refs[after + 1]:
            return None
        return after + 1

    def _elsewhere(self) -> int:
        start = max(self._starts, key=lambda one: (self._lengths[one], -one))
        room = 0 if start == 0 else min(_ROOM, self._lengths[start] // 2)
        return start + room

    def _cut(self, block: int) -> None:
        """Take ``block`` out of the free run that it lies in."""
        at = bisect_right(self._starts, block) - 1
        start = self._starts[at]
        length = self._lengths.pop(start)
        before, behind = block - start, start + length - block - 1
        if before:
            self._lengths[start] = before
        else:
            del self._starts[at]
        if behind:
            insort(self._starts, block + 1)
            self._lengths[block + 1] = behind

    def _give_back(self, block: int) -> None:
        """Put ``block`` into the free runs, joined with its neighbours."""
        at = bisect_right(self._starts, block)
        start, length = block, 1
        if at < len(self._starts) and self._starts[at] == block + 1:
            length += self._lengths.pop(block + 1)
            del self._starts[at]
        if at and self._starts[at - 1] + self._lengths[self._starts[at - 1]] == block:
            start = self._starts[at - 1]
            self._lengths[start] += length
        else:
            self._starts.insert(at, start)
            self._lengths[start] = length
