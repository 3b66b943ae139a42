"""Records of a branch over the pool and of the room that a pass gets in it."""

from __future__ import annotations

from dataclasses import dataclass

from engine.kv.prefix import Key


class OutOfBlocks(RuntimeError):
    """No room left in the pool; one line says how much there is and what to do."""


@dataclass(slots=True, eq=False)
class Branch:
    """One sequence of tokens and where its K and V lie. Only ``Pool`` changes it.

    ``tables[g][i]`` is the block that holds positions ``i * size`` and on for group ``g``. While a
    pass runs, the tables cover its positions already and ``ids`` do not. ``variant`` tells apart K
    and V of the same tokens that the model computes otherwise, such as for a longer text.
    """

    number: int
    ids: list[int]
    keys: list[Key]
    tables: list[list[int]]
    held: bool = True
    used: int = 0
    pending: int = 0
    variant: bytes = b""
    pinned: bool = False
    """Held even when the cache goes on with another branch."""

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy-on-write: the first ``count`` positions of ``source`` must be copied to ``target``."""

    group: int
    source: int
    target: int
    count: int


@dataclass(frozen=True, slots=True)
class Extension:
    """Physical slots for the positions ``start .. start + count`` of a pass.

    ``slots[g]`` are the physical positions in group ``g``; ``copies`` must be made before.
    """

    start: int
    count: int
    slots: tuple[list[int], ...]
    copies: tuple[Copy, ...]


@dataclass(slots=True)
class Counters:
    """Counts of forks, copies and evictions since the pool was made."""

    forks: int = 0
    copied_blocks: int = 0
    evicted_branches: int = 0
    evicted_blocks: int = 0
