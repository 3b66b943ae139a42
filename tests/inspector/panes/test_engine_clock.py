"""What an engine says of its own times, beside what is measured here."""

from __future__ import annotations

from dataclasses import replace

from textual.geometry import Size

from engine.records.engine import EngineTimes
from inspector.draw.engine_clock import engine_figure, engine_ms, engine_notes
from inspector.panes.gauges.pane import draw as draw_gauges
from inspector.panes.prefill.pane import draw as draw_prefill
from tests import fakes

ONE = EngineTimes(40, 2, 8.0, 1.0, 0.5)


def test_the_rest_of_the_time_is_queue_and_network() -> None:
    assert engine_figure((ONE,)).plain == "9.00 ms •"
    assert engine_notes((ONE,), 12.0) == (
        "40 cached, 2 evaluated; parsing 500 µs •, queue and network 2.50 ms ƒ",
        "40 cached, 2 evaluated",
        "40 cached, 2 evaluated",
    )


def test_what_it_does_not_say_is_not_made_up() -> None:
    silent = EngineTimes(parse_ms=0.5)
    assert engine_ms((ONE, silent)) is None
    assert engine_figure((silent,)).plain.startswith("—")
    assert engine_notes((silent,), 12.0)[0] == "counts not told; parsing 500 µs •"


def test_a_row_that_came_ahead_and_one_that_was_asked_for_twice_say_so() -> None:
    ahead = EngineTimes(40, 1, 0.0, 8.0, requests=0, ahead=True)
    assert engine_notes((ahead,), 9.0)[1] == "40 cached, 1 evaluated, a share of one request"
    twice = ONE + ONE
    assert engine_notes((twice,), 30.0)[1] == "40 cached, 4 evaluated, 2 requests"


def test_the_panes_show_it_where_there_is_one_and_nothing_where_there_is_none() -> None:
    for engine in (None, ONE):
        times = replace(fakes.timing(12.0), engine=engine)
        chunk = replace(fakes.chunk(0, 42, 12.0), engine=engine)
        view = fakes.view(
            fakes.SMOLLM2,
            fakes.prompt(42),
            fakes.prefill(chunk),
            fakes.step(1, times, fakes.kv(43)),
        )
        for draw in (draw_gauges, draw_prefill):
            lines = fakes.texts(draw(view, Size(100, 30)).rows)
            assert ("40 cached, 2 evaluated" in lines) is (engine is not None)
