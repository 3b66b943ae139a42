"""Pools that are odd, none at all, or cannot be: the KV pane says so and breaks nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.records.cache import GroupState, KVState, PoolState
from engine.records.model import KVStorage
from inspector.panes.kv.branch import Place
from inspector.panes.kv.detail import block_lines, last_node
from inspector.panes.kv.pool import PoolLook, contradiction, pool_look
from tests.fake_pools import FORKED, LONG, SIDE, branch, forked, kv_lines, pool
from tests.fakes import SMOLLM2, chunk, kv, prefill, prompt, step, texts, timing, view

# --- records that cannot be -----------------------------------------------------------------


def group(**changes: object) -> GroupState:
    return replace(FORKED.groups[0], **changes)  # type: ignore[arg-type]


def broken(**changes: object) -> PoolState:
    return replace(FORKED, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (broken(reserved_bytes=10**400), "its sizes are impossible"),
        (broken(wasted_bytes=-1), "its sizes are impossible"),
        (broken(forks=1 << 40), "its counts are impossible"),
        (broken(block_size=1 << 40), "its counts are impossible"),
        (broken(used_bytes=1), "it holds more than it has room for"),
        (
            broken(branches=(replace(LONG, length=10**9), SIDE)),
            "a branch's table is not as long as the branch",
        ),
        (broken(branches=(replace(LONG, length=-5), SIDE)), "its counts are impossible"),
        (
            broken(groups=(group(filled=FORKED.groups[0].filled + 99),)),
            "a block holds more positions than it has",
        ),
        (
            broken(groups=(group(refs=FORKED.groups[0].refs * 0.5),)),
            "its blocks are not counted in whole numbers",
        ),
        (
            broken(groups=(group(blocks=10**400),)),
            "its counts are impossible",
        ),
    ],
)
def test_a_record_that_contradicts_itself_is_not_drawn(state: PoolState, why: str) -> None:
    assert contradiction(state) == why
    for width, height in ((40, 8), (75, 12), (156, 44)):
        shown = texts(kv_lines(forked(state), width, height))
        assert "! the pool's record is not drawn" in shown
        assert "Logical blocks" in shown


def test_a_record_that_may_be_true_is_drawn() -> None:
    assert contradiction(FORKED) == ""
    assert contradiction(pool()) == ""


# --- whatever there is ----------------------------------------------------------------------

pools = st.builds(
    lambda lengths, tables, nodes, held, size, evicted, window: pool(
        *(
            branch(
                number,
                length,
                [(start + at * stride) % 300 for at in range(-(-length // size))],
                [-1 if at < window else start + at for at in range(-(-length // size))],
                node=node,
                held=number in held,
            )
            for number, (length, (start, stride), node) in enumerate(
                zip(lengths, tables, nodes, strict=True)
            )
        ),
        current=0 if lengths else None,
        size=size,
        evicted=evicted,
        windows=(None, 8),
        layers=((0, 1), tuple(range(2, 30))),
        blocks=400,
    ),
    st.lists(st.integers(0, 200), min_size=4, max_size=4),
    st.lists(st.tuples(st.integers(0, 200), st.integers(1, 3)), min_size=4, max_size=4),
    st.lists(st.none() | st.integers(-2, 40), min_size=4, max_size=4),
    st.sets(st.integers(0, 3)),
    st.integers(1, 33),
    st.sets(st.integers(0, 350), max_size=5),
    st.integers(0, 3),
)


@settings(max_examples=60, deadline=None)
@given(
    pools,
    st.integers(0, 34),
    st.integers(1, 170),
    st.integers(1, 50),
    st.integers(0, 1),
    st.integers(0, 350),
)
def test_no_line_breaks_its_frame(
    state: PoolState, cursor: int, width: int, height: int, group: int, block: int
) -> None:
    shown = forked(state, cursor)
    place = Place(group, block)
    lines = kv_lines(shown, width, height, place)
    found = pool_look(shown)
    if isinstance(found, PoolLook) and block < len(found.groups[group].kind):
        lines += block_lines(shown, found, place, width)
        node = last_node(shown, found, place)
        assert node is None or node == 0 or node in shown.log.nodes
    assert all(line.cell_length <= width for line in lines)


def test_where_there_is_no_pool_the_engine_says_why() -> None:
    note = "no pool of KV blocks: layer 3 keeps one vector for all heads"
    facts = replace(SMOLLM2, notes=("something else", note))
    shown = texts(kv_lines(view(facts, prompt(4), prefill(chunk(0, 4, 5.0))), 75, 20))
    assert note in shown
    assert "something else" not in shown
    assert "Logical blocks of 16: 1 of 512 in use" in shown


def test_without_a_cache_there_are_no_blocks() -> None:
    facts = replace(
        SMOLLM2,
        kv_storage=KVStorage(cached=False),
        kv_bytes_per_token_expected=None,
        kv_note="off, as was asked for (--no-cache)",
    )
    read = replace(prefill(chunk(0, 4, 5.0)), kv=KVState(4, 0, None, 4, 0))
    shown = texts(kv_lines(view(facts, prompt(4), read), 75, 20))
    assert "cache now   —  off, as was asked for (--no-cache)" in shown
    assert "n/a  no cache: each pass reads all of it again" in shown
    assert "█" not in shown


def test_a_pool_without_a_run() -> None:
    assert "nothing in it yet" in texts(kv_lines(view(SMOLLM2, pool()), 75, 12))
    assert "table  nothing read yet" in texts(kv_lines(view(SMOLLM2, pool()), 75, 12))


def test_a_full_pool_of_many_blocks_is_one_cell_each() -> None:
    long = branch(1, 8000, range(500), node=0, held=True)
    run = view(SMOLLM2, prompt(8000), step(1, timing(0.0), kv(8000)), pool(long, blocks=500))
    lines = texts(kv_lines(run, 49, 9)).splitlines()
    assert lines[4] == "  0 " + "█" * 40
    assert lines[15] == "440 " + "█" * 40
    assert lines[16] == "480 " + "█" * 20
