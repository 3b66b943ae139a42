"""The guided tour: every stop on two sizes of screen, and what each says to press."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from textual.geometry import Region

from engine.commands import Configure, Open, Submit
from engine.run.tree import ROOT
from inspector.actions.forks import _LOADING as LOADING
from inspector.actions.replay import request_of
from inspector.app import Inspector
from inspector.panes.shape.pane import ShapePane
from inspector.replaying import replaying
from inspector.screens.compare.screen import CompareScreen
from inspector.state.request import Request
from inspector.state.view import RunLog
from inspector.tour import columns
from inspector.tour.facts import figures, places
from inspector.tour.stops import STOPS
from inspector.tour.tour import POINTED_AT
from inspector.widgets.line_view import Pane
from inspector.widgets.tour_strip import TourStrip
from sessions import Session, open_session
from sessions.compare.compared import compared
from sessions.examples import EXAMPLES, example
from sessions.export.source import Source
from tests.direct import DirectClient
from tests.inspector.actions.test_saving import notes
from tests.marks import unmarked

COLUMNS = EXAMPLES["compare"].columns
SIZES = [(80, 24), (160, 48)]


def touring() -> Inspector:
    session = open_session(example("tour"))
    return replaying(
        session, request_of(session, Request(Open(), Configure(), Submit(""))), tour=True
    )


def node(app: Inspector) -> int:
    return app.controller.cursor.node


def transcript_text(app: Inspector) -> str:
    pane = app.debugger.query_one("#transcript", Pane)
    return "\n".join(pane.render_line(y).text for y in range(pane.size.height))


def shown(app: Inspector) -> set[str | None]:
    return {pane.id for pane in app.debugger.query(Pane) if pane.display}


SEEN: dict[str, Callable[[Inspector], object]] = {
    "t": transcript_text,
    "n": node,
    "h": node,
    "z": lambda app: app.debugger.query_one(f"#{app.tour.stop.pane}").size if app.tour else None,
    "s": shown,
    "x": lambda app: app.debugger.query_one(ShapePane)._ui,
    "V": lambda app: isinstance(app.screen, CompareScreen),
}
"""By key: what of the screen is another after it."""


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_all_stops_point_at_their_pane_and_what_they_say_to_press_works(
    size: tuple[int, int],
) -> None:
    app = touring()
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        tour = app.tour
        assert tour is not None
        assert len(tour.stops) == len(STOPS)
        for number, stop in enumerate(STOPS):
            await pilot.pause()
            assert tour.stop is stop
            strip = app.debugger.query_one(TourStrip)
            pointed_at = [pane for pane in app.debugger.query(Pane) if pane.has_class(POINTED_AT)]
            assert [pane.id for pane in pointed_at] == [stop.pane]
            assert pointed_at[0].has_focus
            assert pointed_at[0].size.height >= 5
            assert 3 <= strip.size.height <= 5
            assert strip.region in Region(0, 0, *size)
            # The words fit into the strip whole.
            assert len(tour.words().wrap(strip.content_size.width)) <= strip.size.height
            assert ") next  ( before  q ends" in tour.words().plain
            before = SEEN[stop.press](app)
            await pilot.press(stop.press)
            await pilot.pause()
            assert SEEN[stop.press](app) != before, (number, stop.press)
            if isinstance(app.screen, CompareScreen):
                compared_now = app.screen.comparison
                assert [one.title for one in compared_now.columns] == list(COLUMNS)
                assert [one.position for one in compared_now.columns] == [4] * 4, "where they part"
                await pilot.press("q")
                await pilot.pause()
            await pilot.press("right_parenthesis")
        assert tour.stop is STOPS[-1]
        assert len(app.controller.log.passes) > 0, "another recording"
        for stop in STOPS[-2:-4:-1]:
            await pilot.press("left_parenthesis")
            assert tour.stop is stop
        assert app.controller.log.passes == []


@pytest.mark.parametrize("key", ["q", "escape"])
async def test_q_and_escape_end_the_tour(key: str) -> None:
    app = touring()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        await pilot.press("z")
        await pilot.press(key)
        assert app.is_running
        await pilot.press(key)
        await pilot.pause()
        assert not app.is_running


def log_of(session: Session) -> RunLog:
    app = replaying(session, request_of(session, Request(Open(), Configure(), Submit(""))))
    assert app.replay is not None
    app.replay.begin()
    return app.controller.log


def test_the_figures_are_those_of_the_record() -> None:
    session = open_session(example("tour"))
    log, facts = log_of(session), session.facts
    assert facts is not None
    assert session.prefill is not None
    found = figures(log, places(log))
    each = session.steps[1].kv.nbytes / session.steps[1].kv.stored
    assert found["each"] == f"{each:,.0f}"
    assert found["formula"].startswith(f"2 × {facts.layers} × {facts.kv_heads} × {facts.head_dim}")
    assert found["cached"] == f"{session.prefill.cached:,}"
    assert session.prefill.cached > 0
    assert found["drafted"] == f"{sum(len(one.drafted) for one in session.rounds.values()):,}"
    for stop in STOPS:
        if stop.example == "tour":
            assert list(unmarked([stop.says.format(**found)])) == []


def test_the_figures_of_the_columns_are_those_of_the_comparison() -> None:
    log = log_of(open_session(example("compare")))
    found, whole = columns.figures(log), compared(Source.of_log(log, ROOT))
    texts = {stop.title: stop.says.format(**found) for stop in STOPS if stop.example == "compare"}
    assert (
        "after 3 equal tokens: there top_p left 1 candidate in column 1 and 22 in column 2"
        in (texts["Columns"])
    )
    for text in texts.values():
        assert list(unmarked([text])) == []
    assert "40 tokens in 9 passes" in texts["One pass for all"]
    four = next(one for one in whole.batch.by_rows if one.rows == 4)
    assert f"with 4 rows {four.forward_ms / 4:.1f} ms ƒ" in texts["One pass for all"]
    assert len({column.steps[0].draw.u for column in whole.columns}) == 1, "the same dice"


def test_a_run_without_forks_and_rounds_has_fewer_stops() -> None:
    assert {"fork", "loop", "round"}.isdisjoint(places(log_of(open_session(example("bytes")))))


async def test_with_a_model_the_tour_stays_in_its_own_run_and_says_that_it_loads() -> None:
    """What was done with the model would be lost in another recording."""
    session, client = open_session(example("tour")), DirectClient()
    asked = request_of(session, Request(Open(), Configure(), Submit("")))
    client.held = True
    app = replaying(session, asked, attach=lambda: client, tour=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert app.tour is not None
        assert {stop.example for stop in app.tour.stops} == {"tour"}
        await pilot.press("r")
        assert notes(app) == ["this is the prompt: n draws the first token"]
        await pilot.press("right_parenthesis", "right_parenthesis", "r", "D")
        await pilot.pause()
        assert notes(app)[1:] == [LOADING, LOADING], "not silently"
