"""The pool of blocks as the KV pane draws it: 46,080 bytes a position, 16 positions a block."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.content import Content

from engine.records.events import RunState, StateChanged
from engine.records.vocabulary import Token
from inspector.panes.kv.branch import Place, TextTree, cursor_branch
from inspector.panes.kv.detail import block_lines, last_node
from inspector.panes.kv.figures import figures
from inspector.panes.kv.layout import KVRows, kv_rows
from inspector.panes.kv.pool import PoolLook, layer_ranges, pool_look
from inspector.panes.kv.table import Run, runs
from inspector.state.view import RunLog, View
from tests.fake_pools import FORKED, LONG, SIDE, branch, forked, kv_lines, pool
from tests.fakes import kv, prompt, step, texts, timing


def picture(lines: Sequence[Content]) -> str:
    return "\n" + texts(lines) + "\n"


def looked(shown: View) -> PoolLook:
    found = pool_look(shown)
    assert isinstance(found, PoolLook)
    return found


# --- pictures -------------------------------------------------------------------------------


def test_a_fork_in_a_third_of_a_wide_screen() -> None:
    assert (
        picture(kv_lines(forked(FORKED), 49, 9))
        == """
cache now   2.33 MiB •   53 positions
this pass   52 cached + 1 computed = 53 positions
a token     45.0 KiB •   46,080 bytes
Pool: 6 of 2,048 blocks of 16 in use ────────────
 0  2 2 2 ░ ▂  … 63 free … [▂]
    … 1,979 more, never used
table  0–2 → 0–2 · 3 → 68  2 pieces
█ this  2 shared  ░ cached  · free
  expected  45.0 KiB ƒ   = 2×30×3×64×4 B
heads       9 query, 3 K/V; 30 layers
  ungrouped 135 KiB ƒ   9 K/V heads: 3× ƒ
at the end  360 MiB ƒ   8,192 positions
The pool ────────────────────────────────────────
reserved    1.41 GiB •
  used      4.22 MiB •   6 blocks, each once
  filled    3.25 MiB •   77% ƒ of used
  wasted    495 KiB •   17% ƒ, in the last block
  unpaged   358 MiB ƒ   wasted without blocks
branches    1 held, 1 cached
shared      1 fork, 1 block copied on writing
evicted     nothing so far
"""
    )


def test_a_fork_in_a_small_terminal_has_a_cell_for_each_position() -> None:
    assert (
        picture(kv_lines(forked(FORKED), 75, 10)[3:9])
        == """
Pool: 6 of 2,048 blocks of 16 in use ──────────────────────────────────────
 0  2███████████████ 2███████████████ 2███████████████ ░░░░░░░░░░░░░░░░
 4  ░░░░░···········  … 63 free … [█████···········]
    … 1,979 more, never used
table  0–2 → 0–2 · 3 → 68  2 pieces: gathered into a buffer at each pass
█ this branch   ▃ part   2 shared by 2   ░ cached   · free
"""
    )


def test_zoomed_the_table_block_by_block_and_all_branches() -> None:
    right = [line.plain[64:].rstrip() for line in kv_lines(forked(FORKED), 156, 40)]
    assert right[5:17] == [
        "",
        "Block by block " + "─" * 77,
        "   logical    block refs  filled     positions  text",
        *(
            f"         {n}        {n}    2   16/16{where:>14}   word word word word word word word word wo…"
            for n, where in enumerate(("0–15", "16–31", "32–47"))
        ),
        "▸        3       68    1    5/16         48–52   word word other word word",
        "",
        "Branches in the pool: 2 " + "─" * 68,
        " state   positions  blocks  shared  ends with",
        " held           53       4       3  this branch …d word word word word word other word word",
        " cached         69       5       3  node 29's …word word word word word word word word word",
    ]


def test_a_block_with_free_ones_before_it_says_why() -> None:
    """F12: block 65 was taken with 64 free before it, as each branch is to stay in one piece."""
    shown = forked(FORKED)
    (first, _) = block_lines(shown, looked(shown), Place(0, 68), 90)
    assert first.plain.endswith("  ·  63 free before it: room to grow")
    (first, _) = block_lines(shown, looked(shown), Place(0, 2), 90)
    assert "free before it" not in first.plain


def test_at_an_earlier_token_what_comes_after_it_in_its_block_is_told_apart() -> None:
    # Node 12 is at position 51: three positions of block 3 led to it.
    shown = kv_lines(forked(FORKED, 12), 75, 10)
    assert shown[4].plain[4:] == (
        "2███████████████ 2███████████████ 2███████████████[███▒▒▒▒▒▒▒▒▒▒▒▒▒]"
    )
    # What the other branch holds is held, but not ours.
    assert shown[5].plain.rstrip() == " 4  ░░░░░···········  … 63 free …  ▓▓▓▓▓···········"
    assert shown[7].plain.startswith("table  0–3 → 0–3  in one piece: read as a view, no copy")
    assert "▒ after" in shown[8].plain


def test_at_the_prompt_its_own_blocks() -> None:
    shown = kv_lines(forked(FORKED, 0), 75, 10)
    assert shown[4].plain[37:55] == "[2███████▒▒▒▒▒▒▒▒]"


def test_thrown_out_blocks_stay_marked_and_the_text_that_is_gone_is_named() -> None:
    # The long branch had blocks 3 and 4; positions 0–49 of it are the other one's too.
    state = pool(
        SIDE, current=2, evicted=(3, 4), evicted_branches=1, evicted_blocks=2, copied_blocks=1
    )
    shown = texts(kv_lines(forked(state, 30), 75, 11))
    # Of block 68 two positions are before the fork, and so ours.
    assert " 4  ××××××××××××××××  … 63 free … [██▒▒▒···········]" in shown
    assert "! positions 50–68 not in the pool: going on here reads them again" in shown
    assert "table  0–2 → 0–2 · 3 → 68  2 pieces" in shown
    assert "evicted     2 blocks of 1 branch, to make room" in shown
    assert "× evicted" in shown


def test_while_it_runs_a_step_may_be_ahead_of_the_pool() -> None:
    lagging = pool(replace(LONG, length=60, tables=(np.arange(4, dtype=np.int32),)), current=1)
    run = forked(lagging, 30)
    assert "! positions 60–68 not in the pool" in texts(kv_lines(run, 75, 11))
    run.log.add(StateChanged(RunState.RUNNING))
    assert "not in the pool" not in texts(kv_lines(run, 75, 11))


def test_groups_of_layers_have_a_grid_each_and_what_left_the_window_is_dropped() -> None:
    two = branch(1, 69, (0, 1, 2, 3, 4), (-1, -1, 0, 1, 2), node=29, held=True)
    state = pool(
        two,
        current=1,
        windows=(None, 24),
        layers=((5, 11), (0, 1, 2, 3, 4, 6, 7, 8, 9, 10)),
        blocks=40,
    )
    assert (
        picture(kv_lines(forked(state, 30), 75, 16)[3:13])
        == """
Pool: 8 of 80 blocks of 16 in use ─────────────────────────────────────────
all positions, 2 layers: layers 5, 11; 40 blocks
 0  ████████████████ ████████████████ ████████████████ ████████████████
 4 [█████···········] … 35 more, never used
window 24, 10 layers: layers 0–4, 6–10; 40 blocks
 0  ████████████████ ████████████████ █████···········
    … 37 more, never used
table  0–4 → 0–4  in one piece: read as a view, no copy
       0–1 → dropped · 2–4 → 0–2  in one piece: read as a view, no copy
█ this branch   ▃ part
"""
    )


def test_eight_bits_are_set_against_sixteen() -> None:
    # 2 × 30 × 3 vectors of 64 numbers, with a scale of two bytes each: 11,880 bytes against 23,040.
    group = FORKED.groups[0]
    state = replace(FORKED, quantized=True, groups=(replace(group, block_bytes=11_880 * 16),))
    shown = texts(kv_lines(forked(state), 75, 30))
    assert "  8 bits    11.6 KiB •   a token: 0.52× of float16's 22.5 KiB ƒ" in shown
    assert "2 pieces: 8 bits, widened at each pass" in shown


def test_a_pass_that_had_to_do_more_says_so() -> None:
    moved = replace(kv(50, computed=12), copied_blocks=1, evicted_blocks=3)
    again = forked(FORKED, 31, kv=moved, timing=timing(9.0, reread=True))
    assert figures(again, moved, 130)[0][1].plain == (
        "this pass   38 cached + 12 computed = 50 positions; read again: not all of it was there; 3 "
        "blocks evicted; 1 block copied"
    )
    assert "read again: not all of it was there" in texts(kv_lines(again, 75, 20))
    alone = forked(FORKED, 31, kv=kv(50), timing=timing(9.0, reread=True))
    assert figures(alone, alone.log.nodes[31].kv, 80)[0][1].plain == (
        "this pass   49 cached + 1 computed = 50 positions; read again: for its logits"
    )
    assert "this pass   49 cached + 1 computed; read again" in texts(kv_lines(alone, 49, 9))
    copied = forked(FORKED, 31, kv=replace(kv(50), copied_blocks=1))
    assert "49 cached + 1 computed = 50 positions; 1 block copied" in texts(
        kv_lines(copied, 75, 20)
    )


def test_a_new_prompt_is_not_taken_for_the_one_before() -> None:
    run = forked(FORKED)
    run.log.add(prompt(40))
    shown = looked(View(run.log, 0))
    assert shown.cursor.branch is None
    assert all(one.node is None for one in shown.pool.branches)


# --- which branch ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cursor", "wanted", "covered", "number"),
    [
        (34, 53, 53, 2),
        (33, 52, 52, 2),
        (30, 69, 69, 1),
        (29, 68, 68, 1),
        (5, 44, 44, 2),  # both have it; the engine goes on with this one
        (0, 40, 40, 2),
    ],
)
def test_the_branch_that_covers_most(cursor: int, wanted: int, covered: int, number: int) -> None:
    shown = forked(FORKED, cursor)
    found = cursor_branch(shown, FORKED, TextTree(shown.log.tree))
    assert found.branch is not None
    assert (found.wanted, found.covered, found.branch.number) == (wanted, covered, number)


def test_a_branch_without_a_node_or_with_an_unknown_one_covers_nothing() -> None:
    for node in (None, 99, -1):
        state = pool(replace(LONG, node=node), current=1)
        shown = forked(state, 30)
        found = cursor_branch(shown, state, TextTree(shown.log.tree))
        assert (found.covered, found.branch) == (0, None)


def test_nodes_of_the_same_text_are_one() -> None:
    # 1 and 4 both say "a"; below them 2 and 5 both say "b", 3 says "c" and 6 "d".
    log = RunLog()
    for node, parent, text in zip(range(1, 7), (0, 1, 2, 0, 4, 5), b"abcabd", strict=True):
        said = Token(text, bytes([text]))
        log.add(replace(step(node, timing(1.0), kv(node), parent=parent), token=said))
    tree = TextTree(log.tree)
    assert tree.common(2, 5) == 2
    assert tree.common(3, 6) == 2
    assert tree.common(3, 4) == 1
    assert log.tree.common(3, 6) == 0
    assert tree.common(3, 9) is tree.common(9, 3) is None
    log.add(replace(step(9, timing(1.0), kv(9), parent=5), token=Token(ord("c"), b"c")))
    assert tree.common(3, 9) == 3, "the tree grows with the run"


def test_another_branch_of_the_same_text_will_do() -> None:
    # Node 31 drew what node 11 had: both lines are the same text, and only one is in the pool.
    state = pool(SIDE, current=2)
    twin = forked(state, 14, token=Token(7, b" word"))
    found = looked(twin)
    assert found.cursor.branch is state.branches[0]
    assert (found.cursor.wanted, found.cursor.covered) == (53, 53)
    assert "not in the pool" not in texts(kv_lines(twin, 75, 12))
    # And one goes to the cursor's own nodes.
    assert last_node(twin, found, Place(0, 68)) == 13
    assert last_node(twin, found, Place(0, 2)) == 8
    other = forked(state, 14)
    assert (looked(other).cursor.wanted, looked(other).cursor.covered) == (53, 50)


# --- the table as runs ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ([], []),
        ([7], ["0 → 7"]),
        ([64, 65, 66], ["0–2 → 64–66"]),
        ([3, 2, 1], ["0 → 3", "1 → 2", "2 → 1"]),
        ([-1, -1, 0, 1, 9], ["0–1 → dropped", "2–3 → 0–1", "4 → 9"]),
        ([-1, 0], ["0 → dropped", "1 → 0"]),
    ],
)
def test_runs(table: list[int], expected: list[str]) -> None:
    assert [run.words for run in runs(np.array(table, np.int32))] == expected


@given(st.lists(st.integers(-1, 6), max_size=30))
def test_runs_are_the_table_again(table: list[int]) -> None:
    again = [
        -1 if run.block < 0 else run.block + at
        for run in runs(np.array(table, np.int32))
        for at in range(run.blocks)
    ]
    assert again == table
    found = runs(np.array(table, np.int32))
    assert not any(
        one.block >= 0 and other.block == one.block + one.blocks
        for one, other in itertools.pairwise(found)
    )


def test_a_scattered_branch_shows_as_many_runs_as_fit_and_its_end() -> None:
    scattered = branch(1, 64, (0, 9, 5, 30), node=24, held=True)
    state = pool(scattered, current=1)
    shown = texts(kv_lines(forked(state, 25), 40, 12))
    assert "table  … 3 more · 3 → 30  4 pieces" in shown
    assert "table  0 → 0 · 1 → 9 · 2 → 5 · 3 → 30  4 pieces: gathered" in texts(
        kv_lines(forked(state, 25), 150, 20)
    )


def test_layers_in_ranges() -> None:
    assert layer_ranges((0, 1, 2, 4, 6, 7)) == "0–2, 4, 6–7"
    assert Run(0, 5, 1).words == "0 → 5"


# --- where a block is on the screen ---------------------------------------------------------


def rows(shown: View, width: int, height: int) -> KVRows:
    return kv_rows(shown, width, height, looked(shown))


@pytest.mark.parametrize(("width", "height"), [(49, 9), (75, 10), (92, 10), (156, 40), (20, 8)])
def test_every_block_is_found_where_it_is_drawn(width: int, height: int) -> None:
    lines = rows(forked(FORKED), width, height)
    drawn = {lines.block_at(row, x) for row in range(len(lines)) for x in range(width)} - {None}
    assert drawn == {Place(0, block) for block in (0, 1, 2, 3, 4, 68)}
    place: Place | None = Place(0, 0)
    walked = []
    while place is not None:
        walked.append(place.block)
        assert lines.row_of(place) is not None
        place = replace(lines, chosen=place).beside(1)
    assert walked == [0, 1, 2, 3, 4, 68]
    assert replace(lines, chosen=Place(0, 68)).beside(-1) == Place(0, 4)
    assert replace(lines, chosen=Place(0, 0)).beside(-1) is None
    # A block in a fold is not drawn; from there one goes to the first.
    assert lines.row_of(Place(0, 30)) is None
    assert replace(lines, chosen=Place(0, 30)).beside(1) == Place(0, 0)


def test_up_and_down_go_to_what_is_above_and_below() -> None:
    lines = rows(forked(FORKED), 75, 10)
    assert replace(lines, chosen=Place(0, 0)).below(1) == Place(0, 4)
    assert replace(lines, chosen=Place(0, 3)).below(1) == Place(0, 68)
    assert replace(lines, chosen=Place(0, 68)).below(-1) == Place(0, 2)
    assert replace(lines, chosen=Place(0, 68)).below(1) is None
