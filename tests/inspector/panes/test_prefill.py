"""The prefill pane as pictures: 20 + 100 + 60 + 19 ms to the first id, and 1 ms to its text."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from textual.content import Content
from textual.geometry import Size

from engine.records.events import LoadProgress, Record, RunState, StateChanged
from engine.records.prompt import LayerTime
from inspector.panes.prefill.layers import layer_lines, split, total_layers
from inspector.panes.prefill.pane import draw
from tests.fakes import SMOLLM2, chunk, kv, prefill, prompt, step, texts, timing, view


def layers(scale: float = 1.0) -> list[LayerTime]:
    """Two layers."""
    return [
        LayerTime(20.0 * scale, 10.0 * scale, 35.0 * scale),
        LayerTime(25.0 * scale, 10.0 * scale, 40.0 * scale),
    ]


READ: list[Record] = [
    SMOLLM2,
    prompt(300, tokenize_ms=20.0),
    prefill(
        chunk(0, 200, 100.0, layers=layers(), warmup=True),
        chunk(200, 100, 60.0, layers=layers(0.5)),
    ),
]
FIRST = step(1, timing(0.0, 19.0, 1.0, 0.5), kv(300, computed=300))
HALF: list[Record] = [
    SMOLLM2,
    prompt(300, tokenize_ms=20.0),
    prefill(chunk(0, 200, 100.0, layers_note="layers not found in GPT2Model"), done=False),
]


def picture(lines: Sequence[Content]) -> str:
    return "\n" + texts(lines) + "\n"


# --- pictures -------------------------------------------------------------------------------


def test_a_third_of_a_wide_screen() -> None:
    assert (
        picture(draw(view(*READ, FIRST), Size(49, 11)).rows)
        == """
TTFT     199 ms ƒ
= 20.0 ms + 160 ms + 19.0 ms •
             0 ───────────────── 200 ms
tokenize     ██▋                        20.0 ms •
read 0–199 w    ████████████▋            100 ms •
read 200–299                 ███████▍   60.0 ms •
1st sample                          ██▉ 19.0 ms •
detokenize                            ▕ 1.00 ms •
prefill  1,875 tok/s ƒ   300 tokens computed
loading  1.84 s •   apart: not in TTFT
w: warm-up, the first pass of its shape
Where the reading went ──────────────────────────
█ attention 42% ƒ   ▓ MLP 19% ƒ   ░ rest 39% ƒ
█████████████████████▓▓▓▓▓▓▓▓▓░░░░░░░░░░░░░░░░░░░
▇█  2 layers, 52.5 ms–60.0 ms  •
layer 0  ███████████████▓▓▓▓▓▓▓░░░░     52.5 ms •
layer 1  ███████████████████▓▓▓▓▓▓▓░░░░ 60.0 ms •
"""
    )


def test_a_small_pane() -> None:
    assert (
        picture(draw(view(*READ, FIRST), Size(36, 8)).rows)
        == """
TTFT     199 ms ƒ
= 20.0 ms + 160 ms + 19.0 ms •
             0 ──── 200 ms
tokenize     █▎            20.0 ms •
read 0–199 w  ██████▊       100 ms •
read 200–299         ███▊  60.0 ms •
1st sample               ▉ 19.0 ms •
detokenize               ▕ 1.00 ms •
prefill  1,875 tok/s ƒ
loading  1.84 s •
w: warm-up, the first pass of its s…
Where the reading went ─────────────
█ attention 42% ƒ
▓ MLP 19% ƒ
░ rest 39% ƒ
███████████████▓▓▓▓▓▓▓░░░░░░░░░░░░░░
▇█  2 layers, 52.5 ms–60.0 ms  •
 0 ████████████▓▓▓▓▓░░░    52.5 ms •
 1 ██████████████▓▓▓▓▓▓░░░ 60.0 ms •
"""
    )


def test_layers_beside_the_axis_where_it_is_wide_and_low() -> None:
    assert (
        picture(draw(view(*READ, FIRST), Size(76, 12)).rows)
        == """
TTFT     199 ms ƒ   = ▚ 20.0 ms + █ 160 ms + ▒ 19.0 ms •
         ▚▚▚▚▚▚▚████████████████████████████████████████████████████▒▒▒▒▒▒▒░
             0 ───────────── 200 ms            Where the reading went ──────
tokenize     ██▎                    20.0 ms •  █ attention 42% ƒ
read 0–199 w   ███████████▎          100 ms •  ▓ MLP 19% ƒ
read 200–299              ██████▊   60.0 ms •  ░ rest 39% ƒ
1st sample                       █▉ 19.0 ms •  ████████████▓▓▓▓▓▓░░░░░░░░░░░
detokenize                        ▕ 1.00 ms •   0 ████████▓▓▓▓░░   52.5 ms •
prefill  1,875 tok/s ƒ   300 tokens computed    1 ██████████▓▓▓▓░░ 60.0 ms •
loading  1.84 s •   apart: not in TTFT
w: warm-up, the first pass of its shape
"""
    )


def test_all_below_each_other_where_it_is_tall() -> None:
    assert (
        picture(draw(view(*READ, FIRST), Size(100, 30)).rows)
        == """
TTFT     199 ms ƒ   = ▚ tokenize 20.0 ms + █ prefill 160 ms + ▒ first sample 19.0 ms •
         ▚▚▚▚▚▚▚▚▚████████████████████████████████████████████████████████████████████████▒▒▒▒▒▒▒▒▒░
             0 ────────────────────────────┼ 100 ms ──────────────── 200 ms
tokenize     ██████▎                                                        20.0 ms •
read 0–199 w       ███████████████████████████████▎                          100 ms •  2,000 tok/s ƒ
read 200–299                                      ██████████████████▊       60.0 ms •  1,667 tok/s ƒ
1st sample                                                           █████▊ 19.0 ms •
detokenize                                                                ▕ 1.00 ms •
prefill  1,875 tok/s ƒ   300 tokens computed in 160 ms ƒ, 0 cached
loading  1.84 s •   apart: not in TTFT; with it 2.04 s ƒ
w: warm-up, the first pass of its shape
Where the reading went ─────────────────────────────────────────────────────────────────────────────
█ attention 42% ƒ   ▓ MLP 19% ƒ   ░ rest 39% ƒ
██████████████████████████████████████████▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░
layer 0  █████████████████████▓▓▓▓▓▓▓▓▓▓▓░░░░░      52.5 ms •  █ 30.0 ms •  ▓ 15.0 ms •  ░ 7.50 ms ƒ
layer 1  ██████████████████████████▓▓▓▓▓▓▓▓▓▓▓░░░░░ 60.0 ms •  █ 37.5 ms •  ▓ 15.0 ms •  ░ 7.50 ms ƒ
"""
    )


def test_before_the_first_token_the_sum_is_only_so_far() -> None:
    assert (
        picture(draw(view(*READ), Size(49, 11)).rows[:6])
        == """
so far   180 ms ƒ
= 20.0 ms + 160 ms •; no token yet
             0 ───────────────── 180 ms
tokenize     ██▉                        20.0 ms •
read 0–199 w    ██████████████▍          100 ms •
read 200–299                  █████████ 60.0 ms •
"""
    )


def test_while_it_reads_and_where_layers_were_not_found() -> None:
    live = view(*HALF, StateChanged(RunState.PREFILL))
    assert (
        picture(draw(live, Size(60, 11)).rows)
        == """
so far   120 ms ƒ   = 20.0 ms + 100 ms •; no token yet
reading  ▕██████████████████████▋           ▏ 200/300 tokens
           0 ─────────────── 120 ms
tokenize   ████                     20.0 ms •
read 0–199     ████████████████████  100 ms •  2,000 tok/s ƒ
prefill  2,000 tok/s ƒ   200 tokens computed, 0 cached
loading  1.84 s •   apart: not in TTFT
Where the reading went ─────────────────────────────────────
—  layers not found in GPT2Model
"""
    )


def test_while_the_model_loads_each_phase_has_a_line_and_a_bar() -> None:
    said = [
        LoadProgress("load", None, "starting torch"),
        LoadProgress("download", 0.1, "9 of 92 MB"),
        LoadProgress("download", 0.5, "46 of 92 MB"),
    ]
    assert (
        picture(draw(view(*said), Size(49, 11)).rows)
        == """
torch      ▕███████████████████████████████▏ done
download   ▕████████████████                ▏ 50%
waits for: 46 of 92 MB
How the prompt is read will be here, and the time
to the first token.
"""
    )


def test_a_phase_of_unknown_length_has_no_bar_and_says_so() -> None:
    said = [
        LoadProgress("load", None, "starting torch"),
        LoadProgress("check", 1.0, "model.safetensors"),
        LoadProgress("load", None, "starting torch"),
        LoadProgress("load", None, "weights"),
        LoadProgress("load", 1.0, "tiny"),
        LoadProgress("load", None, "first passes"),
    ]
    lines = texts(draw(view(*said), Size(49, 11)).rows).splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["torch", "check", "weights", "warm-up"]
    assert [line.endswith("done") for line in lines[:4]] == [True, True, True, False]
    assert lines[3] == "warm-up    working; how long is not known"
    assert lines[4] == "waits for: first passes"
    assert texts(draw(view(), Size(49, 11)).rows).splitlines()[0] == "the model is not loaded yet"


def test_a_pause_half_way_says_so() -> None:
    paused = texts(draw(view(*HALF, StateChanged(RunState.PAUSED)), Size(60, 11)).rows)
    assert "paused   ▕" in paused
    assert "200/300 tokens" in paused


def test_a_prompt_that_was_cached_is_told_from_what_was_computed() -> None:
    shown = view(SMOLLM2, prompt(300), prefill(chunk(200, 100, 50.0), cached=200))
    assert "prefill  2,000 tok/s ƒ   100 tokens computed in 50.0 ms ƒ, 200 cached" in texts(
        draw(shown, Size(70, 30)).rows
    )


def test_case_35_loading_is_apart_and_a_cold_start_has_its_own_total() -> None:
    shown = texts(draw(view(*READ, FIRST), Size(100, 30)).rows)
    assert "TTFT     199 ms ƒ" in shown
    assert "loading  1.84 s •   apart: not in TTFT; with it 2.04 s ƒ" in shown


# --- layers ---------------------------------------------------------------------------------


def test_layers_add_up_over_the_chunks() -> None:
    summed = total_layers([chunk(0, 200, 100.0, layers=layers()), chunk(200, 100, 60.0)])
    assert summed == layers()
    both = total_layers(
        [chunk(0, 200, 100.0, layers=layers()), chunk(200, 100, 60.0, layers=layers(0.5))]
    )
    assert both == layers(1.5)


def test_shares_of_the_whole_pass_not_of_the_layers() -> None:
    attention, mlp, rest = split(layers(), 100.0) or (0.0, 0.0, 0.0)
    assert (attention, mlp) == pytest.approx((0.45, 0.20))
    assert attention + mlp + rest == pytest.approx(1.0)


def test_noise_in_the_clock_makes_no_share_negative() -> None:
    attention, mlp, rest = split(layers(), 60.0) or (0.0, 0.0, 0.0)
    assert rest == pytest.approx(0.0)
    assert attention + mlp == pytest.approx(1.0)


def test_layers_without_parts_have_no_split() -> None:
    plain = [LayerTime(None, None, 10.0)]
    assert split(plain, 100.0) is None
    assert split([], 100.0) is None
    shown = texts(layer_lines([chunk(0, 4, 100.0, layers=plain)], 60, 20))
    assert "attention and MLP were not found in these layers" in shown
    assert "layer 0  ░░░" in shown


def test_many_layers_stand_in_columns_or_scroll() -> None:
    many = [chunk(0, 4, 100.0, layers=layers() * 20)]
    wide = layer_lines(many, 156, 30)
    assert len(wide) <= 30
    assert wide[-1].plain.count("layer") == 3 or wide[-1].plain.count("layer") == 2
    assert len(layer_lines(many, 49, 10)) == 44


@pytest.mark.parametrize("width", [1, 5, 20, 36, 49, 76, 100, 158])
@pytest.mark.parametrize("height", [1, 3, 8, 12, 44])
def test_no_line_breaks_its_frame(width: int, height: int) -> None:
    zero = view(SMOLLM2, prompt(2), prefill(chunk(0, 2, 0.0)), step(1, timing(0.0), kv(2)))
    for shown in (view(*READ, FIRST), view(*READ), view(*HALF), view(SMOLLM2), view(), zero):
        lines = draw(shown, Size(width, height)).rows
        assert all(line.cell_length <= width for line in lines)
        assert "nan" not in texts(lines)


def test_the_border_shows_ttft_behind_the_marks() -> None:
    """F13."""
    for records, words in (((*READ, FIRST), " · TTFT 199 ms ƒ"), (READ, "")):
        subtitle = draw(view(*records), Size(55, 11)).subtitle
        assert isinstance(subtitle, Content)
        assert subtitle.plain == f"• measured  ƒ derived  ~ estimated{words}"
