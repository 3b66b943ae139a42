"""The gauges as pictures. Decode steps of 100, 100 and 200 ms count, the warm-up of 303 does not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from textual.content import Content
from textual.geometry import Size

from engine.records.cache import KVState
from engine.records.events import Record
from engine.records.measured import Ceilings
from inspector.draw.numbers import Mark, ms, row
from inspector.draw.plots import Series, plot
from inspector.panes.ceilings import too_low
from inspector.panes.gauges.figures import gauges
from inspector.panes.gauges.pane import draw
from inspector.state.ceilings import Known
from inspector.state.view import View
from tests.fakes import SMOLLM2, chunk, kv, prefill, prompt, step, texts, timing, view

CEILINGS = Ceilings("cpu", "a CPU", "float32", 2, 20e9, 200e9, "by hand")
STEPS = [
    step(1, timing(0.0, 2.0, 0.5, 0.5), kv(10, computed=10), entropy_raw=2.0, entropy_final=1.0),
    step(2, timing(300.0, 2.0, 0.5, 0.5, warmup=True), kv(11), entropy_raw=4.0, entropy_final=2.0),
    step(3, timing(96.0, 2.0, 0.5, 1.5), kv(12), entropy_raw=1.0),
    step(4, timing(96.0, 2.0, 0.5, 1.5), kv(13), entropy_raw=2.0),
    step(5, timing(196.0, 2.0, 0.5, 1.5), kv(14), entropy_raw=1.0, entropy_final=0.0),
]
RUN: list[Record] = [SMOLLM2, prompt(10, tokenize_ms=1.0), prefill(chunk(0, 10, 500.0)), *STEPS]


def picture(lines: Sequence[Content]) -> str:
    return "\n" + texts(lines) + "\n"


def lines_of(
    shown: View, width: int, height: int, ceilings: Ceilings | None = None
) -> Sequence[Content]:
    if ceilings is not None:
        shown.log.ceilings = Known(ceilings, datetime(2026, 1, 1, tzinfo=UTC), "")
    rows = draw(shown, Size(width, height)).rows
    return [rows[at] for at in range(len(rows))]


def line(records: Sequence[Record], label: str, ceilings: Ceilings | None = CEILINGS) -> str:
    """The one gauge of this name, with the longest of its notes."""
    gauge = next(one for one in gauges(view(*records), ceilings) if one.label == label)
    return row(gauge.label, 10, 120, gauge.figure, *gauge.notes).plain


# --- pictures -------------------------------------------------------------------------------


def test_a_third_of_a_wide_screen_without_a_ceiling() -> None:
    assert (
        picture(lines_of(view(*RUN), 49, 11))
        == """
TTFT      503 ms ƒ
ITL       133 ms ƒ   p50 100 ms, p95 200 ms •
TPS       7.50 tok/s ƒ
prefill   20.0 tok/s ƒ
this step 200 ms •   forward 196 ms •
overhead  3.0% ƒ   4.00 ms ƒ a step
MBU       —  run llm-inspect bench
weights   513 MiB •   float32
latency   w  ▄▄ ▄▄ ██   100 ms – 200 ms •
entropy   ▄ █ ▂ ▄ ▂   1.00 nats – 4.00 nats ƒ
 final    ▄ █ ▂ ▂     0.00 nats – 2.00 nats ƒ
KV cache  630 KiB •   14 positions
steps     5   3 averaged
"""
    )


def test_a_small_pane_keeps_the_plots_in_sight() -> None:
    assert (
        picture(lines_of(view(*RUN), 36, 6, CEILINGS))
        == """
TTFT      503 ms ƒ
ITL       133 ms ƒ
TPS       7.50 tok/s ƒ
latency   w▄▄█  100 ms – 200 ms •
entropy   ▄ █ ▂ ▄ ▂   to 4.00 nats ƒ
 final    ▄ █ ▂ ▂     to 2.00 nats ƒ
prefill   20.0 tok/s ƒ
this step 200 ms •
overhead  3.0% ƒ   4.00 ms ƒ a step
MBU       20% ƒ   floor 26.9 ms ƒ
weights   513 MiB •   float32
KV cache  630 KiB •   14 positions
steps     5   3 averaged
"""
    )


def test_figures_and_plots_side_by_side() -> None:
    assert (
        picture(lines_of(view(*RUN), 76, 12, CEILINGS))
        == """
TTFT      503 ms ƒ                      step latency  100 ms – 200 ms •
ITL       133 ms ƒ                          200 ms┤         ▀▀▀
TPS       7.50 tok/s ƒ                            │w  ▄▄▄▄▄▄
prefill   20.0 tok/s ƒ                      100 ms┴2        5 step
this step 200 ms •   forward 196 ms •   entropy  1.00 nats – 4.00 nats ƒ
overhead  3.0% ƒ   4.00 ms ƒ a step      4.00 nats┤   ██
MBU       20% ƒ   floor 26.9 ms ƒ                 │██ ██ ▄▄ ██ ▄▄
weights   513 MiB •   float32                    0┴1           5 step
KV cache  630 KiB •   14 positions       final  0.00 nats – 2.00 nats ƒ
steps     5   3 averaged                 2.00 nats┤   ██
                                                  │██ ██ ▄▄ ▄▄
                                                 0┴1           5 step
"""
    )


def test_zoomed_each_figure_has_its_definition_and_each_step_its_line() -> None:
    assert (
        picture(lines_of(view(*RUN), 158, 34, CEILINGS))
        == """
TTFT      503 ms ƒ   tokenize + prefill + first sample                          step latency  100 ms – 200 ms, median 100 ms •  1 left out
          submit to first token id; loading and thinking time never count           200 ms┤         ▀▀▀
ITL       133 ms ƒ   p50 100 ms, p95 200 ms •                                             │
          mean time between tokens (TPOT), over the steps that count                      │
TPS       7.50 tok/s ƒ   decoding; with the reading 4.15 tok/s ƒ                          │
          (n − 1) tokens / time from the first to the last, the same steps                │
prefill   20.0 tok/s ƒ                                                              150 ms┤
          prompt tokens really computed / time of the prefill                             │
this step 200 ms •   forward 196 ms, sample 2.00 ms, other 2.00 ms •                      │
          forward pass + sampling + detokenizing and keeping the record                   │
overhead  3.0% ƒ   of a step: 4.00 ms ƒ, of which sampling 2.00 ms ƒ                      │w  ▄▄▄▄▄▄
          share of a step that is not the forward pass                              100 ms┴2        5 step
MBU       20% ƒ   this step could take 26.9 ms at best ƒ                        entropy of the model  1.00 nats – 4.00 nats, median 2.00 nats ƒ
          (weights + K and V so far) / time / this machine's bandwidth           4.00 nats┤   ██
weights   513 MiB •   134,515,008 parameters, float32                                     │   ██
KV cache  630 KiB •   14 positions                                                        │   ██
steps     5   3 in the averages; left out: 1 warm-up                                      │   ██
          w warm-up; r reused logits; b branch read again; × not finite                   │▄▄ ██    ▄▄
                                                                                          │██ ██    ██
Steps: times •, entropy in nats ƒ ────────────────────────────────────────────            │██ ██ ▂▂ ██ ▂▂
  step    total  forward   sample    other  entropy  final    token                       │██ ██ ██ ██ ██
     1  3.00 ms        —  2.00 ms  1.00 ms     2.00   1.00     word                       │██ ██ ██ ██ ██
     2   303 ms   300 ms  2.00 ms  1.00 ms     4.00   2.00  w  word                      0┴1           5 step
     3   100 ms  96.0 ms  2.00 ms  2.00 ms     1.00   0.50     word             entropy after the chain  0.00 nats – 2.00 nats, median 0.50 nats ƒ
     4   100 ms  96.0 ms  2.00 ms  2.00 ms     2.00   0.50     word              2.00 nats┤   ██
     5   200 ms   196 ms  2.00 ms  2.00 ms     1.00   0.00     word                       │   ██
                                                                                          │   ██
                                                                                          │   ██
                                                                                          │▄▄ ██
                                                                                          │██ ██
                                                                                          │██ ██ ▂▂ ▂▂
                                                                                          │██ ██ ██ ██
                                                                                          │██ ██ ██ ██
                                                                                         0┴1           5 step
"""
    )


@pytest.mark.parametrize(
    ("bandwidth", "share", "device", "low"),
    [
        # A step of 96 ms reads 538 MB: 5.6 GB/s.
        (20e9, None, "cpu", False),
        (5e9, None, "cpu", True),
        (20e9, 0.95, "cpu", False),
        (20e9, 0.5, "cpu", True),
        (5e9, 0.5, "cuda", False),
    ],
)
def test_a_plain_step_faster_than_memory_proves_a_ceiling_too_low(
    bandwidth: float, share: float | None, device: str, low: bool
) -> None:
    one = view(*RUN)
    assert not too_low(one)
    found = replace(CEILINGS, read_bytes_per_second=bandwidth, cpu_share=share, device=device)
    one.log.ceilings = Known(found, datetime.now(UTC), "")
    assert too_low(one) is low


def test_a_figure_from_a_busy_machines_ceiling_says_so() -> None:
    found = gauges(view(*RUN), replace(CEILINGS, cpu_share=0.3))
    notes = next(one.notes for one in found if one.label == "MBU")
    assert notes[0].endswith("; ceiling of a busy machine (M)")
    assert notes[-1] == "busy machine (M)"


def test_before_the_first_token_nothing_reads_zero() -> None:
    assert (
        picture(lines_of(view(SMOLLM2, prompt(3)), 49, 14, CEILINGS))
        == """
TTFT      —  no token yet
ITL       —  no token yet
TPS       —  no token yet
prefill   —  nothing read yet
this step —  the prompt
overhead  —  needs two tokens that count
MBU       —  needs two tokens that count
weights   513 MiB •   float32
KV cache  —  nothing read yet
steps     0   0 in the averages
latency   —  no step yet
entropy   —  no step yet
 final    —  no step yet
"""
    )


# --- figures --------------------------------------------------------------------------------


def test_mbu_is_the_bytes_of_the_counted_steps_by_their_time() -> None:
    # 3 x 538,060,032 + (12 + 13 + 14) x 46,080 bytes in 400 ms, of 20 GB/s: 20.2 %
    assert line(RUN, "MBU") == "MBU       20% ƒ   this step could take 26.9 ms at best ƒ"


def test_mbu_needs_a_ceiling_of_the_same_device() -> None:
    assert line(RUN, "MBU", None) == "MBU       —  run llm-inspect bench"
    assert line(RUN, "MBU", replace(CEILINGS, device="cuda")) == (
        "MBU       —  bench was on cuda, this is cpu"
    )
    assert line(RUN[:5], "MBU") == "MBU       —  needs two tokens that count"
    unknown = [*RUN, step(6, timing(96.0), KVState(15, 0, None, 1, 14))]
    assert line(unknown, "MBU") == "MBU       —  the cache's size is not known"


def test_no_plain_step_moves_more_than_all_of_the_bandwidth() -> None:
    """At 2 GB/s it would be 202%: the weights were in a cache, or the ceiling is too low."""
    low = replace(CEILINGS, read_bytes_per_second=2e9)
    assert line(RUN, "MBU", low) == (
        "MBU       —  faster than memory can be: weights in a cache, or a ceiling too low (M)"
    )


def test_the_tokens_of_a_round_are_no_plain_steps() -> None:
    steps = [step(1, timing(0.0), kv(10)), step(2, timing(60.0), kv(14), round=2)]
    steps += [step(node, timing(0.0), kv(14), round=2) for node in (3, 4, 5)]
    run = [SMOLLM2, prompt(10), prefill(chunk(0, 10, 500.0)), *steps]
    assert line(run, "MBU") == "MBU       —  of plain steps; rounds and batches: f11"


def test_the_whole_wait_is_told_from_decoding() -> None:
    assert line(RUN, "TPS").startswith("TPS       7.50 tok/s ƒ   decoding; with the reading 4.15")


def test_a_reused_step_says_so_and_is_left_out() -> None:
    fork = step(6, timing(0.0, 1.0, reused=True), kv(15, computed=0))
    assert line([*RUN, fork], "this step").endswith(
        "reused logits: forward —, sample 1.00 ms, other 0.00 ms •"
    )
    assert line([*RUN, fork], "steps") == (
        "steps     6   3 in the averages; left out: 1 warm-up, 1 reused step"
    )
    back = step(7, timing(900.0, reread=True), kv(16, computed=16))
    assert "branch read again: forward 900 ms" in line([*RUN, fork, back], "this step")
    assert line([*RUN, fork, back], "steps").endswith("1 reused step, 1 branch read again")


def test_the_first_token_has_no_pass_of_its_own() -> None:
    assert line(RUN[:4], "this step").endswith("forward —, sample 2.00 ms, other 1.00 ms •")


def test_figures_that_are_not_finite_are_left_out_and_counted() -> None:
    odd = [*RUN, step(6, timing(96.0), kv(15), entropy_raw=math.nan, entropy_final=math.inf)]
    shown = texts(lines_of(view(*odd), 158, 34, CEILINGS))
    assert "entropy of the model  1.00 nats – 4.00 nats, median 2.00 nats ƒ  1 left out" in shown
    assert "×" in shown


def test_figures_are_those_up_to_the_cursor() -> None:
    back = view(*RUN, cursor=3)
    assert "3" in texts([next(g.figure for g in gauges(back, None) if g.label == "steps")])
    assert "ITL       100 ms ƒ" in texts(lines_of(back, 60, 30))


@pytest.mark.parametrize("width", [1, 5, 20, 36, 49, 76, 100, 158])
@pytest.mark.parametrize("height", [1, 3, 6, 11, 24, 44])
def test_no_line_breaks_its_frame(width: int, height: int) -> None:
    for count in (0, 1, 3, 4, 8):
        lines = lines_of(view(*RUN[:count]), width, height, CEILINGS)
        assert all(line.cell_length <= width for line in lines)
        assert "nan" not in texts(lines)


def test_the_border_shows_the_decode_rate() -> None:
    assert border(RUN, 51) == "• measured  ƒ derived  ~ estimated · 7.50 tok/s ƒ"
    assert border(RUN, 37) == "• measured  ƒ derived · 7.50 tok/s ƒ"


def border(records: Sequence[Record], width: int) -> str:
    subtitle = draw(view(*records), Size(width, 11)).subtitle
    return subtitle if isinstance(subtitle, str) else subtitle.plain


def test_the_marks_are_explained_where_they_are_used() -> None:
    """F13: in each pane's border, where no row can hide them."""
    for width in (25, 36, 75):
        assert border([], width).startswith("• measured  ƒ derived")


def test_after_the_first_token_its_wait_is_no_missing_step() -> None:
    """F8: "no step yet" stood beside the time of this step."""
    words = texts(lines_of(view(*RUN[:4]), 75, 12))
    assert "this step" in words
    assert "latency   —  the first token" in words
    assert "latency   —  no step yet" in texts(lines_of(view(*RUN[:3]), 75, 12))


def test_a_line_of_bars_is_labelled_with_the_bounds_of_what_is_drawn() -> None:
    """F15: one step of 583 ms, long ago, and a hundred of at most 86."""
    values = [583.0] + [40.0 + at % 47 for at in range(100)]
    series = Series("latency", "step latency", values, ms, Mark.MEASURED, "$bar", {})
    for width in (40, 60, 75):
        assert "583" not in plot(series, width, 1)[0].plain
        assert "86.0 ms" in plot(series, width, 1)[0].plain
        assert "583" not in plot(series, width, 2)[0].plain
    assert "583 ms" in plot(series, 160, 1)[0].plain


@pytest.mark.parametrize(("told", "said"), [(0, "—  the server does not tell"), (2**20, "told by")])
def test_weights_that_a_server_tells_of_are_not_measured(told: int, said: str) -> None:
    facts = replace(SMOLLM2, device="server", weight_bytes=told)
    shown = line([facts, *RUN[1:]], "weights")
    assert said in shown
    assert "•" not in shown
