"""Passes on a roofline: bytes, operations and shares of the ceilings, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.passes import (
    PassKind,
    Roof,
    batch_passes,
    bound_by,
    decode_passes,
    figures_of_kind,
    pass_flops,
    prefill_passes,
    ridge,
    roof,
    round_passes,
    why_none,
)
from engine.records.columns import Part, PassColumn, PassRecord
from engine.records.measured import Ceilings
from engine.records.model import KVStorage
from engine.roofline import step_flops
from tests.fakes import SMOLLM2, a_round, chunk, kv, prefill, prompt, step, timing, view

CEILINGS = Ceilings("cpu", "a CPU", "float32", 2, 20e9, 300e9, "by hand")
"""Meet at 15 operations a byte."""
HEAD = 49_152 * 576


def test_the_roof_is_bandwidth_times_intensity_up_to_the_rate() -> None:
    assert ridge(CEILINGS) == 15
    assert roof(CEILINGS, 0.5) == 10e9
    assert roof(CEILINGS, 100) == 300e9
    assert bound_by(CEILINGS, 14.9) is Roof.BANDWIDTH
    assert bound_by(CEILINGS, 15.0) is Roof.RATE


def test_a_pass_of_one_position_computes_what_a_step_does() -> None:
    assert pass_flops(SMOLLM2, 99, [1]) == step_flops(134_515_008, 30, 9, 64, 100)


def test_a_pass_of_several_positions_runs_the_head_where_logits_are_wanted() -> None:
    # Two positions behind three see 4 + 5 = 9 positions; the head's matrix is used once.
    expected = 2 * (134_515_008 - HEAD) * 2 + 2 * HEAD + 4 * 30 * 9 * 64 * 9
    assert pass_flops(SMOLLM2, 3, [2]) == expected
    assert pass_flops(SMOLLM2, 3, [2], heads=2) == expected + 2 * HEAD
    # Two rows of one position each: both see 4.
    assert pass_flops(SMOLLM2, 3, [1, 1], heads=2) == 2 * 2 * 134_515_008 + 4 * 30 * 9 * 64 * 8


def test_a_chunk_moves_the_weights_once_and_k_and_v_so_far() -> None:
    first, second = prefill_passes(
        SMOLLM2, prefill(chunk(0, 256, 400.0, warmup=True), chunk(256, 100, 200.0))
    )
    assert (first.tokens, first.context, first.warmup) == (256, 256, True)
    assert second.nbytes == 538_060_032 + 356 * 46_080
    assert second.flops == pass_flops(SMOLLM2, 256, [100])
    figures = figures_of_kind([first, second], CEILINGS)
    assert figures is not None
    # The first of its shape is left out: 0.2 s at 20 GB/s and 300 GFLOP/s.
    assert (figures.count, figures.ms, figures.warmup) == (1, 200.0, False)
    assert figures.mbu == pytest.approx(second.nbytes / 4e9)
    assert figures.mfu == pytest.approx(second.flops / 60e9)
    assert figures.roof is Roof.RATE


def test_a_plain_step_reads_all_for_one_token_and_bandwidth_binds_it() -> None:
    steps = [step(1, timing(0.0), kv(10, computed=10))]
    steps += [step(2, timing(90.0, warmup=True), kv(11)), step(3, timing(50.0, 4.0), kv(12))]
    run = view(SMOLLM2, prompt(10), prefill(chunk(0, 10, 500.0)), *steps)
    (found,) = decode_passes(SMOLLM2, run.path, 10)
    # Token 3 follows ten of the prompt and two others; its pass, not its sampling, is timed.
    assert (found.tokens, found.context, found.ms) == (1, 12, 50.0)
    assert found.nbytes == 538_060_032 + 12 * 46_080
    figures = figures_of_kind([found], CEILINGS)
    assert figures is not None
    assert figures.mbu == figures.plain_mbu == pytest.approx(found.nbytes / 1e9)
    assert figures.roof is Roof.BANDWIDTH


def test_without_a_cache_a_step_computes_the_whole_text_again() -> None:
    facts = replace(SMOLLM2, kv_storage=KVStorage(cached=False))
    steps = [step(1, timing(0.0), kv(10)), step(2, timing(500.0), kv(11, each=0))]
    (found,) = decode_passes(facts, view(facts, prompt(10), *steps).path, 10)
    assert found.tokens == 11
    assert found.flops == pass_flops(facts, 0, [11])


def test_a_round_may_exceed_what_plain_steps_could_reach_and_its_pass_may_not() -> None:
    """40 ms for four tokens, where a plain step takes 27 ms at least."""
    steps = [step(1, timing(0.0), kv(10, computed=10))]
    steps += [step(2, timing(40.0), kv(14), round=2)]
    steps += [step(node, timing(0.0), kv(14), round=2) for node in (3, 4, 5)]
    record = a_round(2, "aaar", times=(2.0, 40.0, 1.0))
    run = view(SMOLLM2, prompt(10), prefill(chunk(0, 10, 500.0)), record, *steps)
    (found,) = round_passes(SMOLLM2, run.path, 10, run.log.rounds)
    assert (found.kind, found.tokens, found.context) == (PassKind.ROUND, 5, 15)
    assert decode_passes(SMOLLM2, run.path, 10) == []
    figures = figures_of_kind([found], CEILINGS)
    assert figures is not None
    assert figures.mbu == pytest.approx(found.nbytes / 0.8e9)
    assert figures.mbu < 1 < figures.plain_mbu < 4  # type: ignore[operator]


def test_no_share_of_the_bandwidth_is_above_one() -> None:
    """Faster than memory: the weights stayed in a cache, or the ceiling is too low."""
    steps = [step(1, timing(0.0), kv(10)), step(2, timing(1.0), kv(11))]
    passes = decode_passes(SMOLLM2, view(SMOLLM2, prompt(10), *steps).path, 10)
    figures = figures_of_kind(passes, CEILINGS)
    assert figures is not None
    assert (figures.mbu, figures.too_fast) == (None, True)


def test_without_ceilings_there_are_points_and_no_shares() -> None:
    (one,) = prefill_passes(SMOLLM2, prefill(chunk(0, 256, 400.0)))
    figures = figures_of_kind([one], None)
    assert figures is not None
    assert (figures.mbu, figures.mfu, figures.roof) == (None, None, None)
    assert figures.intensity == one.flops / one.nbytes


def test_why_there_are_no_passes() -> None:
    assert why_none(None, 1) == "no model is loaded yet"
    script = replace(SMOLLM2, backend="scripted", weight_bytes=0, parameters=0)
    assert "scripted has no weights" in why_none(script, 1)
    recurrent = replace(SMOLLM2, kv_note="a state of constant size")
    assert why_none(recurrent, None).endswith("a state of constant size")
    assert why_none(SMOLLM2, 1) == ""
    assert prefill_passes(SMOLLM2, None) == []


def test_a_batch_reads_the_weights_once_for_all_of_its_rows() -> None:
    """Two rows in 40 ms; alone they would have taken 54 ms at least."""
    steps = [step(1, timing(0.0), kv(10, computed=10))]
    steps += [step(2, timing(40.0), kv(11)), step(3, timing(40.0), kv(11), parent=1)]
    columns = tuple(PassColumn(at, 1, Part.ROW, (at + 2,)) for at in (0, 1))
    record = PassRecord(columns, 2, 1, 40.0, 42.0, "float32", 538_060_032, 22 * 46_080)
    run = view(SMOLLM2, prompt(10), prefill(chunk(0, 10, 500.0)), *steps, record, cursor=2)
    (found,) = batch_passes(SMOLLM2, run.log.passes, run.log.nodes)
    assert (found.kind, found.tokens, found.context) == (PassKind.BATCH, 2, 11)
    assert found.nbytes == 538_060_032 + 22 * 46_080
    assert found.plain_bytes == 2 * 538_060_032 + 22 * 46_080
    # Ten positions that both begin with are read once; plain steps would read them twice.
    shared = replace(record, kv_bytes=12 * 46_080, shared_kv_bytes=10 * 46_080)
    (found,) = batch_passes(SMOLLM2, [shared], run.log.nodes)
    assert found.nbytes == 538_060_032 + 12 * 46_080
    assert found.plain_bytes == 2 * 538_060_032 + 22 * 46_080
    assert found.flops == 2 * step_flops(134_515_008, 30, 9, 64, 11)
    # Its time is the whole pass's, not that of a plain step.
    assert decode_passes(SMOLLM2, run.path, 10, record.nodes) == []
    assert batch_passes(SMOLLM2, [replace(record, passes=2)], run.log.nodes) == []
    assert batch_passes(SMOLLM2, [replace(record, kv_bytes=None)], run.log.nodes) == []
