"""The app under a user's keys, on a scripted engine in this process."""

from __future__ import annotations

import time
from typing import Any

import pytest
from textual.pilot import Pilot

import themes
from engine.commands import Open, Restore, Submit
from engine.records.events import RunState
from inspector.app import Inspector
from inspector.keys import pane_key
from inspector.panes.ladder.pane import LadderPane
from inspector.panes.registry import PANES
from inspector.screens.layout import places, tab_labels
from inspector.state.recorder import Recorder
from inspector.state.request import Request
from inspector.widgets.line_view import Pane
from tests.direct import DirectClient, script
from tests.settling import until

FIRST = [place[0] for place in places()]
"""The panes of the wide layout before anything was opened."""


def app(
    prompt: str = "abc", *, theme: str = "dark", recorder: Recorder | None = None, **options: Any
) -> Inspector:
    opening, configure, submit = script(prompt, **options)
    client = DirectClient()
    client.send(opening)
    return Inspector(
        Request(opening, configure, submit),
        client,
        DirectClient,
        theme=theme,  # type: ignore[arg-type]
        recorder=recorder,
    )


async def press(pilot: Pilot[None], *keys: str) -> None:
    for key in keys:
        await pilot.press(key)
        await pilot.pause()
    await pilot.pause()


def visible(one: Inspector) -> list[str]:
    return [str(pane.id) for pane in one.screen.query(Pane) if pane.display and pane.size.area]


def screen_text(one: Inspector) -> str:
    """The screen as text, line by line."""
    strips = one.screen._compositor.render_strips()[: one.size.height]
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


def pane_text(one: Inspector, name: str) -> str:
    pane = one.query_one(f"#{name}", Pane)
    return "\n".join(
        "".join(segment.text for segment in pane.render_line(y)) for y in range(pane.size.height)
    )


async def test_n_steps_and_b_goes_back() -> None:
    one = app()
    async with one.run_test(size=(160, 48)) as pilot:
        await press(pilot, "n", "n", "n")
        assert one.controller.cursor.node == 3
        await press(pilot, "b", "left")
        assert one.controller.cursor.node == 1
        await press(pilot, "right", "G")
        assert one.controller.cursor.node == 3
        await press(pilot, "g")
        assert one.controller.cursor.node == 0
        await press(pilot, "N")
        assert one.controller.cursor.node == 10
        await press(pilot, "c")
        assert one.controller.cursor.node == 20
        assert one.controller.log.state.state is RunState.STOPPED
        assert "stopped" in screen_text(one)


async def test_the_panes_show_what_the_record_says() -> None:
    one = app()
    async with one.run_test(size=(160, 48)) as pilot:
        await press(pilot, "n", "n")
        step = one.controller.view.step
        assert step is not None
        letter = step.token.bytes.decode()
        assert f'"{letter}"' in pane_text(one, "ladder")
        assert f"{step.draw.u:.5f}" in pane_text(one, "ladder")
        # 26 letters, all alike: 1 in 26, entropy log 26 = 3.258 nats
        assert "3.85%" in pane_text(one, "ladder")
        assert "3.26" in pane_text(one, "ladder")
        assert str(step.token.id) in pane_text(one, "tokens")
        before = "".join(one.token.bytes.decode() for one in one.controller.view.path[:-1])
        assert f"abc{before}" in pane_text(one, "transcript")


async def test_six_panes_in_a_wide_terminal_two_in_a_small_one() -> None:
    one = app()
    async with one.run_test(size=(160, 48)) as pilot:
        await pilot.pause()
        assert visible(one) == FIRST
        for number, spec in enumerate(PANES, start=1):
            await press(pilot, pane_key(number))
            assert spec.name in visible(one)
            assert len(visible(one)) == len(places())
        await press(pilot, "2")
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert visible(one) == ["transcript", "ladder"]
        for number, spec in enumerate(PANES, start=1):
            await press(pilot, pane_key(number))
            assert one.focused is not None
            assert one.focused.id == spec.name
            assert spec.name in visible(one)
            assert len(visible(one)) == (1 if spec.alone else 2)


async def test_tabs_can_be_clicked() -> None:
    one = app()
    async with one.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        strip = one.query_one("#tabs")
        at = screen_text(one).splitlines()[strip.region.y].index("6 ")
        await pilot.click("#tabs", offset=(at - strip.region.x, 0))
        await pilot.pause()
        assert visible(one) == ["transcript", "gauges"]


def test_the_tabs_fit_as_far_as_anything_does() -> None:
    for width in range(40, 200):
        labels = tab_labels(width)
        assert len(labels) == len(PANES)
        assert sum(map(len, labels)) <= width + 1
    assert "".join(tab_labels(200)).startswith(" 1 Transcript  2 Ladder ")
    for width in range(78, 200):
        assert all(len(label.split()[1]) >= 2 for label in tab_labels(width)), "a name, not a key"
    assert "".join(tab_labels(78)).startswith(("1 Text 2 Ladd 3 Tok", "1 Tex 2 Lad"))
    assert sum(map(len, tab_labels(78))) >= 76, "the line is used"


async def test_zoom_shows_one_pane_and_all_again() -> None:
    one = app()
    async with one.run_test(size=(160, 48)) as pilot:
        await press(pilot, "n", "4", "z")
        assert visible(one) == ["kv"]
        await press(pilot, "6")
        assert visible(one) == ["gauges"]
        assert "TTFT" in pane_text(one, "gauges")
        await press(pilot, "z")
        assert visible(one) == FIRST


@pytest.mark.parametrize(("size", "pane"), [((160, 48), "4"), ((80, 24), "4"), ((80, 24), "1")])
async def test_a_zoom_fills_the_body_and_applies_no_stylesheet(
    size: tuple[int, int], pane: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = app()
    async with one.run_test(size=size) as pilot:
        await press(pilot, "n", pane)
        ladder = one.screen.query_one(LadderPane)
        if ladder.display:  # it explains in a thread of its own
            await until(lambda: ladder.reasons.found)
        places = {str(each.id): each.region for each in one.screen.query(Pane) if each.display}
        before = screen_text(one)
        applied: list[object] = []
        monkeypatch.setattr(one.stylesheet, "update_nodes", lambda *a, **k: applied.append(a))
        await press(pilot, "z")
        (zoomed,) = (each for each in one.screen.query(Pane) if each.display)
        body = one.screen.query_one("#body")
        assert zoomed.region == body.region
        assert body.region.height == size[1] - 2  # the status line and the footer
        await press(pilot, "z")
        after = {str(each.id): each.region for each in one.screen.query(Pane) if each.display}
        assert after == places
        assert screen_text(one) == before
        assert applied == []


async def test_a_key_paints_in_place_of_the_paint_that_was_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = app()
    async with one.run_test(size=(160, 48)) as pilot:
        await press(pilot, "n", "n", "n", "b")
        painter, paints = one._painter, list[int]()
        monkeypatch.setattr(painter, "_draw", lambda: paints.append(one.controller.cursor.node))
        # As when records come from an engine at work: they are painted later, at their own pace.
        one.controller._sent = True
        monkeypatch.setattr("inspector.painter._PARKED_FRAME_S", 60.0)
        painter._last = time.monotonic()
        one._records()
        due = painter._next
        assert paints == []
        assert due is not None
        await pilot.press("b")
        assert paints == [1]
        assert due._task is None, "stopped: it would ring besides the next one"
        monkeypatch.setattr("inspector.painter._PARKED_FRAME_S", 0.01)
        one.paint()
        one._records()
        await until(lambda: len(paints) == 3)
        assert painter._next is None


async def test_a_tick_without_widgets_ends_nothing() -> None:
    """They come after the screen, and go before it, while a pass may be running."""
    one = app()
    async with one.run_test(size=(80, 24)) as pilot:
        await press(pilot, "n")
        one.controller._sent = True
        await one.debugger.query_children("*").remove()
        assert one.controller.busy
        one._tick()
        one.paint()
        await pilot.pause()


@pytest.mark.parametrize("size", [(1, 1), (20, 5), (39, 12), (80, 24), (300, 80)])
async def test_any_terminal_size(size: tuple[int, int]) -> None:
    one = app()
    async with one.run_test(size=size) as pilot:
        await press(pilot, "n", "n")
        assert one.controller.cursor.node == 2
        if size[0] >= 20 and size[0] < 40:
            assert "too small" in screen_text(one)


async def test_the_smallest_screen_has_rows_of_the_ladder() -> None:
    """F11."""
    one = app()
    async with one.run_test(size=(40, 12)) as pilot:
        await press(pilot, "n")
        ladder = one.debugger.query_one(LadderPane)
        assert ladder.body_height >= 2
        assert "●" in ladder.render_line(1).text + ladder.render_line(2).text


async def test_resizing_while_it_runs() -> None:
    one = app()
    async with one.run_test(size=(160, 48)) as pilot:
        for size in [(1, 1), (80, 24), (20, 5), (120, 36), (119, 36), (300, 80), (40, 12)]:
            await pilot.resize_terminal(*size)
            await press(pilot, "n", "z", "z")
        assert one.controller.cursor.node == 7


HOSTILE = ["[/b]", "[bold]x", "[$primary]", "[link=http://a]z", "\x1b[2J", "\u202e", "\x9b", "\x00"]


@pytest.mark.parametrize("size", [(160, 48), (80, 24)])
async def test_hostile_text_is_shown_and_not_obeyed(size: tuple[int, int]) -> None:
    """Cases 18 and 19."""
    prompt = "".join(HOSTILE)
    one = app(prompt, tokens=HOSTILE)
    async with one.run_test(size=size) as pilot:
        await press(pilot, *"nnnnnn")
        for number in range(1, len(PANES) + 1):
            await press(pilot, str(number), "z", "z")
            shown = screen_text(one)
            for control in ("\x1b", "\u202e", "\x9b", "\x00"):
                assert control not in shown
        await press(pilot, "1")
        text = pane_text(one, "transcript")
        for visible_form in ("[/b]", "[bold]x", "[$primary]", "␛[2J", "<U+202E>", "\\x9b", "␀"):
            assert visible_form in text.replace("\n", ""), visible_form


async def test_a_dead_engine_is_said_and_restart_goes_on() -> None:
    one = app()
    async with one.run_test(size=(160, 48)) as pilot:
        await press(pilot, "n", "n", "n")
        ids = [step.token.id for step in one.controller.view.path]
        assert isinstance(one.engine.client, DirectClient)
        one.engine.client.die()
        await press(pilot, "n")
        assert "the engine ended: killed by SIGKILL" in screen_text(one)
        assert [step.token.id for step in one.controller.view.path] == ids
        await press(pilot, "K", "n")
        assert [step.token.id for step in one.controller.view.path][:3] == ids
        assert one.controller.cursor.node == 4
        assert isinstance(one.engine.client, DirectClient)
        kinds = [type(command) for command in one.engine.client.sent]
        assert Restore in kinds
        assert Submit not in kinds


async def test_a_restart_keeps_the_dtype_the_run_began_with() -> None:
    """Timed again, another dtype might win, and the run would not go on as it began."""
    opening, configure, submit = script()
    client = DirectClient()
    client.send(opening)
    asked = Request(Open("hf", {"model": "m", "dtype": "auto"}), configure, submit)
    again = DirectClient()
    again.held = True
    one = Inspector(asked, client, lambda: again)
    async with one.run_test(size=(80, 24)) as pilot:
        await press(pilot, "n", "K")
        (opened,) = [command for command in again.sent if isinstance(command, Open)]
        assert opened == Open("hf", {"model": "m", "dtype": "float32"})


async def test_enter_on_a_candidate_forces_it() -> None:
    one = app()
    async with one.run_test(size=(160, 48)) as pilot:
        await press(pilot, "n", "n", "2", "home", "enter")
        step = one.controller.view.step
        assert step is not None
        assert step.parent == 1
        assert one.controller.log.tree.children[1] == [2, 3]
        assert step.token.id == 0, "the first row: lowest id among equals"


async def test_every_key_is_in_the_palette_and_the_help() -> None:
    one = app()
    async with one.run_test(size=(160, 48)) as pilot:
        await press(pilot, "question_mark", "slash", *"restart")
        assert "Restart engine" in screen_text(one)
        await press(pilot, "escape", "question_mark", "ctrl+p")
        await press(pilot, *"restart")
        assert "Restart engine" in screen_text(one)


async def test_every_action_has_a_plain_key() -> None:
    """Case 61: no action needs Esc, Alt or Ctrl+Shift."""
    one = app()
    async with one.run_test(size=(160, 48)) as pilot:
        await pilot.pause()
        for spec in PANES:
            one.query_one(f"#{spec.name}").focus()
            await pilot.pause()
            plain: dict[str, bool] = {}
            for key, active in one.screen.active_bindings.items():
                easy = not any(part in key for part in ("escape", "alt+", "ctrl+shift"))
                action = active.binding.action
                plain[action] = plain.get(action, False) or easy
            hard = [action for action, easy in plain.items() if not easy]
            assert hard == [], spec.name


@pytest.mark.parametrize("name", themes.names())
async def test_every_theme_draws_every_pane(name: str) -> None:
    one = app(theme=name)
    async with one.run_test(size=(160, 48)) as pilot:
        await press(pilot, "n", "n")
        assert one.theme == name
        assert "temperature" in screen_text(one)


async def test_keys_can_be_rebound_by_id() -> None:
    opening, configure, submit = script()
    client = DirectClient()
    client.send(opening)
    one = Inspector(
        Request(opening, configure, submit),
        client,  # type: ignore[arg-type]
        DirectClient,  # type: ignore[arg-type]
        keys={"step": "j"},
    )
    async with one.run_test(size=(160, 48)) as pilot:
        await press(pilot, "1", "x", "n")
        assert one.controller.cursor.node == 0
        one.screen.set_focus(None)
        await press(pilot, "j")
        assert one.controller.cursor.node == 1


async def test_an_error_of_the_engine_is_on_the_status_line() -> None:
    one = app(fault="raise", fault_at=2)
    async with one.run_test(size=(160, 48)) as pilot:
        await press(pilot, "n", "n")
        assert "scripted fault in pass 2" in screen_text(one).splitlines()[0]
        await press(pilot, "n")
        assert one.controller.cursor.node == 2


async def test_no_color_takes_colours_and_not_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once all of it was black on black."""
    monkeypatch.setenv("NO_COLOR", "")
    one = app(theme="ansi-dark")
    async with one.run_test(size=(80, 24)) as pilot:
        await press(pilot, "n")
        for theme in ("ansi-dark", "dark", "ansi-dark"):
            one.theme = theme
            await press(pilot, "n")
            for strip in one.screen._compositor.render_strips():
                for segment in strip:
                    style = segment.style
                    if segment.text.strip() and style is not None and style.color is not None:
                        assert style.color != style.bgcolor or style.color.is_default
                        if theme == "ansi-dark":
                            assert style.color.is_default


async def test_keys_that_come_all_at_once_do_what_they_would_one_by_one() -> None:
    one = app()
    async with one.run_test(size=(160, 40)) as pilot:
        await press(pilot, "n")
        # As a macro or a fast hand sends them: no pause between the pane's digit and the zoom.
        one.screen.action_focus_pane(6)
        one.screen.action_zoom()
        await pilot.pause()
        assert one.screen.focused.id == "gauges"
        assert one.query_one("#gauges").size.width > 150
