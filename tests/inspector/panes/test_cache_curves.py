"""The curves with and without a cache as pictures, and what the gauges say of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from textual.content import Content
from textual.geometry import Size

from engine.records.events import LoadProgress, Record
from engine.records.measured import MEASURING_CURVES, CacheCurves
from engine.records.model import KVStorage
from inspector.draw.numbers import row
from inspector.panes.gauges.cache_curves import chart_of, curve_lines, in_words
from inspector.panes.gauges.figures import gauges
from inspector.panes.gauges.pane import draw
from tests.fakes import SMOLLM2, chunk, kv, prefill, prompt, step, texts, timing, view

CURVES = CacheCurves(
    node=4,
    lengths=(16, 32, 64),
    with_ms=(10.0, 10.0, 11.0),
    without_ms=(20.0, 40.0, 77.0),
    reps=(5, 5, 3),
    cache="blocks of 16",
)
UNCACHED = replace(SMOLLM2, kv_storage=KVStorage(cached=False))
STEPS = [
    step(1, timing(0.0), kv(10, computed=10)),
    step(2, timing(30.0, warmup=True), kv(11)),
    step(3, timing(15.0), kv(12)),
    step(4, timing(16.0, reused=True), kv(13)),
    step(5, timing(17.0), kv(14)),
]
RUN: list[Record] = [prompt(10), prefill(chunk(0, 10, 500.0)), *STEPS]


def picture(lines: Sequence[Content]) -> str:
    return "\n" + texts(lines) + "\n"


def gauge(*records: Record) -> str:
    found = [one for one in gauges(view(*records), None) if one.label == "cache"]
    return "" if not found else row("cache", 10, 120, found[0].figure, *found[0].notes).plain


def test_both_curves_on_one_scale() -> None:
    """39 cells for 64 positions, so that 16 stand in cell 10; 8 lines for 80 ms, 10 ms each."""
    shown = chart_of(view(SMOLLM2, *RUN, CURVES))
    assert shown is not None
    assert (
        picture(curve_lines(shown, 50, 10))
        == """
● without  ○ with a cache •  7.00 × ƒ at 64 tokens
   80.0 ms┤                                      ●
          │
          │
          │                   ●
   40.0 ms┤
          │          ●
          │          ○        ○                  ○
          │
         0┴0                             64 tokens
"""
    )


def test_in_a_run_without_a_cache_its_own_steps_stand_beside_them() -> None:
    """Steps 3 and 5 count: passes over 12 and 14 positions, of 15 and 17 ms."""
    shown = chart_of(view(UNCACHED, *RUN, CURVES))
    assert shown is not None
    assert shown.run == [(12, 15.0), (14, 17.0)]
    assert (
        picture(curve_lines(shown, 50, 7))
        == """
● without  ○ with a cache  · this run •  7.00 × ƒ
   80.0 ms┤                                      ●
          │
          │                   ●
          │        · ●
          │       ·  ○        ○                  ○
         0┴0                             64 tokens
"""
    )
    cached = chart_of(view(SMOLLM2, *RUN, CURVES))
    assert cached is not None
    assert cached.run == []


def test_with_room_the_legend_says_how_it_was_measured() -> None:
    shown = chart_of(view(SMOLLM2, *RUN, replace(CURVES, note="stopped before 128 tokens")))
    assert shown is not None
    assert curve_lines(shown, 150, 7)[0].plain == (
        "● without  ○ with a cache •  7.00 × ƒ without 77.0 ms, with 11.0 ms at 64 tokens •; "
        "medians of 3–5 turns, blocks of 16; stopped before 128 tokens"
    )
    assert in_words(shown) == "without 77.0 ms, with 11.0 ms at 64 tokens •"


def test_without_room_there_is_no_chart() -> None:
    shown = chart_of(view(SMOLLM2, *RUN, CURVES))
    assert shown is not None
    assert curve_lines(shown, 150, 4) == []
    assert curve_lines(shown, 15, 10) == []


@pytest.mark.parametrize(
    "curves",
    [
        CURVES,
        replace(CURVES, with_ms=(0.0, 0.0, 0.0), without_ms=(0.0, 0.0, 0.0)),
        CacheCurves(1, (2,), (9e11,), (1e-9,), (1,), "x"),
        CacheCurves(1, (), (), (), (), "x"),
    ],
)
@pytest.mark.parametrize("width", [1, 20, 36, 76, 158])
@pytest.mark.parametrize("height", [1, 6, 11, 30])
def test_no_line_breaks_its_frame(curves: CacheCurves, width: int, height: int) -> None:
    for facts in (SMOLLM2, UNCACHED):
        lines = draw(view(facts, *RUN, curves), Size(width, height)).rows
        assert all(line.cell_length <= width for line in lines)
        assert "nan" not in texts(lines)


def test_the_chart_stands_behind_the_latency_and_the_others_make_room() -> None:
    lines = texts(draw(view(UNCACHED, *RUN, CURVES), Size(76, 12)).rows).splitlines()
    right = [line[38:].strip() for line in lines]
    at = next(i for i, line in enumerate(right) if line.startswith("● without"))
    assert right[0].startswith("latency")
    assert at == 1
    assert right[-2].startswith("entropy")
    assert right[-1].startswith("final")


def test_the_gauge() -> None:
    assert gauge(SMOLLM2, *RUN) == ""
    assert gauge(UNCACHED, *RUN) == "cache     —  off: C times this text with one too"
    measured = "cache     7.00 × ƒ   without 77.0 ms, with 11.0 ms at 64 tokens •"
    assert gauge(SMOLLM2, *RUN, CURVES) == measured
    assert gauge(UNCACHED, *RUN, CURVES) == measured
    now = LoadProgress(MEASURING_CURVES, 0.4, "128 tokens")
    assert gauge(SMOLLM2, *RUN, now) == "cache     —  measuring 40%: 128 tokens"
    assert gauge(SMOLLM2, *RUN, now, CURVES) == measured
    nothing = CacheCurves(1, (16,), (0.0,), (1.0,), (1,), "x")
    assert gauge(SMOLLM2, *RUN, nothing).startswith("cache     —  no time was measured")


def test_a_new_prompt_begins_without_curves() -> None:
    assert gauge(SMOLLM2, *RUN, CURVES, prompt(3)) == ""
