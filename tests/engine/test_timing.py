"""TTFT, ITL, TPS: the field's definitions on runs that can be added up in the head."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.records.prompt import PrefillRecord, PromptRecord
from engine.records.step import StepRecord
from engine.timing import (
    Phase,
    PhaseKind,
    decode_ms,
    now_ms,
    percentile,
    phases,
    speed,
    ttft_ms,
)
from tests.fakes import case_36, chunk, kv, prefill, prompt, step, timing


def split(records: list[object]) -> tuple[PromptRecord, PrefillRecord, list[StepRecord]]:
    """The three things that ``speed`` takes."""
    asked = next(r for r in records if isinstance(r, PromptRecord))
    read = next(r for r in records if isinstance(r, PrefillRecord))
    return asked, read, [r for r in records if isinstance(r, StepRecord)]


def test_case_36_each_rate_counts_its_own_tokens_and_its_own_time() -> None:
    figures = speed(*split(case_36()))
    assert figures.ttft_ms == 500
    assert figures.itl_ms == 100
    assert figures.tps == pytest.approx(10)
    assert figures.end_to_end_tps == pytest.approx(5 / 0.9)
    assert figures.prefill_tps == pytest.approx(20)


def test_case_36_with_one_token_there_is_no_decode_rate() -> None:
    asked, read, path = split(case_36())
    figures = speed(asked, read, path[:1])
    assert figures.ttft_ms == 500
    assert (figures.itl_ms, figures.tps) == (None, None)
    assert figures.end_to_end_tps == pytest.approx(2)


def test_a_speculative_round_is_one_gap_with_several_tokens() -> None:
    """12 ms of a round bring three tokens, 20 ms of a plain step one; nothing lies between them."""
    steps = [step(1, timing(0.0), kv(10, computed=10))]
    steps += [step(2, timing(10.0, other=1.0), kv(11), round=2)]
    steps += [step(3, timing(0.0, other=0.6), kv(12), round=2)]
    steps += [step(4, timing(0.0, other=0.4), kv(13), round=2)]
    steps += [step(5, timing(20.0), kv(14))]
    figures = speed(prompt(10), prefill(chunk(0, 10, 500.0)), steps)
    assert decode_ms(steps) == pytest.approx([12.0, 20.0])
    assert figures.itl_ms == pytest.approx(16.0)
    assert figures.tps == pytest.approx(4 / 0.032)


def test_nothing_is_known_of_nothing() -> None:
    figures = speed(None, None, [])
    assert figures.ttft_ms is None
    assert figures.itl_ms is None
    assert figures.tps is None
    assert figures.end_to_end_tps is None
    assert figures.prefill_tps is None
    assert (figures.warmup_steps, figures.reused_steps, figures.reread_steps) == (0, 0, 0)


def test_no_rate_is_infinite_where_the_clock_saw_no_time_pass() -> None:
    path = [step(1, timing(0.0), kv(2)), step(2, timing(0.0), kv(3))]
    figures = speed(prompt(2), prefill(chunk(0, 2, 0.0)), path)
    assert (figures.tps, figures.end_to_end_tps, figures.prefill_tps) == (None, None, None)


def test_steps_that_are_not_steady_are_in_no_average() -> None:
    asked, read, path = split(case_36())
    slow = replace(path[1], timing=timing(5000.0, warmup=True))
    free = replace(path[2], timing=timing(0.0, 0.5, reused=True))
    again = replace(path[3], timing=timing(900.0, reread=True))
    figures = speed(asked, read, [path[0], slow, free, again, path[4]])
    assert figures.itl_ms == 100
    assert figures.tps == pytest.approx(10)
    assert (figures.warmup_steps, figures.reused_steps, figures.reread_steps) == (1, 1, 1)


def test_the_whole_wait_holds_warm_up_but_is_not_known_on_a_fork() -> None:
    asked, read, path = split(case_36())
    slow = replace(path[1], timing=timing(1100.0, warmup=True))
    assert speed(asked, read, [path[0], slow]).end_to_end_tps == pytest.approx(2 / 1.6)
    for forked in (timing(0.0, 0.5, reused=True), timing(900.0, reread=True)):
        path[1] = replace(path[1], timing=forked)
        assert speed(asked, read, path[:2]).end_to_end_tps is None


def test_ttft_is_the_sum_of_its_phases_and_ends_with_the_id() -> None:
    first = step(1, timing(0.0, sample=3.0, detokenize=1.0, other=7.0), kv(12))
    read = prefill(chunk(0, 8, 40.0), chunk(8, 4, 20.0))
    parts = phases(prompt(12, tokenize_ms=2.0), read, first)
    assert [(part.kind, part.ms, part.chunk) for part in parts] == [
        (PhaseKind.TOKENIZE, 2.0, None),
        (PhaseKind.PREFILL, 40.0, 0),
        (PhaseKind.PREFILL, 20.0, 1),
        (PhaseKind.SAMPLE, 3.0, None),
        (PhaseKind.DETOKENIZE, 1.0, None),
    ]
    assert ttft_ms(parts) == 65.0


def test_the_prefill_is_counted_once_even_if_the_first_step_ran_it() -> None:
    asked, read, path = split(case_36())
    lazy = replace(path[0], timing=timing(500.0, sample=1.0))
    assert speed(asked, read, [lazy]).ttft_ms == 501


def test_there_is_no_ttft_before_there_is_a_token() -> None:
    parts = phases(prompt(4, tokenize_ms=1.0), prefill(chunk(0, 2, 9.0), done=False), None)
    assert [part.ms for part in parts] == [1.0, 9.0]
    assert ttft_ms(parts) is None


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=6))
def test_ttft_equals_the_phases_shown(times: list[float]) -> None:
    parts = [Phase(PhaseKind.PREFILL, ms, i) for i, ms in enumerate(times)]
    parts.append(Phase(PhaseKind.SAMPLE, 2.0))
    assert ttft_ms(parts) == pytest.approx(sum(times) + 2.0)


def test_decode_steps_begin_after_the_first_token() -> None:
    _, _, path = split(case_36())
    assert decode_ms(path) == [100.0] * 4
    assert decode_ms(path[:1]) == []


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        ([], 0.5, None),
        ([7.0], 0.95, 7.0),
        ([3.0, 1.0, 2.0], 0.5, 2.0),
        ([4.0, 1.0, 3.0, 2.0], 0.5, 2.0),
        ([float(n) for n in range(1, 101)], 0.95, 95.0),
        ([1.0, 2.0], 0.0, 1.0),
        ([1.0, 2.0], 1.0, 2.0),
    ],
)
def test_a_percentile_is_one_of_the_values(
    values: list[float], share: float, expected: float | None
) -> None:
    assert percentile(values, share) == expected


def test_the_clock_never_goes_back() -> None:
    first = now_ms()
    assert now_ms() >= first
