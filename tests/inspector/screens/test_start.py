"""F21: a start without a prompt asks for one, or opens a recent session or an example."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import OptionList

from engine.commands import Submit
from inspector.browser import Start
from inspector.screens.start import PromptBox, StartScreen
from sessions.examples import example
from sessions.library import Library
from tests.inspector.test_app import screen_text
from tests.sessions.test_store import forked_run, save


@pytest.fixture
def library(tmp_path: Path) -> Library:
    library = Library(tmp_path / "data")
    save(library.autosave_path("the cat"), forked_run())
    return library


async def ready(pilot: Pilot[object], *keys: str) -> StartScreen:
    await pilot.pause()
    screen = pilot.app.screen_stack[-1]
    assert isinstance(screen, StartScreen)
    screen._looking.idle.wait(5)
    await pilot.pause(0.05)
    for key in keys:
        await pilot.press(key)
    await pilot.pause()
    return screen


async def test_enter_begins_with_what_was_written(library: Library) -> None:
    one = Start(library)
    async with one.run_test(size=(80, 24)) as pilot:
        await ready(pilot, "H", "i", "ctrl+j", "q", "enter")  # type: ignore[arg-type]
    assert one.return_value == Submit("Hi\nq", chat=False)


async def test_recent_sessions_and_examples_are_listed_and_opened(library: Library) -> None:
    (path,) = [one.path for one in library.previews()]
    for downs, wanted in ((0, path), (1, example("capital"))):
        one = Start(library)
        async with one.run_test(size=(80, 24)) as pilot:
            screen = await ready(pilot)  # type: ignore[arg-type]
            shown = screen_text(one)  # type: ignore[arg-type]
            for words in ("the cat", "9 tok", "A default run with a fork", "enter begins"):
                assert words in shown
            await ready(pilot, "escape", *["down"] * downs)  # type: ignore[arg-type]
            assert isinstance(screen.focused, OptionList)
            await pilot.press("enter")
        assert one.return_value == wanted


@pytest.mark.parametrize("size", [(80, 24), (40, 12), (160, 48)])
async def test_an_empty_prompt_begins_nothing_and_q_quits(
    library: Library, size: tuple[int, int]
) -> None:
    one = Start(library)
    async with one.run_test(size=size) as pilot:
        screen = await ready(pilot, "enter")  # type: ignore[arg-type]
        assert "write a prompt first" in screen_text(one)  # type: ignore[arg-type]
        await ready(pilot, "escape", "escape")  # type: ignore[arg-type]
        assert isinstance(screen.focused, PromptBox), "Escape quits nothing"
        await pilot.press("escape", "q")
    assert one.return_value is None
