"""The session browser: list, search, preview, rename, compare, delete and undo."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import OptionList, Static

from inspector.browser import Browser
from inspector.screens.sessions import SessionsScreen
from inspector.screens.text import TextScreen
from sessions.library import Library
from tests.inspector.test_app import press
from tests.sessions.test_store import forked_run, save


@pytest.fixture
def library(tmp_path: Path) -> Library:
    library = Library(tmp_path / "data")
    for name in ("red", "green", "blue [/b]"):
        save(library.named_path(name), forked_run())
    return library


async def look(pilot: Pilot[Path | None], *keys: str) -> SessionsScreen:
    """Press keys, and wait until the files have been read."""
    for key in keys:
        await pilot.press(key)
        await pilot.pause()
    screen = next(one for one in pilot.app.screen_stack if isinstance(one, SessionsScreen))
    await pilot.pause()
    return screen


def names(screen: SessionsScreen) -> list[str]:
    return sorted(one.name for one in screen._previews)


def text(screen: SessionsScreen, name: str) -> str:
    return str(screen.query_one(name, Static).content)


async def test_it_lists_and_previews_and_opens(library: Library) -> None:
    one = Browser(library)
    async with one.run_test(size=(80, 24)) as pilot:
        screen = await look(pilot)
        assert names(screen) == ["blue [-b]", "green", "red"]
        chosen = screen.chosen
        assert chosen is not None
        assert str(chosen.path) in text(screen, "#preview")
        await press(pilot, "enter")  # type: ignore[arg-type]
    assert one.return_value == chosen.path


async def test_search(library: Library) -> None:
    one = Browser(library)
    async with one.run_test(size=(80, 24)) as pilot:
        screen = await look(pilot, "slash", *"gre")
        assert names(screen) == ["green"]
        screen = await look(pilot, "enter")
        assert isinstance(screen.focused, OptionList)
        screen = await look(pilot, "slash", *"xyz")
        assert names(screen) == []
        assert text(screen, "#preview") == "no session holds that"
        await look(pilot, "escape")
        await pilot.press("escape")
    assert one.return_value is None


async def test_rename(library: Library) -> None:
    one = Browser(library)
    async with one.run_test(size=(80, 24)) as pilot:
        screen = await look(pilot, "slash", *"red", "enter", "r")
        await pilot.press("home", "shift+end", *"rose", "enter")
        screen = await look(pilot)
        assert text(screen, "#said") == "renamed to rose"
        assert library.named_path("rose").exists()
        assert not library.named_path("red").exists()


async def test_delete_and_undo(library: Library) -> None:
    one = Browser(library)
    async with one.run_test(size=(80, 24)) as pilot:
        screen = await look(pilot, "u")
        assert text(screen, "#said") == "nothing was deleted here"
        screen = await look(pilot, "d", "d")
        assert len(names(screen)) == 1
        screen = await look(pilot, "u", "u")
        assert len(names(screen)) == 3
        assert list(library.trash.iterdir()) == []


async def test_compare(library: Library) -> None:
    one = Browser(library)
    async with one.run_test(size=(80, 24)) as pilot:
        screen = await look(pilot, "c")
        assert "mark one session" in text(screen, "#said")
        await look(pilot, "space", "down", "c")
        assert isinstance(one.screen, TextScreen)
        shown = "\n".join(one.screen._lines)
        assert "the same to the last byte" in shown
        await pilot.press("q")
        await pilot.pause()
        assert isinstance(one.screen, SessionsScreen)


async def test_the_run_on_screen_stays_where_it_is(library: Library) -> None:
    one = Browser(library)
    async with one.run_test(size=(80, 24)) as pilot:
        screen = await look(pilot)
        assert screen.chosen is not None
        screen._current = screen.chosen.path
        screen = await look(pilot, "d")
        assert "this is the run on screen" in text(screen, "#said")
        await pilot.press("enter")
        assert one.is_running
        assert len(library.previews()) == 3
