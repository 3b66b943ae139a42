"""The KV cache pane as pictures: 2 × 30 layers × 3 heads × 64 wide × 4 bytes = 46,080 a token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from textual.content import Content
from textual.geometry import Size

from engine.records.cache import KVState
from engine.records.events import Record
from engine.records.model import ModelFacts
from inspector.draw.blocks import Block, grid
from inspector.panes.kv.figures import formula, per_token
from inspector.panes.kv.logical import free_blocks, logical_blocks
from inspector.panes.kv.pane import draw
from inspector.state.view import View
from tests.fake_pools import kv_lines
from tests.fakes import SMOLLM2, chunk, kv, prefill, prompt, step, texts, timing, view


def run(prompt_tokens: int, outputs: int) -> View:
    """A prompt and ``outputs`` tokens; the last one has not been read itself."""
    steps = [step(1, timing(0.0), kv(prompt_tokens, computed=prompt_tokens))]
    steps += [step(n, timing(100.0), kv(prompt_tokens + n - 1)) for n in range(2, outputs + 1)]
    read = prefill(chunk(0, prompt_tokens, 500.0))
    return view(SMOLLM2, prompt(prompt_tokens), read, *steps)


def picture(lines: Sequence[Content]) -> str:
    return "\n" + texts(lines) + "\n"


# --- pictures -------------------------------------------------------------------------------


def test_a_third_of_a_wide_screen() -> None:
    assert (
        picture(kv_lines(run(20, 3), 49, 11))
        == """
cache now   990 KiB •   22 positions
a token     45.0 KiB •   46,080 bytes
  expected  45.0 KiB ƒ   = 2×30×3×64×4 B
heads       9 query, 3 K/V; 30 layers
  ungrouped 135 KiB ƒ   9 K/V heads: 3× ƒ
this pass   21 cached + 1 computed = 22 positions
at the end  360 MiB ƒ   8,192 positions
Logical blocks: 2 of 512, newest 6/16 ───────────
 0  ████████████████[████▓▓··········]
32  ················ ················
█ prompt  ▓ output  ▃ filling  · free
"""
    )


def test_a_small_pane_shows_size_and_blocks_first_and_scrolls() -> None:
    assert (
        picture(kv_lines(run(20, 3), 36, 6))
        == """
cache now   990 KiB •   22 positions
a token     45.0 KiB •
Logical blocks: 2 of 512 ───────────
 0  ████████████████
16 [████▓▓··········]
█ prompt ▓ output
  expected  45.0 KiB ƒ
heads       9q 3kv 30L
  ungrouped 135 KiB ƒ   3× ƒ
this pass   21 cached + 1 computed
at the end  360 MiB ƒ
"""
    )


def test_figures_and_blocks_side_by_side_where_there_is_width() -> None:
    assert (
        picture(kv_lines(run(20, 3), 76, 9))
        == """
cache now   990 KiB •   22 positions            Logical blocks: 2 of 512 ───
a token     45.0 KiB •   46,080 bytes            0  ████████████████
  expected  45.0 KiB ƒ   = 2×30×3×64×4 B        16 [████▓▓··········]
heads       9 query, 3 K/V; 30 layers           32  ················
  ungrouped 135 KiB ƒ   9 K/V heads: 3× ƒ       48  ················
this pass   21 cached + 1 computed              64  ················
at the end  360 MiB ƒ   8,192 positions         80  ················
                                                96  ················
                                                █ prompt ▓ output
"""
    )


def test_zoomed_the_formula_the_whole_context_and_other_lengths() -> None:
    assert (
        picture(kv_lines(run(20, 3), 156, 44))
        == """
cache now   990 KiB •   22 positions stored, all seen           Logical blocks of 16: 2 of 512 in use, newest 6/16 filled ──────────────────────────────────
a token     45.0 KiB •   46,080 bytes, summed from the tensors   0  ████████████████[████▓▓··········]················ ················ ················
  expected  45.0 KiB ƒ   = 2 × 30 × 3 × 64 × 4 bytes            80  ················ ················ ················ ················ ················
            = K and V × layers × K/V heads × head dim × bytes   █ prompt   ▓ output   ▃ filling   · free   [ ] or ◂ newest
heads       9 query, 3 K/V: 3 queries share one; 30 layers
  ungrouped 135 KiB ƒ   a token, with 9 K/V heads: 3× ƒ         The whole context: 512 blocks ──────────────────────────────────────────────────────────────
this pass   21 cached + 1 computed = 22 positions                   0 █ ▃◂· · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · ·
at the end  360 MiB ƒ   of the context: 8,192 positions           640 · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · ·
                                                                1,280 · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · ·
At other lengths ƒ ───────────────────────────────────────────  1,920 · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · ·
  positions      cache  ungrouped of weights                    2,560 · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · ·
      1,024   45.0 MiB    135 MiB       8.8%                    3,200 · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · ·
      4,096    180 MiB    540 MiB        35%                    3,840 · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · ·
      8,192    360 MiB   1.05 GiB        70%  the whole         4,480 · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · ·
                                                                5,120 · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · ·
                                                                5,760 · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · ·
                                                                6,400 · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · ·
                                                                7,040 · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · ·
                                                                7,680 · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · ·
"""
    )


def test_many_blocks_are_one_cell_each_full_by_glyph_and_the_newest_marked() -> None:
    # 200 prompt tokens fill 12 blocks and half of the 13th, which 8 of the outputs complete;
    # 299 positions are 18 full blocks and 11/16 of the 19th.
    assert (
        picture(kv_lines(run(200, 100), 60, 9)[2:9])
        == """
Logical blocks: 19 of 512, newest 11/16 ────────────────────
    0 █ █ █ █ █ █ █ █ █ █ █ █ ▓ ▓ ▓ ▓ ▓ ▓ ▆◂· · · · ·
  384 · · · · · · · · · · · · · · · · · · · · · · · ·
  768 · · · · · · · · · · · · · · · · · · · · · · · ·
1,152 · · · · · · · · · · · · · · · · · · · · · · · ·
1,536 · · · · · · · · · · · · · · · · · · · · · · · ·
█ prompt   ▓ output   ▃ filling   · free   [ ] or ◂ newest
"""
    )


def test_more_blocks_than_fit_show_the_lines_around_the_newest() -> None:
    assert (
        picture(kv_lines(run(3000, 100), 49, 11)[7:])
        == """
Logical blocks: 194 of 512, newest 11/16 ────────
1,920 ████████████████████████████████████████
2,560 ███████████████████████████▓▓▓▓▓▓▆······
█ prompt  ▓ output  ▃ filling  · free
"""
    )


def test_case_69_a_recurrent_model_has_no_such_cache_and_says_so() -> None:
    facts = replace(
        SMOLLM2,
        kv_heads=0,
        query_heads=0,
        kv_bytes_per_token_expected=None,
        kv_note="recurrent state, constant size",
        cache_kind="recurrent state",
        context_length=None,
    )
    read = replace(prefill(chunk(0, 4, 5.0)), kv=KVState(4, 0, None, 4, 0))
    assert (
        picture(kv_lines(view(facts, prompt(4), read), 49, 11))
        == """
cache now   —  recurrent state, constant size
a token     n/a
heads       n/a  no attention heads
this pass   0 cached + 4 computed = 4 positions
at the end  —  context length not known
Logical blocks ──────────────────────────────────
n/a  it keeps no positions
"""
    )


def test_case_23_a_window_has_seen_more_than_it_stores() -> None:
    facts = replace(
        SMOLLM2,
        kv_bytes_per_token_expected=None,
        kv_note="30 of 30 layers keep at most 3 positions, so a token's share is not constant",
        cache_kind="sliding window",
    )
    steps = [
        step(1, timing(0.0), kv(3)),
        step(2, timing(10.0), KVState(7, 3, 300, 1, 6, block_size=4)),
    ]
    shown = view(facts, prompt(3), prefill(chunk(0, 3, 5.0)), *steps)
    assert (
        picture(kv_lines(shown, 49, 11))
        == """
cache now   300 B •   3 stored of 7 seen
a token     n/a  30 of 30 layers keep at most 3
            positions, so a token's share is not
            constant
heads       9 query, 3 K/V; 30 layers
this pass   6 cached + 1 computed = 7 positions
at the end  n/a  no fixed growth
Logical blocks: 2 of 2,048, newest 3/4 ──────────
 0  ××××[▓▓▓·]···· ···· ···· ···· ···· ···· ····
36  ···· ···· ···· ···· ···· ···· ···· ···· ····
█ prompt ▓ output × out of the window
"""
    )


def test_a_compressed_cache_is_measured_where_the_formula_does_not_hold() -> None:
    facts = replace(
        SMOLLM2,
        kv_bytes_per_token_expected=None,
        kv_note="measured 1,152 bytes a token, which the usual formula does not give",
    )
    read = replace(prefill(chunk(0, 4, 5.0)), kv=kv(4, computed=4, each=1152))
    assert (
        picture(kv_lines(view(facts, prompt(4), read), 49, 12))
        == """
cache now   4.50 KiB •   4 positions
a token     1.12 KiB •   1,152 bytes
  expected  n/a  measured 1,152 bytes a token,
            which the usual formula does not give
heads       9 query, 3 K/V; 30 layers
this pass   0 cached + 4 computed = 4 positions
at the end  9.00 MiB ƒ   8,192 positions
Logical blocks: 1 of 512, newest 4/16 ───────────
 0 [████············]················
32  ················ ················
64  ················ ················
█ prompt  ▓ output  ▃ filling  · free
"""
    )


def test_positions_are_drawn_even_where_their_bytes_are_not_known() -> None:
    read = replace(prefill(chunk(0, 4, 5.0)), kv=KVState(4, 4, None, 4, 0))
    shown = texts(kv_lines(view(SMOLLM2, prompt(4), read), 49, 14))
    assert "cache now   —  this cache does not tell its size" in shown
    assert " 0 [████············]" in shown


def test_before_anything_is_read() -> None:
    assert (
        picture(kv_lines(view(), 49, 11))
        == """
cache now   —  nothing read yet
a token     —  nothing read yet
this pass   —  none yet
Logical blocks ──────────────────────────────────
none: nothing read yet
"""
    )


# --- figures --------------------------------------------------------------------------------


def test_case_25_bytes_a_token_are_summed_and_the_formula_stands_beside() -> None:
    assert per_token(SMOLLM2, kv(7)) == 46_080
    assert formula(SMOLLM2) == (
        "2 × 30 × 3 × 64 × 4 bytes",
        "K and V × layers × K/V heads × head dim × bytes",
    )
    assert "135 KiB" in texts(kv_lines(run(20, 3), 49, 11))  # 138,240 bytes


def test_a_size_other_than_expected_is_pointed_out() -> None:
    half = view(SMOLLM2, prompt(4), replace(prefill(chunk(0, 4, 5.0)), kv=kv(4, each=23_040)))
    assert "  expected  45.0 KiB ƒ  ! 0.50× measured" in texts(kv_lines(half, 60, 20))


def test_a_model_without_shared_heads_has_no_such_line() -> None:
    plain = replace(SMOLLM2, kv_heads=9, kv_bytes_per_token_expected=138_240)
    shown = texts(kv_lines(view(plain, prompt(4), prefill(chunk(0, 4, 5.0))), 60, 20))
    assert "ungrouped" not in shown
    assert "9 query, 9 K/V: one each; 30 layers" in shown


@pytest.mark.parametrize(
    "facts",
    [
        replace(SMOLLM2, kv_bytes_per_token_expected=1000),  # does not divide
        replace(SMOLLM2, kv_bytes_per_token_expected=None),
        replace(SMOLLM2, head_dim=0),
    ],
)
def test_numbers_that_do_not_multiply_up_are_not_shown_as_a_product(facts: ModelFacts) -> None:
    assert formula(facts) is None


def test_a_fork_without_a_pass_says_that_nothing_was_read() -> None:
    records: list[Record] = [SMOLLM2, prompt(20), prefill(chunk(0, 20, 500.0))]
    forked = step(1, timing(0.0, reused=True), kv(31, computed=0), position=20)
    shown = texts(kv_lines(view(*records, forked), 70, 20))
    assert "this pass   none: the logits were kept; the cache is another branch's" in shown


# --- blocks ---------------------------------------------------------------------------------


def test_positions_are_counted_off_in_blocks() -> None:
    assert logical_blocks(kv(22), prompt_tokens=20) == [
        Block(16, prompt=16),
        Block(16, prompt=4, output=2, newest=True),
    ]
    assert logical_blocks(kv(32), 32)[-1] == Block(16, prompt=16, newest=True)
    assert logical_blocks(KVState(0, 0, 0, 0, 0), 0) == []
    assert logical_blocks(KVState(7, 3, 300, 1, 6, block_size=4), 3) == [
        Block(4, lost=4),
        Block(4, output=3, newest=True),
    ]


def test_free_blocks_are_what_the_context_has_left() -> None:
    assert free_blocks(kv(22), 8192) == 510
    assert free_blocks(kv(22), 33) == 1
    assert free_blocks(kv(22), 20) == 0
    assert free_blocks(kv(22), None) == 0


def test_a_block_fills_from_an_eighth_to_nearly_full() -> None:
    glyphs = [Block(16, prompt=filled).glyph for filled in range(1, 17)]
    assert "".join(glyphs) == "▁▁▂▂▂▃▄▄▄▅▆▆▆▇▇█"
    assert Block(16, prompt=8, output=8).glyph == "▓"
    assert Block(16).glyph == "·"
    assert Block(16, lost=16).glyph == "×"


@pytest.mark.parametrize("count", [0, 1, 7, 64, 700])
@pytest.mark.parametrize("width", [1, 5, 20, 49, 95])
@pytest.mark.parametrize("height", [1, 2, 5, 30])
@pytest.mark.parametrize("whole", [False, True])
def test_no_grid_breaks_its_frame(count: int, width: int, height: int, whole: bool) -> None:
    blocks = [Block(16, prompt=16, newest=i == count - 1) for i in range(count)]
    lines = grid(blocks, 40, width, height, whole=whole)
    assert len(lines) <= height
    assert all(line.cell_length <= width for line in lines)


@pytest.mark.parametrize("width", [1, 5, 20, 36, 49, 76, 100, 158])
@pytest.mark.parametrize("height", [1, 3, 6, 11, 24, 44])
def test_no_line_breaks_its_frame(width: int, height: int) -> None:
    unread = view(SMOLLM2, prompt(4))
    for shown in (run(20, 3), run(3000, 100), unread, view(SMOLLM2), view()):
        assert all(line.cell_length <= width for line in kv_lines(shown, width, height))


def test_the_border_says_how_full_it_is_behind_the_marks() -> None:
    """F13."""
    marks = "• measured  ƒ derived"
    assert border(run(20, 3), 49) == f"{marks} · 22 positions · 990 KiB •"
    assert border(run(20, 3), 40) == border(view(), 25) == marks


def border(shown: View, width: int) -> str:
    subtitle = draw(shown, Size(width, 9)).subtitle
    return subtitle if isinstance(subtitle, str) else subtitle.plain
