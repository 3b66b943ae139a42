"""Units, marks and bars: how a number looks, and what is shown where there is none."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.content import Content

from inspector.draw import block_chars
from inspector.draw import numbers as figures
from inspector.draw.numbers import (
    NOTHING,
    Mark,
    bandwidth,
    beside,
    count,
    cut,
    derived,
    fit,
    heading,
    labelled,
    legend,
    marked,
    measured,
    ms,
    nats,
    nothing,
    percent,
    plural,
    rate,
    right,
    row,
    size,
    three,
)
from inspector.draw.plots import Series, bounds, plot

NO_NUMBER = [None, math.nan, math.inf, -math.inf]


# --- numbers --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.00 ms"),
        (0.0042, "4.20 µs"),
        (0.31, "310 µs"),
        (0.9996, "1.00 ms"),
        (1.0, "1.00 ms"),
        (9.996, "10.0 ms"),
        (99.96, "100 ms"),
        (743.2, "743 ms"),
        (999.6, "1.00 s"),
        (12_340.0, "12.3 s"),
        (119_400.0, "119 s"),
        (123_000.0, "2 min 03 s"),
    ],
)
def test_a_duration_has_three_digits_and_the_unit_that_reads_best(value: float, text: str) -> None:
    assert ms(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1024, "1.00 KiB"),
        (46_080, "45.0 KiB"),
        (1_013_760, "990 KiB"),
        (538_060_032, "513 MiB"),
        (8192 * 46_080, "360 MiB"),
        (1 << 30, "1.00 GiB"),
        (3 << 41, "6.00 TiB"),
    ],
)
def test_memory_is_in_binary_units_by_name(value: int, text: str) -> None:
    assert size(value) == text


def test_other_units() -> None:
    assert rate(10.0) == "10.0 tok/s"
    assert rate(1234.5) == "1,234 tok/s"
    assert bandwidth(33.3e9) == "33.3 GB/s"
    assert nats(0.5) == "0.50 nats"
    assert nats(0.0004) == "<0.001 nats"
    assert nats(0.0) == "0.00 nats"
    assert count(8192) == "8,192"
    assert plural(1, "step") == "1 step"
    assert plural(1200, "step") == "1,200 steps"
    assert three(0.0123) == "0.012"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0%"),
        (0.0004, "<0.1%"),
        (0.031, "3.1%"),
        (0.0999, "10%"),
        (0.42, "42%"),
        (1.03, "103%"),
    ],
)
def test_a_share_above_nothing_never_reads_nothing(value: float, text: str) -> None:
    assert percent(value) == text


@pytest.mark.parametrize("value", NO_NUMBER)
def test_where_there_is_no_number_there_is_a_dash(value: float | None) -> None:
    for show in (ms, size, rate, nats, percent, bandwidth):
        assert show(value) == NOTHING
    assert count(None) == NOTHING


# --- marks ----------------------------------------------------------------------------------


def test_a_mark_is_a_glyph_of_its_own_and_needs_no_colour() -> None:
    assert measured("12.3 ms").plain == "12.3 ms •"
    assert derived("81.3 tok/s").plain == "81.3 tok/s ƒ"
    assert marked("0.2 Wh", Mark.ESTIMATED).plain == "0.2 Wh ~"
    assert len(set(Mark)) == 3


def test_what_is_not_known_carries_no_mark() -> None:
    assert measured(NOTHING).plain == "—"
    assert nothing("no token yet").plain == "—  no token yet"
    assert nothing("").plain == "—"


def test_the_legend_says_what_the_marks_mean() -> None:
    assert legend(36).plain == "• measured   ƒ derived   ~ estimated"
    assert legend(32).plain == "• measured ƒ derived ~ estimated"
    assert legend(80).plain.endswith("counts are exact and carry no mark")


# --- lines ----------------------------------------------------------------------------------


def test_the_longest_text_that_fits_is_taken() -> None:
    variants = Content("a long text"), Content("short"), Content("s")
    assert fit(11, *variants).plain == "a long text"
    assert fit(10, *variants).plain == "short"
    assert fit(1, *variants).plain == "s"
    assert fit(0, *variants).plain == ""


def test_lines_keep_to_their_width() -> None:
    notes = "a long note on it", "a note"
    assert row("TTFT", 6, 40, Content("743 ms"), *notes).plain == "TTFT  743 ms   a long note on it"
    assert row("TTFT", 6, 21, Content("743 ms"), *notes).plain == "TTFT  743 ms   a note"
    assert row("TTFT", 6, 20, Content("743 ms"), *notes).plain == "TTFT  743 ms"
    assert labelled("label", 8, 12, Content("too long")).plain == "label   too…"
    assert right(Content("7"), 3).plain == "  7"
    assert cut(Content("你好"), 3).plain == "你…"
    assert heading("Blocks", 10).plain == "Blocks ───"


def test_two_columns_of_lines() -> None:
    left, other = [Content("a"), Content("b"), Content("c")], [Content("1"), Content("")]
    assert [line.plain for line in beside(left, other, 3, 2)] == ["a    1", "b", "c"]


# --- bars -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "picture"),
    [
        (0.0, "    "),
        (0.001, "▏   "),
        (0.25, "█   "),
        (0.375, "█▌  "),
        (1.0, "████"),
        (7.0, "████"),
        (math.nan, "    "),
        (-0.5, "    "),
    ],
)
def test_a_bar_is_drawn_to_an_eighth_of_a_cell(share: float, picture: str) -> None:
    assert block_chars.bar(share, 4) == picture


@pytest.mark.parametrize(
    ("start", "end", "picture"),
    [
        (0.0, 0.5, "████    "),
        (0.5, 1.0, "    ████"),
        (0.25, 0.4375, "  █▌    "),
        (0.5, 0.5001, "    ▏   "),
        (0.999, 1.0, "       ▕"),
        (0.5, 0.5, "        "),
        (0.9, 0.2, "        "),
    ],
)
def test_a_stretch_lies_where_it_belongs_on_the_axis(
    start: float, end: float, picture: str
) -> None:
    assert block_chars.placed(start, end, 8) == picture


def test_parts_of_a_bar_add_up_as_the_numbers_do() -> None:
    assert block_chars.shares([1, 1, 1], 3, 10) == [3, 4, 3]
    assert block_chars.shares([0.2, 0.2, 9.6], 10, 10) == [0, 0, 10]
    assert block_chars.shares([1, 2], 0, 10) == [0, 0]
    assert block_chars.shares([1, 2], math.nan, 10) == [0, 0]


@given(
    st.lists(st.floats(0, 100), min_size=1, max_size=8),
    st.integers(0, 60),
)
def test_parts_fill_the_bar_exactly(parts: list[float], width: int) -> None:
    cells = block_chars.shares(parts, sum(parts), width)
    assert sum(cells) == (width if sum(parts) > 0 else 0)
    assert min(cells) >= 0


@given(
    st.floats(allow_nan=True, allow_infinity=True),
    st.floats(allow_nan=True, allow_infinity=True),
    st.integers(0, 40),
)
def test_a_bar_is_as_wide_as_asked_whatever_it_shows(start: float, end: float, width: int) -> None:
    assert len(block_chars.placed(start, end, width)) == width


def test_columns_stand_on_zero() -> None:
    values = [0.0, 1.0, 4.0, 8.0, None, math.nan, math.inf]
    assert block_chars.spark(values, 8.0) == " ▁▄█ ××"
    assert block_chars.chart([2.0, 4.0, 0.01, 8.0], 2, 8.0) == ["   █", "▄█▁█"]
    assert block_chars.spark([1.0, 2.0], 0.0) == "▁▁"


def test_dots_stand_between_the_ends_of_their_axis() -> None:
    assert block_chars.dots([10.0, 12.5, 15.0, 20.0, None, math.nan], 2, 10.0, 20.0) == [
        "  ▄▀  ",
        "▄▀    ",
    ]
    assert block_chars.dots([5.0], 2, 5.0, 5.0) == ["▄", " "]


def test_what_is_not_finite_is_left_out_and_counted() -> None:
    assert block_chars.finite([1.0, math.nan, 2.0, math.inf, None]) == ([1.0, 2.0], 3)


# --- series over steps ----------------------------------------------------------------------


def series(values: list[float], skipped: dict[int, str] | None = None, **more: bool) -> Series:
    return Series("time", "step time", values, ms, Mark.MEASURED, "$bar", skipped or {}, **more)


def test_a_series_in_one_line() -> None:
    shown = series([40.0, 20.0, 80.0, 80.0], {2: "w"})
    assert [line.plain for line in plot(shown, 60, 1)] == [
        "time      ▄▄ ▂▂ w  ██   20.0 ms – 80.0 ms •"
    ]
    assert [line.plain for line in plot(shown, 24, 1)] == ["time      ▄▄ ▂▂ w  ██ "]
    assert [line.plain for line in plot(series([]), 30, 3)] == ["time      —  no step yet"]


def test_a_series_in_two_lines_says_what_was_left_out() -> None:
    shown = series([40.0, math.inf, 80.0], {2: "w"})
    assert [line.plain.rstrip() for line in plot(shown, 60, 2)] == [
        "step time  40.0 ms – 40.0 ms, median 40.0 ms •  2 left out",
        "██ ×  w",
    ]


def test_only_the_newest_steps_where_not_all_fit() -> None:
    line = plot(series([float(n) for n in range(1, 101)]), 20, 2)[1]
    assert line.plain == "▆▇▇▇▇▇▇▇▇▇▇▇▇███████"
    axis = plot(series([float(n) for n in range(1, 101)]), 40, 5)[-1]
    assert axis.plain.strip() == "0┴72" + " " * 24 + "100"


def test_a_chart_of_columns_has_a_scale_from_zero() -> None:
    shown = series([1.0, 2.0, 4.0], {})
    assert "\n".join(line.plain.rstrip() for line in plot(shown, 34, 6)) == (
        """\
step time  1.00 ms – 4.00 ms •
   4.00 ms┤      ██
          │      ██
          │   ██ ██
          │██ ██ ██
         0┴1     3 step"""
    )


def test_a_chart_of_zeros_has_a_scale_all_the_same() -> None:
    lines = [line.plain.rstrip() for line in plot(series([0.0, 0.0]), 34, 4)]
    assert lines[1:] == ["   1.00 ms┤", "          │", "         0┴1  2 step"]


def test_a_chart_of_nearby_values_says_where_its_axis_ends() -> None:
    shown = series([40.0, 41.0, 60.0, 42.0], {2: "w"}, nearby=True)
    assert "\n".join(line.plain.rstrip() for line in plot(shown, 40, 6)) == (
        """\
step time  40.0 ms – 42.0 ms •
   42.0 ms┤         ▀▀▀
          │   ▄▄▄
          │
          │▄▄▄   w
   40.0 ms┴1        4 step"""
    )


@pytest.mark.parametrize(
    ("low", "high", "ends"),
    [
        (0.0, 3.94, (0.0, 4.0)),
        (41.7, 45.5, (41.6, 45.6)),
        (0.0, 0.5, (0.0, 0.5)),
        (5.0, 5.0, (5.0, 5.0)),
    ],
)
def test_an_axis_ends_on_round_numbers(low: float, high: float, ends: tuple[float, float]) -> None:
    assert bounds(low, high) == pytest.approx(ends)


@given(
    st.lists(st.sampled_from([math.nan, math.inf, -math.inf]) | st.floats(-1e9, 1e9), max_size=200),
    st.integers(1, 90),
    st.integers(1, 20),
    st.booleans(),
)
def test_no_series_breaks_its_frame(
    values: list[float], width: int, height: int, nearby: bool
) -> None:
    shown = series(values, dict.fromkeys(range(0, len(values), 7), "w"), nearby=nearby)
    lines = plot(shown, width, height)
    assert len(lines) <= height
    assert all(line.cell_length <= width for line in lines)
    assert not any(word in line.plain for line in lines for word in ("nan", "inf "))


def test_the_marks_colours_are_variables_of_every_theme() -> None:
    import themes

    for name in themes.names():
        variables = themes.load(name).css_variables()
        assert set(figures.MEANING.values()) <= set(variables)
