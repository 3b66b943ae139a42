"""The roofline pane as text: roofs, points, table, floor, growth, K and V by kind of attention."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from textual.geometry import Size

from engine.records.events import Record, RunState, StateChanged
from engine.records.measured import CacheCurves, Ceilings
from inspector.panes.roofline.pane import PARTS, RooflineUI, draw
from inspector.state.ceilings import Known
from inspector.state.view import View
from inspector.widgets.picture import CEILINGS as WANTED
from tests import fakes
from tests.fakes import SMOLLM2, a_round, chunk, kv, prefill, prompt, step, timing

CEILINGS = Ceilings("cpu", "a CPU", "float32", 2, 20e9, 300e9, "by hand")
SMALL, LARGE = Size(78, 19), Size(150, 44)
ROOFLINE, GROWTH, MODULES, HEADS = range(4)


def a_run(
    *,
    steps: int = 40,
    rounds: bool = False,
    ceilings: Ceilings | None = CEILINGS,
    growth: float = 0.05,
) -> View:
    """700 tokens read in three chunks, then steps of 40 ms that grow by ``growth`` ms a position."""
    chunks = chunk(0, 256, 400.0, warmup=True), chunk(256, 256, 330.0), chunk(512, 188, 260.0)
    records: list[Record] = [SMOLLM2, prompt(700), prefill(*chunks)]
    records.append(step(1, timing(0.0, 1.0), kv(700, computed=188)))
    records += [
        step(node, timing(40.0 + growth * node, 1.0), kv(699 + node)) for node in range(2, steps)
    ]
    if rounds:
        records.append(a_round(steps, "aaar", times=(2.0, 50.0, 1.0)))
        records += [
            step(node, timing(50.0 * (node == steps)), kv(699 + node), round=steps)
            for node in range(steps, steps + 4)
        ]
    view = fakes.view(*records)
    if ceilings is not None:
        view.log.ceilings = Known(ceilings, datetime.now(UTC), "")
    return view


def text_of(view: View, size: Size, part: int = 0) -> str:
    picture = draw(view, size, RooflineUI(part))
    assert len(picture.rows) <= size.height
    assert all(row.cell_length <= size.width for row in picture.rows)  # type: ignore[attr-defined]
    return "\n".join(row.plain.rstrip() for row in picture.rows)  # type: ignore[attr-defined]


def test_the_roofs_the_points_and_what_binds_each() -> None:
    text = text_of(a_run(rounds=True), SMALL)
    assert "20.0 GB/s •  300 GFLOP/s •  meet at 15.0 FLOP/B ƒ" in text
    rows = {line.split()[1]: line for line in text.splitlines() if line[:2] in ("■ ", "● ", "◆ ")}
    assert rows["prefill"].endswith("arithmetic")
    assert rows["decode"].endswith("bandwidth")
    assert rows["verify"].endswith("bandwidth")
    for sign in "■●◆":
        chart = [line for line in text.splitlines() if line[:2] != f"{sign} " and sign in line]
        assert chart, sign


def test_the_floor_stands_beside_the_step_and_ahead_of_it() -> None:
    """(538,060,032 + 738 x 46,080) bytes at 20 GB/s: 28.6 ms; at 1,024 29.3, at 8,192 45.8 ms."""
    text = text_of(a_run(), LARGE)
    assert "floor     28.6 ms ƒ  a step 41.6 ms •  1.45 × ƒ" in text
    assert "at 1,024 29.3 ms ƒ   at 8,192 45.8 ms ƒ" in text


def test_why_a_round_can_exceed_the_bandwidth_is_said_where_there_is_one() -> None:
    assert "reads the weights once for several tokens" not in text_of(a_run(), LARGE)
    text = " ".join(text_of(a_run(rounds=True), LARGE).split())
    assert "a round may exceed" in text
    assert "per token" in text


def test_a_step_faster_than_memory_has_no_mbu_and_says_why() -> None:
    slow = replace(CEILINGS, read_bytes_per_second=1e9)
    text = text_of(a_run(ceilings=slow), LARGE)
    row = next(line for line in text.splitlines() if line.startswith("● decode"))
    assert " — " in row
    assert "faster than memory can be" in text


def test_without_ceilings_it_says_what_brings_them_and_wants_them() -> None:
    view = a_run(ceilings=None)
    view.log.can_measure = True
    assert "machine   —  M or click: measure it" in text_of(view, SMALL)
    assert draw(view, SMALL).wants == (WANTED,)


def test_ceilings_of_a_busy_machine_say_so() -> None:
    busy = replace(CEILINGS, cpu_share=0.43)
    assert "measured with 43% • of the CPU time: too low (M)" in text_of(
        a_run(ceilings=busy), SMALL
    )
    elsewhere = a_run(ceilings=replace(CEILINGS, device="cuda"))
    assert "measured on cuda, this is cpu" in text_of(elsewhere, SMALL)


@pytest.mark.parametrize("part", range(len(PARTS)))
def test_every_part_says_why_it_is_empty(part: int) -> None:
    assert "—" in text_of(fakes.view(), SMALL, part)
    assert "—" in text_of(fakes.view(SMOLLM2), LARGE, part)


def test_growth_has_points_fit_and_formula() -> None:
    """40 + 0.05 (context - 699) ms is 5.05 + 0.05 context; K and V of one position take 2.3 us."""
    text = text_of(a_run(), SMALL, GROWTH)
    assert "fitted ⠒  5.05 ms + 50.0 ms a 1,000 positions ƒ" in text
    assert "formula · 26.9 ms + 2.30 ms a 1,000 positions ƒ" in text
    # 2 N / rate = 897 us and 2 x 30 x 9 x 64 / rate = 0.115 us.
    assert "897 µs × n + 0.12 µs × n² ƒ  equal at n = 7,784 ƒ" in text


def test_steps_that_get_shorter_are_said_to_be_noise_where_there_is_little_room_too() -> None:
    """40 - 0.04 (context - 699) ms is 67.96 - 0.04 context, where time can only grow."""
    text = text_of(a_run(growth=-0.04), SMALL, GROWTH)
    assert "fitted ⠒  68.0 ms − 40.0 ms a 1,000 positions ƒ  within the noise" in text


def test_growth_takes_the_measurement_beside_the_run_where_that_tells_more() -> None:
    view, lengths = a_run(), (16, 64, 256, 700)
    full = tuple(0.5 * n + 0.001 * n * n for n in lengths)
    step_ms = tuple(30 + 0.01 * n for n in lengths)
    view.log.curves = CacheCurves(5, lengths, step_ms, full, (5,) * 4, "blocks of 16")
    text = text_of(view, LARGE)
    assert "30.0 ms + 10.0 ms a 1,000 positions ƒ" in text
    # Without colours the signs alone tell whose points they are.
    assert "its context •  ● this run  ○ timed by C" in text
    assert "its length •  ■ this run  □ timed by C" in text
    assert "500 µs × n + 1.00 µs × n² ƒ  equal at n = 500 ƒ" in text
    assert "□" in text


def test_few_points_are_no_fit() -> None:
    text = text_of(a_run(steps=3), SMALL, GROWTH)
    assert "needs steps at three contexts" in text


def test_k_and_v_by_kind_of_attention() -> None:
    """46,080 bytes of 3 K/V heads: with 9 three times that, with one a third."""
    lines = text_of(a_run(), SMALL, HEADS).splitlines()
    for kind, figures in {
        "GQA 9:3": "45.0 KiB •  45.0 MiB ƒ",
        "MHA 9": "135 KiB ƒ   135 MiB ƒ",
        "MQA 1": "15.0 KiB ƒ  15.0 MiB ƒ",
        "MLA": "n/a",
    }.items():
        assert figures in next(line for line in lines if kind in line), kind


def test_a_cache_without_a_size_a_token_says_why() -> None:
    facts = replace(SMOLLM2, kv_note="a state of constant size", cache_kind="recurrent")
    view = fakes.view(facts, prompt(4), prefill(chunk(0, 4, 9.0)))
    assert "n/a  a state of constant size" in text_of(view, SMALL, HEADS)


def test_while_a_run_goes_on_it_is_drawn_again_every_few_tokens_only() -> None:
    view = a_run()
    view.log.state = StateChanged(RunState.RUNNING)
    before = text_of(View(view.log, 36), SMALL)
    assert text_of(View(view.log, 37), SMALL) == before


def test_a_latent_is_told_from_its_tensors_and_not_by_heads() -> None:
    note = "measured 46,080 bytes a token, which the usual formula does not give"
    facts = replace(SMOLLM2, kv_heads=1, kv_bytes_per_token_expected=None, kv_note=note)
    view = fakes.view(facts, prompt(4), prefill(chunk(0, 4, 9.0)))
    text = text_of(view, SMALL, HEADS)
    assert "this model, its own kind    45.0 KiB •" in text
    assert "MQA" not in text.split("Other models")[0]
    assert "n/a measured 46,080 bytes a token" in " ".join(text.split())
