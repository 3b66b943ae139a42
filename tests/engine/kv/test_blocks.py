"""The pool's books, without a tensor: free runs, sharing, copy-on-write, eviction."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    precondition,
    rule,
)

from engine.kv import lookup
from engine.kv.blocks import Blocks
from engine.kv.branch import Branch, OutOfBlocks
from engine.kv.pool import Pool
from engine.kv.prefix import root_key
from engine.records.cache import DROPPED


def pool_of(blocks: int = 32, size: int = 4, window: int | None = None, **more: object) -> Pool:
    return Pool(
        groups=(Blocks(blocks),), windows=(window,), block_size=size, root=root_key("test"), **more
    )  # type: ignore[arg-type]


def read(pool: Pool, branch: Branch, ids: list[int]) -> None:
    pool.extend(branch, len(ids))
    pool.commit(branch, ids)


# --- blocks -------------------------------------------------------------------------------------


def test_blocks_of_one_branch_lie_in_a_row() -> None:
    pool = pool_of()
    branch = pool.open()
    read(pool, branch, list(range(30)))
    assert branch.tables == [[0, 1, 2, 3, 4, 5, 6, 7]]
    assert pool.runs(branch, 0, 0, 30) == [(0, 30)]


def test_a_second_branch_leaves_the_first_one_room_to_grow() -> None:
    pool = pool_of(blocks=1000)
    first, second = pool.open(), pool.open()
    read(pool, first, [1] * 40)
    read(pool, second, [2] * 4)
    assert second.tables == [[10 + 64]]
    read(pool, first, [1] * 40)
    assert pool.runs(first, 0, 0, 80) == [(0, 80)]


def test_freed_blocks_join_their_neighbours() -> None:
    blocks = Blocks(6)
    taken = [blocks.take(None if at == 0 else at - 1) for at in range(6)]
    assert taken == [0, 1, 2, 3, 4, 5]
    for block in (1, 3, 2, 0, 5, 4):
        blocks.drop(block)
    assert blocks._starts == [0]
    assert blocks._lengths == {0: 6}


def test_a_free_block_can_be_neither_shared_nor_freed() -> None:
    blocks = Blocks(2)
    with pytest.raises(ValueError, match="block 1 is free"):
        blocks.share(1)
    with pytest.raises(ValueError, match="block 1 is free"):
        blocks.drop(1)
    blocks.take(None)
    blocks.take(0)
    with pytest.raises(IndexError):
        blocks.take(1)


# --- forks and copy-on-write --------------------------------------------------------------------


def test_a_fork_shares_blocks_and_copies_at_most_one_when_first_written() -> None:
    pool = pool_of(blocks=600, size=16)
    trunk = pool.open()
    read(pool, trunk, list(range(4000)))  # 250 blocks
    used = 600 - pool.groups[0].free
    fork = pool.fork(trunk, 3990)  # 249 full blocks and 6 positions of the last one
    assert used == 600 - pool.groups[0].free == 250
    assert fork.tables == trunk.tables
    extension = pool.extend(fork, 1)
    pool.commit(fork, [7])
    (copy,) = extension.copies
    assert (copy.source, copy.count) == (trunk.tables[0][249], 6)
    assert fork.tables[0][249] == copy.target != trunk.tables[0][249]
    assert pool.extend(fork, 1).copies == ()


def test_a_fork_at_the_end_of_a_block_copies_nothing() -> None:
    pool = pool_of()
    trunk = pool.open()
    read(pool, trunk, [1] * 10)
    fork = pool.fork(trunk, 8)
    assert fork.tables == [[0, 1]]
    assert pool.extend(fork, 1).copies == ()


def test_whoever_writes_first_copies_and_the_other_then_writes_in_place() -> None:
    pool = pool_of()
    trunk = pool.open()
    read(pool, trunk, [1, 2])
    fork = pool.fork(trunk, 2)
    assert len(pool.extend(trunk, 1).copies) == 1
    pool.commit(trunk, [3])
    assert pool.extend(fork, 1).copies == ()
    pool.commit(fork, [4])
    assert (trunk.ids, fork.ids) == ([1, 2, 3], [1, 2, 4])
    assert trunk.tables[0] != fork.tables[0]


def test_an_abandoned_pass_leaves_the_branch_as_it_was() -> None:
    pool = pool_of()
    branch = pool.open()
    read(pool, branch, [1] * 6)
    free = pool.groups[0].free
    pool.extend(branch, 9)
    with pytest.raises(ValueError, match="under way"):
        pool.extend(branch, 1)
    pool.abandon(branch)
    assert (pool.groups[0].free, len(branch), branch.tables) == (free, 6, [[0, 1]])


def test_truncate_gives_whole_blocks_back() -> None:
    pool = pool_of()
    branch = pool.open()
    read(pool, branch, list(range(11)))
    pool.truncate(branch, 5)
    assert (branch.ids, branch.tables, len(branch.keys)) == ([0, 1, 2, 3, 4], [[0, 1]], 1)
    pool.truncate(branch, 0)
    assert pool.groups[0].free == 32
    with pytest.raises(ValueError, match="has 0 positions, not 1"):
        pool.truncate(branch, 1)


# --- eviction -----------------------------------------------------------------------------------


def test_branches_that_nobody_holds_are_evicted_oldest_first() -> None:
    pool = pool_of(blocks=8)
    first, second, third = (pool.open() for _ in range(3))
    read(pool, first, [1] * 8)
    read(pool, second, [2] * 8)
    read(pool, third, [3] * 8)
    pool.release(second)
    pool.release(first)
    pool.hold(second)  # looked at again: now the first is the oldest
    pool.release(second)
    read(pool, third, [3] * 16)
    assert set(pool.branches) == {second.number, third.number}
    assert pool.counters.evicted_branches == 1
    assert pool.counters.evicted_blocks == 2


def test_eviction_leaves_shared_blocks_to_those_who_share_them() -> None:
    pool = pool_of(blocks=8)
    trunk = pool.open()
    read(pool, trunk, [1] * 16)
    fork = pool.fork(trunk, 8)
    pool.release(trunk)
    read(pool, fork, [2] * 24)  # needs 8 blocks in all: the trunk's own two must go
    assert len(pool.branches) == 1
    assert pool.counters.evicted_blocks == 2
    assert fork.tables[0][:2] == [0, 1]


def test_what_is_held_is_never_evicted_and_a_full_pool_says_so() -> None:
    pool = pool_of(blocks=4)
    held, idle, branch = pool.open(), pool.open(), pool.open()
    read(pool, held, [1] * 8)
    read(pool, idle, [2] * 4)
    pool.release(idle)
    with pytest.raises(
        OutOfBlocks, match=r"raise the KV budget \(.* hold 2 of its 4 blocks .* needs 3\)"
    ):
        pool.extend(branch, 12)
    # Nobody was evicted for a pass that could not be.
    assert idle.number in pool.branches
    assert branch.pending == 0
    read(pool, branch, [3] * 8)
    assert idle.number not in pool.branches


# --- windows ------------------------------------------------------------------------------------


def test_a_window_gives_blocks_back_and_says_what_can_no_longer_be_read() -> None:
    pool = pool_of(size=2, window=4, window_keep=0)
    branch = pool.open()
    read(pool, branch, list(range(12)))
    # Position 12 sees 9, 10, 11: the block of 8 and 9 is the first one needed.
    assert branch.tables[0][:4] == [DROPPED] * 4
    assert pool.first_held(branch, 0) == 8
    assert pool.readable(branch, 12)
    assert pool.readable(branch, 11)
    assert not pool.readable(branch, 10)  # it would see 7
    with pytest.raises(ValueError, match="left the sliding window"):
        pool.truncate(branch, 5)
    with pytest.raises(ValueError, match="given back"):
        pool.runs(branch, 0, 4, 9)
    pool.close(branch)
    assert pool.groups[0].free == 32


def test_without_a_limit_a_window_keeps_all_and_everything_can_be_gone_back_to() -> None:
    pool = pool_of(size=2, window=4)
    branch = pool.open()
    read(pool, branch, list(range(12)))
    assert all(pool.readable(branch, length) for length in range(13))
    assert pool.first_seen(0, 12) == 9


# --- any sequence of operations -----------------------------------------------------------------

TOKENS = st.lists(st.integers(0, 2), min_size=1, max_size=9)


class AnySequence(RuleBasedStateMachine):
    """Whatever is done, every branch reads back the tokens that were written to it.

    ``memory`` stands for the tensors: at each physical position, the token written there.
    """

    branches = Bundle("branches")

    def __init__(self) -> None:
        super().__init__()
        self.pool = self.make()
        self.memory: dict[tuple[int, int], int] = {}
        self.expected: dict[int, list[int]] = {}
        self.lost: set[int] = set()

    def make(self) -> Pool:
        return pool_of(blocks=12, size=4)

    def note_evictions(self) -> None:
        self.lost |= {number for number in self.expected if number not in self.pool.branches}

    def alive(self, branch: Branch) -> bool:
        return branch.number in self.pool.branches

    @rule(target=branches)
    def open(self) -> Branch:
        branch = self.pool.open()
        self.expected[branch.number] = []
        return branch

    @rule(target=branches, ids=TOKENS, tree=st.booleans())
    def look_up(self, ids: list[int], tree: bool) -> Branch:
        if tree:
            branch = lookup.branch_for(self.pool, ids)
        else:
            branch, report = lookup.branch_for_prompt(self.pool, ids)
            assert report.cached + report.computed == report.prompt == len(ids)
            assert report.computed >= 1
            assert len(branch) == report.cached
        assert branch.ids == ids[: len(branch)]
        assert len(branch) < len(ids)
        assert branch.held
        self.expected[branch.number] = list(branch.ids)
        return branch

    @rule(target=branches, branch=branches, share=st.floats(0, 1))
    def fork(self, branch: Branch, share: float) -> object:
        if not self.alive(branch):
            return multiple()
        at = round(share * len(branch))
        if not self.pool.readable(branch, at):
            with pytest.raises(ValueError, match="sliding window"):
                self.pool.fork(branch, at)
            return multiple()
        free = self.pool.groups[0].free
        twin = self.pool.fork(branch, at)
        assert self.pool.groups[0].free == free
        self.expected[twin.number] = self.expected[branch.number][:at]
        return twin

    @rule(branch=branches, ids=TOKENS, fails=st.booleans())
    def read(self, branch: Branch, ids: list[int], fails: bool) -> None:
        if not self.alive(branch):
            return
        try:
            extension = self.pool.extend(branch, len(ids))
        except OutOfBlocks:
            return
        finally:
            self.note_evictions()
        size = self.pool.block_size
        assert len(extension.copies) <= len(self.pool.groups)
        for copy in extension.copies:
            for offset in range(copy.count):
                self.memory[copy.group, copy.target * size + offset] = self.memory[
                    copy.group, copy.source * size + offset
                ]
        for group, slots in enumerate(extension.slots):
            for slot, token in zip(slots, ids, strict=True):
                self.memory[group, slot] = token
        if fails:
            self.pool.abandon(branch)
        else:
            self.pool.commit(branch, ids)
            self.expected[branch.number].extend(ids)

    @rule(branch=branches, share=st.floats(0, 1))
    def truncate(self, branch: Branch, share: float) -> None:
        length = round(share * len(branch))
        if self.alive(branch) and self.pool.readable(branch, length):
            self.pool.truncate(branch, length)
            del self.expected[branch.number][length:]

    @rule(branch=branches)
    def release(self, branch: Branch) -> None:
        if self.alive(branch):
            self.pool.release(branch)
            self.note_evictions()

    @rule(branch=consumes(branches))
    def close(self, branch: Branch) -> None:
        if self.alive(branch):
            self.pool.close(branch)
            self.note_evictions()

    @precondition(lambda self: self.pool.branches)
    @rule()
    def evict(self) -> None:
        idle = [branch.used for branch in self.pool.branches.values() if not branch.held]
        gone = self.pool.evict()
        assert (gone is None) == (not idle)
        self.note_evictions()

    @invariant()
    def every_branch_reads_back_its_tokens(self) -> None:
        for branch in self.pool.branches.values():
            expected = self.expected[branch.number]
            assert branch.ids == expected
            for group in range(len(self.pool.groups)):
                first = max(
                    self.pool.first_seen(group, len(branch)), self.pool.first_held(branch, group)
                )
                places = [
                    place
                    for start, count in self.pool.runs(branch, group, first, len(branch))
                    for place in range(start, start + count)
                ]
                assert [self.memory[group, place] for place in places] == expected[first:]

    @invariant()
    def references_are_those_of_the_tables(self) -> None:
        for number, blocks in enumerate(self.pool.groups):
            counted = [0] * blocks.count
            for branch in self.pool.branches.values():
                table = [block for block in branch.tables[number] if block != DROPPED]
                assert len(set(table)) == len(table)
                assert len(branch.tables[number]) == -(-len(branch) // self.pool.block_size)
                for block in table:
                    counted[block] += 1
            assert counted == blocks.refs
            assert blocks.free == counted.count(0)
            free = [
                block
                for start in blocks._starts
                for block in range(start, start + blocks._lengths[start])
            ]
            assert free == [block for block, refs in enumerate(counted) if not refs]

    def teardown(self) -> None:
        for branch in list(self.pool.branches.values()):
            self.pool.close(branch)
        assert all(not any(blocks.refs) for blocks in self.pool.groups)
        assert all(blocks.free == blocks.count for blocks in self.pool.groups)


class AnySequenceWithWindows(AnySequence):
    """The same with a second group of layers that gives back what left its window."""

    def make(self) -> Pool:
        return Pool(
            groups=(Blocks(12), Blocks(9)),
            windows=(None, 5),
            block_size=4,
            root=root_key("test"),
            window_keep=2,
        )


TestAnySequence = AnySequence.TestCase
TestAnySequenceWithWindows = AnySequenceWithWindows.TestCase
for case in (TestAnySequence, TestAnySequenceWithWindows):
    case.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
