"""Choosing a block of the pool by keys and by mouse, and going to its token."""

from __future__ import annotations

import pytest

from engine.records.cache import PoolState
from engine.records.events import BranchNamed
from engine.records.vocabulary import Token
from inspector.messages import GoTo
from inspector.panes.kv.pane import KVPane
from inspector.state.view import View
from tests.fake_pools import FORKED, LONG, SIDE, branch, forked, pool
from tests.fake_runs import Host
from tests.fakes import prompt

SIZE = (76, 18)
"""75 cells beside the scrollbar: four blocks in the first line of the grid, two in the next."""
HEAD = 3
"""Figures above the pool's title; the grid is below that."""


def gone_to(app: Host) -> list[int]:
    return [message.node for message in app.posted if isinstance(message, GoTo)]


def details(app: Host) -> list[str]:
    """The two lines on the chosen block."""
    return [line.rstrip() for line in app.screen_lines()[-2:]]


async def test_the_newest_block_is_chosen_until_another_is() -> None:
    app = Host(KVPane(), forked(FORKED))
    async with app.run_test(size=SIZE) as pilot:
        assert details(app) == [
            "▸ block 68  positions 48–52  ·  63 free before it: room to grow",
            "  “ word word other word word”",
        ]
        await pilot.press("left_square_bracket")
        assert details(app)[0] == "▸ block 4  positions 64–68, 5/16 filled  ·  cached: node 29's"
        await pilot.press("up")
        assert (
            details(app)[0] == "▸ block 0  positions 0–15  ·  shared by 2: this branch, node 29's"
        )
        await pilot.press("right_square_bracket", "right_square_bracket", "right_square_bracket")
        assert details(app)[0] == "▸ block 3  positions 48–63, 16/16 filled  ·  cached: node 29's"
        await pilot.press("home")
        assert details(app)[0].startswith("▸ block 0 ")
        await pilot.press("left_square_bracket")
        assert details(app)[0].startswith("▸ block 0 ")
        await pilot.press("end")
        assert details(app)[0].startswith("▸ block 68 ")


async def test_enter_goes_to_the_last_token_of_the_block() -> None:
    app = Host(KVPane(), forked(FORKED))
    async with app.run_test(size=SIZE) as pilot:
        # Position 52 is node 33's; 63 is node 24's; 47 is node 8's; 15 is the prompt's.
        for key in ("enter", "home", "enter"):
            await pilot.press(key)
        for key in ("right_square_bracket", "right_square_bracket", "enter"):
            await pilot.press(key)
        await pilot.press("right_square_bracket", "enter")
        assert gone_to(app) == [33, 0, 8, 24]


async def test_the_mouse_shows_a_block_and_a_click_goes_there() -> None:
    app = Host(KVPane(), forked(FORKED))
    async with app.run_test(size=SIZE) as pilot:
        grid = HEAD + 1
        assert app.screen_lines()[grid].startswith(" 0  2███")
        # A label of three cells, then 17 cells a block.
        await pilot.hover(KVPane, offset=(3 + 17 * 3 + 5, grid))
        await pilot.pause()
        assert details(app)[0].startswith("▸ block 3 ")
        assert "[░░░░░░░░░░░░░░░░]" in app.screen_lines()[grid]
        await pilot.hover(KVPane, offset=(5, 1))
        await pilot.pause()
        assert details(app)[0].startswith("▸ block 68 ")
        await pilot.click(KVPane, offset=(3 + 17 + 5, grid))
        await pilot.pause()
        assert details(app)[0].startswith("▸ block 1 ")
        assert gone_to(app) == [0]


async def test_the_choice_goes_with_the_cursor_and_rests_while_it_does() -> None:
    shown = forked(FORKED)
    app = Host(KVPane(), shown)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("home")
        app.pane.show(View(shown.log, shown.cursor))
        assert details(app)[0].startswith("▸ block 0 ")
        app.pane.show(View(shown.log, 30))
        assert details(app)[0].startswith("▸ block 4 ")
        # The pool shrinks: what was chosen is no more.
        shown.log.add(pool(branch(7, 40, (0, 1, 2), node=0, held=True), current=7))
        app.pane.show(View(shown.log, 30))
        assert details(app)[0].startswith("▸ block 2 ")


async def test_names_an_earlier_prompt_and_hostile_text() -> None:
    state = pool(LONG, SIDE, branch(3, 30, (0, 70)), current=2)
    shown = forked(state)
    shown.log.add(BranchNamed(11, "long [bold]\x1b[31m"))
    evil = prompt(40)
    tokens = (Token(1, b"[red]\x1b]0;x\x07\xe2\x80\xae"), *evil.tokens[1:])
    object.__setattr__(evil, "tokens", tokens)
    shown.log.prompt = evil
    app = Host(KVPane(), shown)
    async with app.run_test(size=(120, 18)) as pilot:
        await pilot.press("home")
        assert "shared by 3: this branch" in details(app)[0]
        assert "“long [bold]␛[31m” (node 29's), an earlier prompt's" in details(app)[0]
        assert details(app)[1].startswith("  “[red]␛]0;x␇<U+202E> word")
        await pilot.press("end")
        assert details(app)[0] == (
            "▸ block 70  positions 16–29, 14/16 filled  ·  cached: an earlier prompt's"
        )
        assert details(app)[1] == "  an earlier prompt's: its text is no longer known"
        await pilot.press("enter")
        assert gone_to(app) == []


@pytest.mark.parametrize("state", [None, pool()], ids=["no pool", "an empty one"])
async def test_keys_without_a_block(state: PoolState | None) -> None:
    app = Host(KVPane(), forked(state))
    async with app.run_test(size=(50, 12)) as pilot:
        for key in ("up", "down", "left_square_bracket", "right_square_bracket", "home", "end"):
            await pilot.press(key)
        await pilot.press("enter", "pageup", "pagedown")
        await pilot.click(KVPane, offset=(8, 5))
        assert gone_to(app) == []


async def test_below_the_last_line_of_blocks_down_scrolls_to_the_figures() -> None:
    app = Host(KVPane(), forked(FORKED))
    async with app.run_test(size=(50, 14)) as pilot:
        assert not any("wasted" in line for line in app.screen_lines())
        await pilot.press(*["down"] * 14)
        assert any("wasted" in line for line in app.screen_lines())
        await pilot.press(*["up"] * 20)
        assert app.screen_lines()[0].startswith("cache now")
        await pilot.press("pagedown")
        assert not app.screen_lines()[0].startswith("cache now")
