"""Prefix reuse: the rule, its arithmetic, and the words for a miss."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.kv import lookup
from engine.kv.blocks import Blocks
from engine.kv.pool import Pool
from engine.kv.prefix import chain, common_ids, common_keys, next_key, root_key
from engine.records.cache import PrefixReport

SIZE = 4
ROOT = root_key("model", "float16")


def pool_with(*prompts: list[int], blocks: int = 64) -> Pool:
    """A pool in which the prompts were read, one after another, and let go."""
    pool = Pool(groups=(Blocks(blocks),), block_size=SIZE, root=ROOT)
    for ids in prompts:
        report = start(pool, ids)
        assert report.cached + report.computed == report.prompt == len(ids)
    return pool


def start(pool: Pool, ids: list[int]) -> PrefixReport:
    branch, report = lookup.branch_for_prompt(pool, ids)
    rest = ids[report.cached :]
    pool.extend(branch, len(rest))
    pool.commit(branch, rest)
    assert branch.ids == ids
    pool.release(branch)
    return report


def upto(end: int) -> list[int]:
    return list(range(100, 100 + end))


# --- keys ---------------------------------------------------------------------------------------


def test_a_key_stands_for_everything_before_it() -> None:
    ids = upto(8)
    first, second = chain(ROOT, ids, SIZE)
    assert first == next_key(ROOT, ids[:4])
    assert second == next_key(first, ids[4:])
    assert chain(ROOT, [0, *ids[1:]], SIZE)[1] != second
    assert chain(root_key("model", "float32"), ids, SIZE)[0] != first
    assert root_key("a", "bc") != root_key("ab", "c")


def test_only_full_blocks_have_keys_and_known_ones_are_not_computed_again() -> None:
    assert chain(ROOT, upto(3), SIZE) == []
    keys = chain(ROOT, upto(11), SIZE)
    assert len(keys) == 2
    assert chain(ROOT, upto(12), SIZE, keys)[:2] == keys


@given(
    st.lists(st.integers(0, 1), max_size=40),
    st.lists(st.integers(0, 1), max_size=40),
    st.integers(0, 40),
)
def test_the_common_run_of_keys_is_that_of_the_tokens(
    ours: list[int], theirs: list[int], same: int
) -> None:
    theirs = [*ours[:same], *theirs]
    run = common_keys(chain(ROOT, ours, SIZE), chain(ROOT, theirs, SIZE))
    exact = common_ids(ours, theirs)
    assert run == exact // SIZE
    assert common_ids(ours, theirs, run * SIZE) == exact


# --- the rule -----------------------------------------------------------------------------------


def test_nothing_read_before() -> None:
    report = start(pool_with(), upto(9))
    assert (report.cached, report.computed, report.hit_blocks) == (0, 9, 0)
    assert report.reason == "nothing was read before"
    assert report.differs_at is None


def test_a_miss_names_the_first_token_that_differs() -> None:
    pool = pool_with(upto(20))
    report = start(pool, [*upto(10), 7, *upto(20)[11:]])
    assert (report.cached, report.computed, report.hit_blocks) == (8, 12, 2)
    assert (report.common, report.differs_at, report.ours, report.theirs) == (10, 10, 7, 110)
    assert report.reason == "the token at position 10 is another one"
    # Had the one token that varies come last, 19 of 20 would have been the same.
    assert report.moved_last == 16


def test_a_miss_at_once_says_that_no_block_is_common() -> None:
    report = start(pool_with(upto(20)), [1, *upto(20)[1:]])
    assert (report.cached, report.common) == (0, 0)
    assert report.reason == (
        "the token at position 0 is another one, and what is common is shorter than one block of 4"
    )


def test_shorter_than_one_block() -> None:
    report = start(pool_with(upto(3)), upto(9))
    assert report.cached == 0
    assert report.reason == "what was read before is shorter than one block of 4"
    report = start(pool_with(upto(9)), upto(3))
    assert (report.cached, report.common) == (0, 3)
    assert report.reason == "the prompt is shorter than one block of 4"


@pytest.mark.parametrize(("count", "cached", "hits"), [(16, 15, 4), (17, 16, 4), (19, 16, 4)])
def test_a_known_prompt(count: int, cached: int, hits: int) -> None:
    """All of its full blocks are found, and the last token is computed whatever is found."""
    report = start(pool_with(upto(count)), upto(count))
    assert (report.cached, report.computed, report.hit_blocks) == (cached, count - cached, hits)


def test_a_full_hit_computes_exactly_the_last_token() -> None:
    report = start(pool_with(upto(16)), upto(16))
    assert (report.cached, report.computed) == (15, 1)
    assert report.reason == (
        "all of it was read before: the last token is computed again for its logits"
    )


def test_a_longer_prompt_says_where_the_known_part_ends() -> None:
    report = start(pool_with(upto(10)), upto(20))
    assert (report.cached, report.common) == (8, 10)
    assert report.reason == "what was read before ends at position 10"
    report = start(pool_with(upto(20)), upto(10))
    assert (report.cached, report.common) == (8, 10)
    assert report.reason == "the prompt ends at position 10"


def test_the_longest_of_several_runs_is_taken() -> None:
    pool = pool_with(upto(8), [*upto(12), 1, 2], [*upto(8), 9, 9, 9, 9])
    report = start(pool, [*upto(12), 5, 6, 7])
    assert (report.cached, report.hit_blocks, report.differs_at) == (12, 3, 12)


def test_what_was_evicted_is_counted() -> None:
    pool = pool_with(upto(16), blocks=6)
    start(pool, [1] * 20)
    assert pool.counters.evicted_branches == 1
    report = start(pool, upto(16))
    assert (report.cached, report.evicted_blocks) == (0, 4)
    assert report.reason == "4 blocks of it were evicted to make room"
    # Read again, it is known again; what is closed on purpose was not evicted.
    assert start(pool, upto(16)).evicted_blocks == 0
    for branch in list(pool.branches.values()):
        pool.close(branch)
    assert start(pool, upto(16)).evicted_blocks == 0


def test_evicted_blocks_behind_a_hit_are_counted_too() -> None:
    pool = pool_with(upto(8), blocks=8)
    keep = next(iter(pool.branches.values()))
    pool.hold(keep)
    start(pool, upto(16))
    pool.evict()
    report = start(pool, upto(16))
    assert (report.cached, report.hit_blocks, report.evicted_blocks) == (8, 2, 2)


# --- the run's own tree -------------------------------------------------------------------------


def test_seek_counts_every_position_not_only_full_blocks() -> None:
    pool = pool_with(upto(11))
    branch = lookup.branch_for(pool, [*upto(10), 5])
    assert len(branch) == 10
    assert len(pool.branches) == 2


def test_seek_goes_to_the_tip_itself_rather_than_forking() -> None:
    pool = pool_with(upto(11))
    (trunk,) = pool.branches.values()
    assert lookup.branch_for(pool, [*upto(11), 5]) is trunk
    assert trunk.held
    # The last token is always left to compute.
    fork = lookup.branch_for(pool, upto(11))
    assert fork is not trunk
    assert len(fork) == 10


def test_seek_prefers_the_branch_it_is_on() -> None:
    pool = pool_with(upto(11))
    (trunk,) = pool.branches.values()
    twin = pool.fork(trunk, 11)
    assert lookup.branch_for(pool, [*upto(11), 5], twin) is twin
    assert lookup.branch_for(pool, [*upto(11), 5], trunk) is trunk


def test_seek_finds_nothing_for_a_first_or_unknown_token() -> None:
    pool = pool_with(upto(11))
    for ids in ([100], [1, 2, 3]):
        assert len(lookup.branch_for(pool, ids)) == 0
