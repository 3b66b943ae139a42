"""Fits of a time to the length of the text: known lines come out again, noise is told as noise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.growth import binned, fitted_line, fitted_parts


def test_a_line_comes_out_again() -> None:
    x = list(range(10, 400))
    line = fitted_line(x, [20 + 0.01 * at for at in x])
    assert line is not None
    assert (line.start, line.slope) == (pytest.approx(20), pytest.approx(0.01))
    assert line.error == pytest.approx(0, abs=1e-9)
    assert line.resolved
    assert line.at(100) == pytest.approx(21)


def test_a_wait_of_minutes_moves_no_fit() -> None:
    x = list(range(240))
    y = [30 + 0.02 * at for at in x]
    y[100] = 120_000.0
    line = fitted_line(x, y)
    assert line is not None
    assert line.slope == pytest.approx(0.02, rel=0.05)


def test_noise_is_no_slope() -> None:
    noise = np.random.default_rng(3).normal(40, 5, 30)
    line = fitted_line(list(range(30)), noise)
    assert line is not None
    assert not line.resolved


def test_steps_that_get_shorter_show_no_growth() -> None:
    line = fitted_line([1, 2, 3, 4], [40.0, 30.0, 20.0, 10.0])
    assert line is not None
    assert line.error == pytest.approx(0, abs=1e-9)
    assert not line.resolved


@pytest.mark.parametrize("x", [[], [1.0, 2.0], [5.0] * 10, [float("nan"), 1.0, 2.0]])
def test_a_line_needs_three_places(x: list[float]) -> None:
    assert fitted_line(x, [1.0] * len(x)) is None
    assert fitted_parts(x, [1.0] * len(x)) is None


@given(st.floats(1e-3, 10), st.floats(1e-7, 1e-2))
def test_both_parts_come_out_again(linear: float, quadratic: float) -> None:
    lengths = [64.0, 128.0, 256.0, 700.0, 2000.0]
    parts = fitted_parts(lengths, [linear * n + quadratic * n * n for n in lengths])
    assert parts is not None
    for n in lengths:
        assert parts.at(n) == pytest.approx(linear * n + quadratic * n * n, rel=1e-6)
    assert parts.equal_at == pytest.approx(linear / quadratic, rel=1e-2)


def test_no_part_is_negative() -> None:
    """A fixed cost makes short texts dear: the quadratic part is 0, not below it."""
    parts = fitted_parts([10.0, 100.0, 1000.0], [60.0, 150.0, 1050.0])
    assert parts is not None
    assert parts.quadratic == 0
    assert parts.linear > 0
    assert parts.equal_at is None


def test_neighbours_are_one_point_each_the_median() -> None:
    x, y = binned([3.0, 1.0, 2.0, float("inf")], [30.0, 10.0, 20.0, 40.0])
    assert (x, y) == ([1.0, 2.0, 3.0], [10.0, 20.0, 30.0])
    assert len(binned(range(1000), range(1000))[0]) == 24
