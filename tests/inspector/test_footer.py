"""The footer offers no key that means nothing just now."""

from __future__ import annotations

import pytest

from tests.inspector.test_app import app, press, screen_text

DIALS = ("Less", "More", "As recorded", "Insert", "Take out", "Apply")


def footer(text: str) -> str:
    return text.splitlines()[-1]


@pytest.mark.parametrize(("window", "close"), [("e", "q"), ("f", "escape"), ("P", "escape")])
async def test_no_dial_keys_below_a_window(window: str, close: str) -> None:
    one = app()
    async with one.run_test(size=(160, 40)) as pilot:
        await press(pilot, "n")
        assert not [name for name in DIALS if name in footer(screen_text(one))]
        await press(pilot, window)
        assert not [name for name in DIALS if name in footer(screen_text(one))]
        await press(pilot, close, "s", "plus")
        assert [name for name in DIALS if name in footer(screen_text(one))] == list(DIALS)
        await press(pilot, window)
        assert "Step" in footer(screen_text(one))
        assert not [name for name in DIALS if name in footer(screen_text(one))]
        tried = one.controller.cursor.what_if
        await press(pilot, close)
        assert [name for name in DIALS if name in footer(screen_text(one))] == list(DIALS)
        assert one.controller.cursor.what_if is tried


async def test_the_palette_offers_them_all_the_same() -> None:
    from textual.command import CommandList

    one = app()
    async with one.run_test(size=(160, 40)) as pilot:
        await press(pilot, "n", "s", "plus", "ctrl+p", *"much more")
        found = [str(option.prompt) for option in one.screen.query_one(CommandList).options]
        assert any("Much more  (>)" in prompt for prompt in found)
        before = one.controller.cursor.what_if
        await press(pilot, "down", "enter")
        await pilot.pause()
        assert one.controller.cursor.what_if is not before


@pytest.mark.parametrize("width", [80, 160])
async def test_the_palette_can_be_opened_with_the_mouse(width: int) -> None:
    from textual.command import CommandPalette

    one = app()
    async with one.run_test(size=(width, 24)) as pilot:
        await press(pilot, "n")
        line = footer(screen_text(one))
        assert "^p Keys" in line
        assert "s Dials" in line
        await pilot.click(offset=(line.index("Keys"), 23))
        await pilot.pause()
        assert isinstance(one.screen, CommandPalette)
