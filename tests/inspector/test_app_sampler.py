"""The sampler laboratory under a user's keys: dials, what-if, stacks, shape, and applying."""

from __future__ import annotations

from typing import Any

import pytest
from textual.pilot import Pilot

import themes
from engine.commands import Configure, Open, Run, SendLogits, Step, Submit
from engine.records.events import RunState, StateChanged
from inspector.app import Inspector
from inspector.panes.dials.pane import DialsPane
from inspector.panes.ladder.pane import LadderPane
from inspector.panes.shape.pane import ShapePane
from inspector.panes.stacks.pane import StacksPane
from inspector.state.request import Request
from tests.direct import DirectClient
from tests.fake_runs import EIGHTHS, logits
from tests.inspector.test_app import pane_text, press, screen_text, visible
from tests.settling import until

WIDE, COMPACT = (160, 48), (80, 24)
DEFAULT = "temperature=0.8 > top_k=40 > top_p=0.95"
LETTERS = ["a", "b", "c", "d", "[/b]", "\x1b[2J"]


def app(
    *, tokens: list[str] = LETTERS, settings: Configure | None = None, theme: str = "dark"
) -> Inspector:
    opening = Open("scripted", {"tokens": tokens, "vectors": [logits(EIGHTHS).tolist()]})
    client = DirectClient()
    client.send(opening)
    asked = Request(opening, settings or Configure(seed=7, max_tokens=20), Submit("ab"))
    return Inspector(asked, client, DirectClient, theme=theme)  # type: ignore[arg-type]


def sent(one: Inspector, kind: type[Any]) -> list[Any]:
    client = one.engine.client
    assert isinstance(client, DirectClient)
    return [command for command in client.sent if isinstance(command, kind)]


def spec(one: Inspector) -> str | None:
    chain = one.controller.cursor.what_if
    return None if chain is None else chain.spec


async def explained(one: Inspector, pilot: Pilot[None]) -> None:
    await until(lambda: one.query_one(LadderPane).reasons.resting)
    await pilot.pause()


# --- opening and closing ----------------------------------------------------------------------


async def test_s_opens_the_dials_beside_the_ladder_and_closes_them() -> None:
    one = app()
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "n", "n", "s")
        assert isinstance(one.focused, DialsPane)
        assert visible(one) == ["transcript", "ladder", "dials", "kv", "prefill", "gauges"]
        assert "temperature=0.8 > top_k=40 > top_p=0.95" in screen_text(one)
        await press(pilot, "s")
        assert "tokens" in visible(one)
        assert "dials" not in visible(one)
        assert isinstance(one.focused, LadderPane)
        # among the dials a digit begins a value; elsewhere it is a pane's
        await press(pilot, "s", "tab", "3")
        assert "tokens" in visible(one)
        assert "dials" not in visible(one)


async def test_in_a_small_terminal_the_dials_stand_above_the_ladder() -> None:
    one = app()
    async with one.run_test(size=COMPACT) as pilot:
        await press(pilot, "n", "n", "s")
        dials, ladder = one.query_one(DialsPane), one.query_one(LadderPane)
        # Above them is a line of the text: what is tried is tried in it.
        assert set(visible(one)) == {"transcript", "dials", "ladder"}
        assert one.query_one("#transcript").region.height == 3
        assert dials.region.bottom == ladder.region.y
        assert ladder.region.height >= 8
        await press(pilot, "tab", "4")
        assert set(visible(one)) == {"transcript", "kv"}
        await press(pilot, "7")
        assert set(visible(one)) == {"transcript", "dials", "shape"}
        await pilot.resize_terminal(80, 40)
        await pilot.pause()
        assert set(visible(one)) == {"transcript", "dials", "shape"}
        await press(pilot, "s")
        assert set(visible(one)) == {"transcript", "ladder"}


# --- trying -----------------------------------------------------------------------------------


async def test_a_turn_is_shown_at_once_and_runs_nothing() -> None:
    one = app()
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "n", "n", "s")
        passes = len(sent(one, Step)) + len(sent(one, Run))
        before = one.controller.view.step
        await press(pilot, "plus", "plus", "greater_than_sign", "down", "minus")
        assert spec(one) == "temperature=1.15 > top_k=39 > top_p=0.95"
        assert len(sent(one, Step)) + len(sent(one, Run)) == passes
        assert one.controller.view.step is before
        assert one.controller.log.settings is not None
        assert one.controller.log.settings.chain_spec == DEFAULT
        text = screen_text(one)
        for sign in (
            "WHAT IF, not the record",
            "0.8→1.15",
            "WHAT IF temperature=1.15",
            "would draw ○",
        ):
            assert sign in text, sign
        assert one.query_one(LadderPane).has_class("-what-if")


async def test_what_is_tried_goes_along_when_the_cursor_moves_and_with_n() -> None:
    one = app()
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "n", "n", "n", "s", "plus", "b", "b")
        assert one.controller.cursor.node == 1
        assert spec(one) == "temperature=0.85 > top_k=40 > top_p=0.95"
        assert "0.8→0.85" in pane_text(one, "ladder")
        await press(pilot, "n", "n", "n")
        assert one.controller.cursor.node == 4
        step = one.controller.view.step
        assert step is not None
        assert step.chain_spec == DEFAULT, "a new token is drawn with the run's own settings"
        assert "0.8→0.85" in pane_text(one, "ladder")


@pytest.mark.parametrize("way", ["s", "back"])
async def test_closing_and_turning_back_drop_what_was_tried(way: str) -> None:
    one = app()
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "n", "s", "plus")
        assert spec(one) is not None
        await press(pilot, *(["s"] if way == "s" else ["minus"]))
        assert spec(one) is None
        assert "WHAT IF" not in screen_text(one)
        assert not one.query_one(LadderPane).has_class("-what-if")


async def test_the_keys_of_the_dials_are_dead_while_they_are_closed() -> None:
    one = app()
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "n", "plus", "minus", "greater_than_sign", "a", "A")
        assert spec(one) is None
        assert one.controller.cursor.node == 1
        assert len(sent(one, Configure)) == 1
        keys = one.screen.active_bindings
        assert "a" not in keys
        assert "plus" not in keys
        await press(pilot, "s")
        assert "plus" in one.screen.active_bindings
        assert "a" not in one.screen.active_bindings, "nothing is tried yet"
        await press(pilot, "plus")
        assert "a" in one.screen.active_bindings


async def test_a_picture_between_two_turns_loses_neither() -> None:
    one = app()
    async with one.run_test(size=(160, 48)) as pilot:
        await press(pilot, "n", "n", "s")
        await press(pilot, "plus", "plus", "plus")
        by_keys = spec(one)
        await press(pilot, "0")
        assert spec(one) != by_keys
        for _ in range(3):
            one.action_turn(1)
            # What is on its way is not known to the app yet; it paints what it knows.
            one.paint()
        await pilot.pause()
        assert spec(one) == by_keys


async def test_dials_turn_from_the_ladder_too() -> None:
    one = app()
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "n", "s", "tab", "2", "plus")
        assert isinstance(one.focused, LadderPane)
        assert spec(one) == "temperature=0.85 > top_k=40 > top_p=0.95"


async def test_whole_logits_are_asked_for_once_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    # A row that is explained has its logits asked for as well, when the cursor has rested.
    monkeypatch.setattr("inspector.panes.ladder.reasons._PAUSE_S", 60.0)
    one = app()
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "n", "n", "s", "plus", "plus", "minus")
        assert [command.node for command in sent(one, SendLogits)] == [2]
        await press(pilot, "b")
        assert [command.node for command in sent(one, SendLogits)] == [2, 1]


async def test_while_the_engine_runs_nothing_is_tried_or_asked_for() -> None:
    one = app()
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "n", "s", "plus")
        one.controller.log.add(StateChanged(RunState.RUNNING))
        one.paint()  # the panes know it too, before the ladder's pause for the cursor is over
        asked = len(sent(one, SendLogits))
        await press(pilot, "plus", "b")
        one.paint()
        await pilot.pause()
        assert "the engine is running" in pane_text(one, "dials") or one.controller.cursor.node == 0
        assert len(sent(one, SendLogits)) == asked


# --- applying ---------------------------------------------------------------------------------


async def test_a_at_the_tip_holds_from_the_next_token_on() -> None:
    one = app()
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "n", "n", "s", "down", *["less_than_sign"] * 4, "a")
        assert spec(one) is None
        assert one.controller.cursor.node == 2
        assert sent(one, Configure)[-1] == Configure(
            dials={"top_k": 1}, seed=7, max_tokens=20, live=frozenset({"top_k"})
        )
        await press(pilot, "n")
        step = one.controller.view.step
        assert step is not None
        assert step.parent == 2
        assert step.chain_spec == "temperature=0.8 > top_k=1 > top_p=0.95"
        assert one.controller.log.nodes[2].chain_spec == DEFAULT


async def test_a_inside_the_text_forks_after_the_cursor() -> None:
    one = app()
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "n", "n", "n", "b", "s", "plus", "a")
        step = one.controller.view.step
        assert step is not None
        assert (step.parent, step.node) == (2, 4)
        assert one.controller.log.tree.children[2] == [3, 4]
        assert step.chain_spec == "temperature=0.85 > top_k=40 > top_p=0.95"


async def test_A_draws_this_token_again_as_was_shown() -> None:
    one = app()
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "n", "n", "n", "b", "s")
        old = one.controller.view.step
        assert old is not None
        # temperature 100: what was 40, 30, ... is now nearly even, so another token is drawn
        await press(pilot, "1", "0", "0", "enter")
        told = pane_text(one, "dials")
        assert "would draw ○" in told
        await press(pilot, "A")
        step = one.controller.view.step
        assert step is not None
        assert step.parent == old.parent == 1
        assert step.node != old.node
        assert step.draw.u == old.draw.u, "the same dice"
        assert f'would draw ○ "{step.token.bytes.decode()}"' in told
        await press(pilot, "n")
        after = one.controller.view.step
        assert after is not None
        assert after.chain_spec == "temperature=100 > top_k=40 > top_p=0.95"


async def test_the_same_dice_also_where_another_seed_drew() -> None:
    one = app()
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "n", "n", "r", "s")
        old = one.controller.view.step
        assert old is not None
        assert old.seed == 8
        await press(pilot, "plus", "A")
        step = one.controller.view.step
        assert step is not None
        assert (step.seed, step.draw.u) == (8, old.draw.u)


async def test_a_restarted_engine_goes_on_with_what_was_applied() -> None:
    one = app()
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "n", "s", "plus", "a", "K", "n")
        step = one.controller.view.step
        assert step is not None
        assert step.chain_spec == "temperature=0.85 > top_k=40 > top_p=0.95"


async def test_an_order_of_ones_own_is_applied_as_it_stands() -> None:
    one = app()
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "n", "s", "right_curly_bracket", "a", "n")
        step = one.controller.view.step
        assert step is not None
        assert step.chain_spec == "top_k=40 > temperature=0.8 > top_p=0.95"


async def test_before_the_first_token_settings_can_be_applied() -> None:
    one = app()
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "s", "plus", "a")
        assert one.controller.cursor.node == 0
        await press(pilot, "n")
        step = one.controller.view.step
        assert step is not None
        assert step.chain_spec == "temperature=0.85 > top_k=40 > top_p=0.95"


# --- reasons ----------------------------------------------------------------------------------


async def test_the_selected_row_is_explained_by_itself() -> None:
    one = app()
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "n", "n")
        await explained(one, pilot)
        assert " below" in pane_text(one, "ladder") or " above" in pane_text(one, "ladder")
        await press(pilot, "end", "up")
        await explained(one, pilot)
        assert "✂ cut by top_p=0.95: mass of the more likely" in pane_text(one, "ladder")
        assert "would keep it" in pane_text(one, "ladder")


# --- stacks and shape -------------------------------------------------------------------------


async def test_p_puts_the_stacks_in_the_ladders_place_and_back() -> None:
    one = app()
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "n", "n", "p")
        assert isinstance(one.focused, StacksPane)
        assert "ladder" not in visible(one)
        text = pane_text(one, "stacks")
        for name in ("guide", "hf", "vllm", "llamacpp", "sglang", "mlx"):
            assert f" {name} " in text
        await press(pilot, "s", "plus")
        assert visible(one)[1] == "stacks"
        assert "temperature=0.85 top_k=40 top_p=0.95" in pane_text(one, "stacks")
        await press(pilot, "p")
        assert "ladder" in visible(one)
        assert "stacks" not in visible(one)


async def test_in_a_small_terminal_the_stacks_have_all_of_it() -> None:
    one = app()
    async with one.run_test(size=COMPACT) as pilot:
        await press(pilot, "n", "n", "p")
        assert visible(one) == ["stacks"]
        assert "8 S" in screen_text(one).splitlines()[1]
        await press(pilot, "p")
        assert set(visible(one)) == {"transcript", "ladder"}


@pytest.mark.parametrize("size", [WIDE, COMPACT])
async def test_x_draws_a_hundred_times_and_shift_x_ten_thousand(size: tuple[int, int]) -> None:
    one = app()
    async with one.run_test(size=size) as pilot:
        await press(pilot, "n", "n", "x")
        assert isinstance(one.focused, ShapePane)
        assert "Drawn ×100 from the final p" in pane_text(one, "shape")
        await press(pilot, "X")
        assert "Drawn ×10,000 from the final p" in pane_text(one, "shape")
        assert "χ²" in pane_text(one, "shape")
        await press(pilot, "b")
        assert "Drawn" not in pane_text(one, "shape")


async def test_zoom_keeps_to_the_focused_pane() -> None:
    one = app()
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "n", "s", "z")
        assert visible(one) == ["dials"]
        await press(pilot, "z", "tab", "2", "z", "7")
        assert visible(one) == ["shape"]
        await press(pilot, "z")
        assert "shape" in visible(one)


# --- everywhere -------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(40, 12), COMPACT, WIDE, (300, 80)])
async def test_hostile_tokens(size: tuple[int, int]) -> None:
    one = app(tokens=["a", "b", "\u202e", "[bold]", "\x9b", "\x1b[2J"])
    async with one.run_test(size=size) as pilot:
        await press(pilot, "n", "n", "s", "plus", "p", "x", "X", "2")
        await explained(one, pilot)
        for key in ("7", "8", "2", "z"):
            await press(pilot, key)
            text = screen_text(one)
            assert not {"\u202e", "\x9b", "\x1b"} & set(text)


@pytest.mark.parametrize("name", themes.names())
async def test_a_what_if_is_told_without_colour(name: str) -> None:
    one = app(theme=name)
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "n", "s", "plus")
        text = screen_text(one)
        assert text.count("WHAT IF") == 3, "the dials, the ladder and the status line"
        assert "╍" in text or "╏" in text, "dashed borders"


async def test_every_key_of_the_laboratory_is_in_the_palette() -> None:
    one = app()
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "n", "s", "plus")
        found = {active.binding.description for active in one.screen.active_bindings.values()}
        assert {
            "Dials", "Stacks", "Draw x100", "Draw x10,000", "Less", "More", "Much less",
            "Much more", "Apply", "Apply here", "As recorded", "Insert", "Take out", "Earlier",
            "Later",
        } <= found  # fmt: skip


async def test_a_chain_without_any_stage() -> None:
    one = app()
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "n", "n", "s", "t", "home", "t", "home", "t")
        assert spec(one) == ">"
        await press(pilot, "a", "n")
        step = one.controller.view.step
        assert step is not None
        assert step.stages == ()
        assert step.final_prob == pytest.approx(EIGHTHS[step.token.id])
