"""Branches over a pool of fixed-size blocks: tables, sharing, copy-on-write, eviction.

This is bookkeeping in plain Python, without a tensor: it says where things are and what must be
copied, and ``engine.kv.cache`` does it. All branches have one table per group of layers. A fork
raises reference counts and copies nothing; a shared block is copied when somebody is about to
write behind its filled part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.kv.blocks import Blocks
from engine.kv.branch import Branch, Copy, Counters, Extension, OutOfBlocks
from engine.kv.prefix import Key, chain
from engine.records.cache import DROPPED

MAX_BRANCHES = 512
_REMEMBERED_KEYS = 65_536


@dataclass(slots=True, eq=False)
class Pool:
    """All branches and, for each group of layers, the blocks they lie in.

    ``windows[g]`` is how many positions the layers of group ``g`` can see, None for all. With
    ``window_keep`` a group gives back blocks that lie that far outside its window; without, it
    keeps them, so that every position can be gone back to.
    """

    groups: tuple[Blocks, ...]
    windows: tuple[int | None, ...] = (None,)
    block_size: int = 16
    root: Key = b""
    window_keep: int | None = None
    branches: dict[int, Branch] = field(default_factory=dict)
    counters: Counters = field(default_factory=Counters)
    _clock: int = 0
    evicted_keys: dict[Key, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.block_size < 1:
            raise ValueError(f"a block holds at least one position, not {self.block_size}")
        if len(self.groups) != len(self.windows):
            raise ValueError("every group of layers needs its window, or None")

    # --- getting a branch -------------------------------------------------------------------

    def open(self, variant: bytes = b"") -> Branch:
        self._clock += 1
        tables: list[list[int]] = [[] for _ in self.groups]
        branch = Branch(self._clock, [], [], tables, used=self._clock, variant=variant)
        self.branches[branch.number] = branch
        return branch

    def fork(self, branch: Branch, at: int) -> Branch:
        """A new branch, held, with the first ``at`` positions of ``branch``. Copies nothing.

        Raises ValueError when ``branch`` has no such position or no longer what it needs there.
        """
        self._check_readable(branch, at)
        count = self._blocks(at)
        twin = self.open(branch.variant)
        twin.ids = branch.ids[:at]
        twin.keys = branch.keys[: at // self.block_size]
        for group, table, own in zip(self.groups, branch.tables, twin.tables, strict=True):
            own.extend(table[:count])
            for block in own:
                if block != DROPPED:
                    group.share(block)
        self.counters.forks += 1
        return twin

    def chain(
        self, ids: Sequence[int], variant: bytes = b"", known: Sequence[Key] = ()
    ) -> list[Key]:
        """The keys of all full blocks of ``ids``; ``known`` are those already computed."""
        return chain(self.root + variant, ids, self.block_size, known)

    # --- growing and shrinking --------------------------------------------------------------

    def extend(self, branch: Branch, count: int) -> Extension:
        """Find room for ``count`` more positions, evicting if need be; ``commit`` or ``abandon``.

        The branch is held from now on.

        Raises OutOfBlocks, with nothing changed, when what is held leaves no room.
        """
        if branch.pending:
            raise ValueError("a pass over this branch is under way already")
        if count < 1:
            raise ValueError(f"a pass reads at least one position, not {count}")
        self.hold(branch)
        self._make_room(branch, count)
        start = len(branch)
        copies: list[Copy] = []
        slots = tuple(
            self._extend_group(branch, number, start, count, copies)
            for number in range(len(self.groups))
        )
        branch.pending = count
        self.counters.copied_blocks += len(copies)
        return Extension(start, count, slots, tuple(copies))

    def commit(self, branch: Branch, ids: Sequence[int]) -> None:
        """The positions of the last ``extend`` are written and hold ``ids``."""
        if len(ids) != branch.pending:
            raise ValueError(f"{branch.pending} positions were reserved, not {len(ids)}")
        branch.ids.extend(ids)
        branch.pending = 0
        known = len(branch.keys)
        branch.keys = self.chain(branch.ids, branch.variant, branch.keys)
        for key in branch.keys[known:]:
            self.evicted_keys.pop(key, None)
        if self.window_keep is not None:
            self._drop_unseen(branch, self.window_keep)

    def abandon(self, branch: Branch) -> None:
        """The pass did not happen: give its blocks back."""
        branch.pending = 0
        self._trim(branch)

    def truncate(self, branch: Branch, length: int) -> None:
        """Forget all but the first ``length`` positions. Computes and copies nothing.

        Raises ValueError when there are not so many, or what position ``length`` must see of a
        sliding window was given back.
        """
        self._check_readable(branch, length)
        del branch.ids[length:]
        del branch.keys[length // self.block_size :]
        self._trim(branch)
        self._touch(branch)

    def readable(self, branch: Branch, length: int) -> bool:
        """True if position ``length`` can be computed: all that it must see is still there."""
        if not 0 <= length <= len(branch):
            return False
        count = self._blocks(length)
        return all(
            DROPPED not in table[self.first_seen(number, length) // self.block_size : count]
            for number, table in enumerate(branch.tables)
        )

    def first_seen(self, group: int, length: int) -> int:
        """The first of ``length`` positions that the next one can see in ``group``."""
        window = self.windows[group]
        return 0 if window is None else max(0, length - window + 1)

    def first_held(self, branch: Branch, group: int) -> int:
        """The first position that ``branch`` still has in ``group``."""
        table = branch.tables[group]
        return next(
            (at * self.block_size for at, block in enumerate(table) if block != DROPPED),
            len(branch),
        )

    def runs(self, branch: Branch, group: int, first: int, end: int) -> list[tuple[int, int]]:
        """Physical places of positions ``first .. end``, as (start, count), joined where in a row.

        Covers the positions of a pass under way. Raises ValueError for one that was given back.
        """
        size, found = self.block_size, list[tuple[int, int]]()
        table = branch.tables[group]
        at = first
        while at < end:
            block = table[at // size]
            if block == DROPPED:
                raise ValueError(f"position {at} was given back when it left the window")
            offset = at % size
            count = min(size - offset, end - at)
            start = block * size + offset
            if found and found[-1][0] + found[-1][1] == start:
                found[-1] = (found[-1][0], found[-1][1] + count)
            else:
                found.append((start, count))
            at += count
        return found

    # --- letting go -------------------------------------------------------------------------

    def hold(self, branch: Branch) -> None:
        """Keep ``branch`` from eviction."""
        branch.held = True
        self._touch(branch)

    def release(self, branch: Branch) -> None:
        """Nobody needs ``branch`` now: it stays until its room is needed, oldest first."""
        if branch.pinned:
            return
        branch.held = False
        if not branch.ids:
            self.close(branch)
        elif len(self.branches) > MAX_BRANCHES:
            self.evict()

    def close(self, branch: Branch, *, evicted: bool = False) -> None:
        """Forget ``branch`` and drop its references at once."""
        for group, table in zip(self.groups, branch.tables, strict=True):
            for block in table:
                if block != DROPPED:
                    group.drop(block, evicted=evicted)
            table.clear()
        branch.ids, branch.keys, branch.pending = [], [], 0
        del self.branches[branch.number]

    def evict(self) -> Branch | None:
        """Close the branch that nobody holds and that was used longest ago; None if there is none.

        Its blocks that others share stay where they are.
        """
        idle = [branch for branch in self.branches.values() if not branch.held]
        if not idle:
            return None
        oldest = min(idle, key=lambda branch: branch.used)
        for key in oldest.keys:
            self.evicted_keys[key] = None
        while len(self.evicted_keys) > _REMEMBERED_KEYS:
            del self.evicted_keys[next(iter(self.evicted_keys))]
        free = sum(group.free for group in self.groups)
        self.close(oldest, evicted=True)
        self.counters.evicted_branches += 1
        self.counters.evicted_blocks += sum(group.free for group in self.groups) - free
        return oldest

    # --- inside -----------------------------------------------------------------------------

    def _blocks(self, positions: int) -> int:
        return -(-positions // self.block_size)

    def _touch(self, branch: Branch) -> None:
        self._clock += 1
        branch.used = self._clock

    def _check_readable(self, branch: Branch, length: int) -> None:
        if not 0 <= length <= len(branch):
            raise ValueError(f"the branch has {len(branch)} positions, not {length}")
        if not self.readable(branch, length):
            raise ValueError(
                f"what position {length} must see was given back when it left the sliding window: "
                "read the branch again"
            )

    def _make_room(self, branch: Branch, count: int) -> None:
        if not self._is_short(branch, count):
            return
        # Nobody is evicted for a pass that cannot find room whoever goes.
        others = [one for one in self.branches.values() if one.held and one is not branch]
        for number, group in enumerate(self.groups):
            kept = {block for one in others for block in one.tables[number]}
            tail = len(branch) % self.block_size and branch.tables[number][-1] in kept
            need = self._more(branch, number, count) + int(bool(tail))
            kept = kept.union(branch.tables[number]) - {DROPPED}
            if need > group.count - len(kept):
                raise OutOfBlocks(
                    f"the KV pool is full: raise the KV budget (the branches in use hold "
                    f"{len(kept)} of its {group.count} blocks of {self.block_size} positions, and "
                    f"a pass over {count:,} more needs {need})"
                )
        while self._is_short(branch, count):
            if self.evict() is None:
                break

    def _is_short(self, branch: Branch, count: int) -> bool:
        """True if some group has fewer free blocks than ``count`` more positions need."""
        return any(
            self._more(branch, number, count) + self._is_shared_tail(branch, number) > group.free
            for number, group in enumerate(self.groups)
        )

    def _more(self, branch: Branch, number: int, count: int) -> int:
        return self._blocks(len(branch) + count) - len(branch.tables[number])

    def _is_shared_tail(self, branch: Branch, number: int) -> bool:
        """True if the next position goes into a block that others hold too."""
        if len(branch) % self.block_size == 0:
            return False
        return self.groups[number].refs[branch.tables[number][-1]] > 1

    def _extend_group(
        self, branch: Branch, number: int, start: int, count: int, copies: list[Copy]
    ) -> list[int]:
        group, table, size = self.groups[number], branch.tables[number], self.block_size
        if self._is_shared_tail(branch, number):
            source = table.pop()
            target = group.take(_last(table))
            copies.append(Copy(number, source, target, start % size))
            group.drop(source)
            table.append(target)
        while len(table) < self._blocks(start + count):
            table.append(group.take(_last(table)))
        return [
            slot
            for first, length in self.runs(branch, number, start, start + count)
            for slot in range(first, first + length)
        ]

    def _trim(self, branch: Branch) -> None:
        """Give back the blocks behind the branch's last position."""
        count = self._blocks(len(branch))
        for group, table in zip(self.groups, branch.tables, strict=True):
            while len(table) > count:
                block = table.pop()
                if block != DROPPED:
                    group.drop(block)

    def _drop_unseen(self, branch: Branch, keep: int) -> None:
        for number, (group, table) in enumerate(zip(self.groups, branch.tables, strict=True)):
            end = (self.first_seen(number, len(branch)) - keep) // self.block_size
            for at in range(end - 1, -1, -1):
                if table[at] == DROPPED:
                    break
                group.drop(table[at])
                table[at] = DROPPED


def _last(table: Sequence[int]) -> int | None:
    return table[-1] if table and table[-1] != DROPPED else None
