"""Figures of columns, and where columns part: numbers that can be counted by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.records.step import How, StepRecord, Stop, StopKind
from engine.records.vocabulary import Token
from sessions.compare.column_figures import (
    RUNS_ON,
    ColumnCounter,
    Repetition,
    column_figures,
    distinct,
    to_json,
)
from sessions.compare.divergence import divergence, first_difference, margin_of
from tests.fakes import kv, step, timing


def column(text: str) -> list[StepRecord]:
    """A token a letter."""
    return [
        replace(step(at + 1, timing(10.0), kv(5 + at)), token=Token(ord(one), one.encode()))
        for at, one in enumerate(text)
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 0),
        ("ab", 0),
        ("aa", 1),
        ("aaaa", 3),
        ("abcab", 2),
        ("abcabc", 3),
        ("abca", 1),
    ],
)
def test_the_longest_run_that_comes_twice(text: str, expected: int) -> None:
    found = Repetition()
    for one in text:
        found.add(ord(one))
    assert found.longest == expected


def test_a_column_that_grows_is_read_once() -> None:
    """At 1,000 tokens a step costs what it costs at the first: older ones are not looked at."""
    steps = column("abcabcacacabcabc")
    counter = ColumnCounter()

    class Growing(list[StepRecord]):
        def __getitem__(self, at: object) -> object:  # type: ignore[override]
            read.append(at)
            return super().__getitem__(at)  # type: ignore[index]

    for count in range(len(steps) + 1):
        read: list[object] = []
        assert counter.figures(steps[:count]) == column_figures(steps[:count])
    counter.figures(Growing(steps))
    assert read == [slice(len(steps), None), -1]


def test_distinct_runs_over_all_runs() -> None:
    assert distinct([1, 2, 1, 2], 1) == 0.5
    assert distinct([1, 2, 1, 2], 2) == pytest.approx(2 / 3)  # 12 21 12
    assert distinct([1], 2) is None


def test_figures_of_a_column() -> None:
    steps = column("abab")
    found = column_figures(steps)
    assert found.tokens == 4
    assert found.distinct_1 == 0.5
    assert found.repetition == 2
    assert found.surprisal == pytest.approx(sum(one.surprisal for one in steps) / 4)
    assert found.entropy == pytest.approx(steps[0].entropy_raw)
    assert found.tps == pytest.approx(100.0)  # three gaps of 10 ms
    assert found.ended_by == RUNS_ON


def test_what_a_column_ended_by() -> None:
    steps = column("ab")
    stopped = [steps[0], replace(steps[1], stop=Stop(StopKind.LENGTH, "token budget of 2 used up"))]
    found = column_figures(stopped)
    assert (found.ended_by, found.ended_detail) == ("length", "token budget of 2 used up")
    failed = column_figures(steps, "nothing is left")
    assert (failed.ended_by, failed.ended_detail) == ("error", "nothing is left")


def test_of_no_token_there_is_no_figure() -> None:
    found = to_json(column_figures([], "no such dial"))
    assert found["tokens"] == found["repetition"] == 0
    assert found["entropy"] is found["tps"] is found["closest"] is found["distinct_1"] is None


def test_the_closest_race() -> None:
    steps = column("ab")
    near = replace(steps[1].draw, how=How.SAMPLED, u=0.31, low=0.3, high=0.9)
    far = replace(steps[0].draw, how=How.SAMPLED, u=0.5, low=0.2, high=0.9)
    steps = [replace(steps[0], draw=far), replace(steps[1], draw=near)]
    assert margin_of(steps[0]) == pytest.approx(0.3)
    found = column_figures(steps)
    assert found.closest == pytest.approx(0.01)
    assert found.closest_position == steps[1].position
    assert margin_of(replace(steps[0], draw=replace(far, how=How.FORCED, u=None))) is None


def test_where_columns_part() -> None:
    found = divergence([column("abcd"), column("abxd"), column("ab"), column("abcd")])
    assert found.index == 2
    assert found.position == column("abc")[2].position
    assert [token and token.bytes for token in found.tokens] == [b"c", b"x", None, b"c"]
    apart = {(one.a, one.b): one.index for one in found.pairs}
    assert apart == {(0, 1): 2, (0, 2): None, (0, 3): None, (1, 2): None, (1, 3): 2, (2, 3): None}


def test_columns_that_do_not_part() -> None:
    found = divergence([column("ab"), column("abc")])
    assert (found.index, found.position, found.tokens) == (None, None, ())
    assert divergence([]).pairs == ()


def test_the_first_difference() -> None:
    assert first_difference([1, 2, 3], [1, 4]) == 1
    assert first_difference([1, 2], [1, 2, 3]) is None
