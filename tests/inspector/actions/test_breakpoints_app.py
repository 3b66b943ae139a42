"""Breakpoints and watches under a user's hands: the keys, the list, the strip."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, Static

from engine.commands import Run, SetBreakpoints
from engine.conditions.breakpoints import Breakpoint, Breakpoints
from engine.conditions.condition import Condition, Unavailable
from engine.records.events import RunState
from engine.run.tree import ROOT
from inspector.app import Inspector
from inspector.panes.breakpoints import NamesPane, PointsPane
from inspector.screens.breakpoints import BreakpointsScreen
from inspector.state.breakpoints import Mark, Watch, Watched
from inspector.state.request import Request
from inspector.widgets.line_view import Pane
from inspector.widgets.watches import WatchStrip, watch_lines
from tests.direct import DirectClient, script
from tests.inspector.state.test_controller import Hands
from tests.inspector.test_app import press, screen_text


def points(*texts: str) -> tuple[Breakpoint, ...]:
    found = Breakpoints()
    for text in texts:
        found.add(text)
    return tuple(found)


# --- the controller ----------------------------------------------------------------------------


def hands(*texts: str) -> Hands:
    one = Hands()
    one.controller.breakpoints.take_over(SetBreakpoints(points(*texts)))
    return one


def go(one: Hands) -> int:
    one.controller.run()
    one.take()
    return one.controller.cursor.node


def counts(one: Hands) -> list[int]:
    return [point.hits for point in one.controller.breakpoints.points]


def test_continue_stops_at_each_hit_and_counts_it() -> None:
    one = hands("step in (3, 7)", "step == 7")
    assert go(one) == 3
    assert one.controller.log.state.reason == "breakpoint 1: step in (3, 7)"
    assert len(one.controller.log.nodes) == 3, "nothing was computed beyond"
    assert go(one) == 7
    assert counts(one) == [2, 1]
    assert go(one) == 20
    assert one.controller.log.state.state is RunState.STOPPED


def test_continue_goes_over_recorded_steps_first_and_stops_there_too() -> None:
    one = hands()
    one.controller.run(10)
    one.take()
    one.controller.cursor.first()
    one.controller.breakpoints.points.add("step in (4, 10, 12)")
    sent = len(one.client.sent)
    assert go(one) == 4
    assert go(one) == 10
    assert len(one.client.sent) == sent, "the engine was asked for nothing"
    assert go(one) == 12
    assert one.sent(Run)[-1] == Run(10)
    assert counts(one) == [3]


def test_ten_steps_end_at_a_hit_too() -> None:
    one = hands("step in (4, 6)")
    one.controller.run(5)
    one.take()
    assert one.controller.cursor.node == 4
    one.controller.cursor.first()
    one.controller.run(10)
    assert one.controller.cursor.node == 4
    one.controller.run(10)
    one.take()
    assert one.controller.cursor.node == 6


def test_reverse_goes_to_the_hit_before_and_at_last_to_the_prompt() -> None:
    one = hands()
    go(one)
    one.controller.breakpoints.points.add("step in (3, 7)")
    assert one.controller.reverse()
    assert one.controller.cursor.node == 7
    assert one.controller.reverse()
    assert one.controller.cursor.node == 3
    assert not one.controller.reverse()
    assert one.controller.cursor.node == ROOT
    assert counts(one) == [2]


def test_reverse_stays_on_its_branch_and_passes_what_is_off() -> None:
    one = hands()
    one.controller.run(6)
    one.take()
    one.controller.cursor.go_to(4)
    one.controller.force(25)
    one.take()
    fork = one.controller.cursor.node
    one.controller.run(2)
    one.take()
    breakpoints = one.controller.breakpoints.points
    breakpoints.add("token_id == 25 or step == 2")
    breakpoints.add("True")
    breakpoints.change(2, enabled=False)
    assert one.controller.reverse()
    assert one.controller.cursor.node == fork
    assert one.controller.reverse()
    assert one.controller.cursor.node == 2


def test_hits_that_are_let_pass_are_counted_alike_on_both_sides() -> None:
    one = hands("step > 2")
    one.controller.breakpoints.points.change(1, ignore=3)
    assert go(one) == 6
    assert counts(one) == [4]
    engine = one.client._engine._stepper
    assert engine is not None
    assert tuple(engine.breakpoints) == tuple(one.controller.breakpoints.points)


def test_a_new_engine_is_told_the_breakpoints() -> None:
    one = hands("step == 9")
    one.controller.step()
    one.take()
    restore = one.controller.restore_command()
    one.client = DirectClient()
    one.controller._send = one.client.send
    for command in (*script()[:2], restore):
        one.client.send(command)  # type: ignore[arg-type]
    one.take()
    assert go(one) == 9


def test_watches_show_the_value_at_the_cursor() -> None:
    one = hands("step == 2")
    breakpoints = one.controller.breakpoints
    breakpoints.watch("step * 10")
    breakpoints.watch("u < 2")
    breakpoints.watch("step*10")
    breakpoints.watch(" u < 2 ")
    go(one)
    watched = breakpoints.watched(2)
    assert watched.watches == (Watch("step * 10", 20), Watch("u < 2", True), Watch("step*10", 20))
    assert watched.marks[0].here is True
    assert breakpoints.watched(1).marks[0].here is False
    at_prompt = breakpoints.watched(ROOT)
    assert at_prompt.at_prompt
    assert isinstance(at_prompt.watches[0].value, Unavailable)
    breakpoints.watch("node", instead_of="u < 2")
    breakpoints.unwatch("step*10")
    assert [one.text for one in breakpoints.watches] == ["step * 10", "node"]


# --- the strip ---------------------------------------------------------------------------------

MARK = Mark(Breakpoint(1, "entropy > 3", hits=2), here=True)
WATCHED = Watched(
    (MARK, Mark(Breakpoint(2, "loop", enabled=False), here=False)),
    (Watch("margin", 0.25), Watch("u", Unavailable("greedy"))),
)


def strip(width: int, watched: Watched = WATCHED) -> list[str]:
    lines = watch_lines(watched, width)
    assert all(line.cell_length <= width for line in lines)
    return [line.plain for line in lines]


def test_the_strip_says_it_all_on_one_line_where_there_is_room() -> None:
    assert strip(80) == ["margin = 0.25 │ u = — │ ◉1 entropy > 3 ×2 │ ○2 loop"]


def test_the_strip_takes_a_second_line_and_says_what_is_missing() -> None:
    assert strip(40) == ["margin = 0.25 │ u = —", "◉1 entropy > 3 ×2 │ ○2 loop"]
    assert strip(26) == ["margin = 0.25 │ u = —", "◉1 entropy > … │ 1 more: B"]
    many = Watched(watches=tuple(Watch(f"rank + {n}", n) for n in range(9)))
    assert strip(40, many) == [
        "rank + 0 = 0 │ rank + 1 = 1",
        "rank + 2 = 2 │ rank + 3 = 3 │ 5 more: B",
    ]


def test_signs_tell_what_colour_tells() -> None:
    off = Mark(Breakpoint(1, "loop"), here=False)
    untold = Mark(Breakpoint(1, "loop"), here=None)
    assert strip(40, Watched((off,))) == ["●1 loop"]
    assert strip(40, Watched((untold,))) == ["?1 loop"]
    assert strip(40, Watched((untold,), at_prompt=True)) == ["●1 loop"]


# --- the app -----------------------------------------------------------------------------------

KEYS = {" ": "space", ">": "greater_than_sign", "=": "equals_sign", "(": "left_parenthesis",
        ")": "right_parenthesis", ",": "comma", "&": "ampersand"}  # fmt: skip


def app(breakpoints: SetBreakpoints | None = None) -> Inspector:
    opening, configure, submit = script()
    client = DirectClient()
    client.send(opening)
    asked = Request(opening, configure, submit, breakpoints or SetBreakpoints())
    return Inspector(asked, client, DirectClient)  # type: ignore[arg-type]


async def write(pilot: Pilot[None], text: str) -> None:
    await press(pilot, *(KEYS.get(letter, letter) for letter in text))


def toasts(one: Inspector) -> list[str]:
    return [one.message for one in one._notifications]


def said(one: Inspector) -> str:
    return str(one.screen.query_one("#said", Static).render())


async def test_b_opens_the_list_and_what_is_typed_stops_the_run() -> None:
    one = app()
    async with one.run_test(size=(80, 24)) as pilot:
        await press(pilot, "n", "B")
        assert isinstance(one.screen, BreakpointsScreen)
        await write(pilot, "step > 3")
        assert said(one) == "here: no"
        await press(pilot, "enter")
        assert isinstance(one.focused, PointsPane)
        await press(pilot, "B")
        assert not isinstance(one.screen, BreakpointsScreen)
        await press(pilot, "c")
        assert one.controller.cursor.node == 4
        shown = screen_text(one)
        assert "paused: breakpoint 1: step > 3" in shown.splitlines()[0]
        assert "◉1 step > 3 ×1" in shown
        await press(pilot, "b")
        assert "●1 step > 3 ×1" in screen_text(one)


async def test_conditions_of_the_command_line_are_there_from_the_start() -> None:
    one = app(SetBreakpoints(points("step == 5", "surprisal > 9"), ("step * 100",)))
    async with one.run_test(size=(160, 48)) as pilot:
        await press(pilot, "c")
        assert one.controller.cursor.node == 5
        assert "step * 100 = 500 │ ◉1 step == 5 ×1" in screen_text(one)
        await press(pilot, "R")
        assert one.controller.cursor.node == ROOT
        assert toasts(one) == ["no breakpoint strikes before: this is the prompt"]
        await press(pilot, "c")
        assert "step * 100 = 500 │ ◉1 step == 5 ×2" in screen_text(one)


async def test_what_is_wrong_is_said_and_the_cursor_goes_there() -> None:
    one = app()
    async with one.run_test(size=(80, 24)) as pilot:
        await press(pilot, "B")
        await write(pilot, "step > 3 && rank")
        await press(pilot, "enter")
        assert said(one) == "write and for && (column 10)"
        assert one.screen.query_one(Input).cursor_position == 9
        assert not one.controller.breakpoints.points
        await press(pilot, *["delete"] * 20, *["backspace"] * 20, "enter", "q")
        assert not isinstance(one.screen, BreakpointsScreen)


async def test_the_list_under_the_keys() -> None:
    one = app(SetBreakpoints(points("step == 5", "rank > 9")))
    async with one.run_test(size=(80, 24)) as pilot:
        await press(pilot, "B")
        assert isinstance(one.focused, PointsPane)
        breakpoints = one.controller.breakpoints
        await press(pilot, "space")
        assert [point.enabled for point in breakpoints.points] == [False, True]
        assert "○ 1" in screen_text(one)
        await press(pilot, "down", "enter")
        assert one.screen.query_one(Input).value == "rank > 9"
        await press(pilot, "backspace", "8", "enter")
        assert [point.text for point in breakpoints.points] == ["step == 5", "rank > 8"]
        await press(pilot, "i", "3", "enter")
        assert breakpoints.points[1].ignore == 3
        assert "the next 3 pass" in screen_text(one)
        await press(pilot, "i", "x", "enter")
        assert said(one) == "a whole number of hits, not 'x'"
        await press(pilot, "escape", "w")
        await write(pilot, "seed")
        await press(pilot, "enter")
        assert [watch.text for watch in breakpoints.watches] == ["seed"]
        await press(pilot, "down", "d", "home", "d")
        assert [point.text for point in breakpoints.points] == ["rank > 8"]
        assert breakpoints.watches == []
        await press(pilot, "escape")
        assert not isinstance(one.screen, BreakpointsScreen)


async def test_names_are_listed_with_their_values_and_completed() -> None:
    one = app()
    async with one.run_test(size=(160, 48)) as pilot:
        await press(pilot, "n", "B")
        names = one.screen.query_one(NamesPane)
        lines = [names.drawn.rows[at].plain for at in range(len(names.drawn.rows))]
        assert lines[0].startswith("the token ─")
        # 26 letters, all alike: log 26 = 3.2581 nats, a margin of nothing
        (entropy,) = [line for line in lines if line.startswith("entropy ")]
        assert " ".join(entropy.split()) == "entropy 3.2581 nats ƒ of the model's distribution"
        await write(pilot, "rank > 5 or entropy_f")
        lines = [names.drawn.rows[at].plain for at in range(len(names.drawn.rows))]
        assert [line.split()[0] for line in lines] == ["entropy_final"]
        await press(pilot, "right")
        assert one.screen.query_one(Input).value == "rank > 5 or entropy_final"


async def test_what_cannot_be_told_is_a_toast_once() -> None:
    one = app(SetBreakpoints(points('survivors("min_p") > 1')))
    async with one.run_test(size=(160, 48)) as pilot:
        await press(pilot, "n", "n", "n")
        (toast,) = toasts(one)
        assert toast == (
            "breakpoint 1 cannot be told at step 1: the chain has no min_p stage "
            '(survivors("min_p") > 1)'
        )
        assert "?1 survivors" in screen_text(one)


async def test_reverse_without_a_breakpoint_says_so() -> None:
    one = app()
    async with one.run_test(size=(80, 24)) as pilot:
        await press(pilot, "n", "n", "R")
        assert one.controller.cursor.node == 2
        assert toasts(one) == ["no breakpoint is on: B opens the list"]


@pytest.mark.parametrize("size", [(1, 1), (20, 5), (40, 12), (80, 24), (300, 80)])
async def test_any_terminal_size(size: tuple[int, int]) -> None:
    hostile = points('"[/b][$primary]\x1b[2J\u202e" in text', "step == 2")
    one = app(SetBreakpoints(hostile, ('token + "[/]"', "text")))
    async with one.run_test(size=size) as pilot:
        await press(pilot, "n", "n", "B", "down", "a")
        await write(pilot, "rank")
        await press(pilot, "enter", "space", "q", "R", "c")
        shown = screen_text(one)
        assert "\x1b" not in shown
        assert "\u202e" not in shown
        assert [point.text for point in one.controller.breakpoints.points][-1] == "rank"


async def test_the_strip_is_there_only_when_there_is_something_to_watch() -> None:
    one = app()
    async with one.run_test(size=(80, 24)) as pilot:
        await press(pilot, "n")
        bar = one.screen.query_one(WatchStrip)
        assert bar.size.height == 0
        height = one.query_one("#ladder", Pane).size.height
        one.controller.breakpoints.watches.append(Condition("step"))
        await press(pilot, "n")
        assert bar.size.height == 1
        assert one.query_one("#ladder", Pane).size.height == height - 1
        await pilot.click(WatchStrip)
        await pilot.pause()
        assert isinstance(one.screen, BreakpointsScreen)
