"""Pictures of whole screens, fed from a recorded session: no model, and times that never change.

``pytest tests/inspector/test_snapshots.py --snapshot-update`` takes them anew. Look at them before they are
committed: the report names a picture that changed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from engine.commands import Configure, Open, Submit
from inspector.actions.replay import request_of
from inspector.app import Inspector
from inspector.browser import Shapes
from inspector.panes.ladder.pane import LadderPane
from inspector.replaying import replaying
from inspector.screens.layouts import Layouts
from inspector.state.request import Request
from inspector.state.shapes.carry_out import Carried
from sessions import open_session
from sessions.examples import example
from tests.ready_requests import all_carried
from tests.settling import until

SIZES = [(80, 24), (160, 48)]
THEMES = ["dark", "light", "ansi-dark"]
Compare = Callable[..., bool]


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies on this machine must not be in a picture."""
    monkeypatch.setattr("sessions.library.data_folder", lambda: tmp_path)


def replay(name: str, theme: str = "dark", layout: str = "debug") -> Inspector:
    session = open_session(example(name))
    asked = request_of(session, Request(Open(), Configure(), Submit("")))
    return replaying(session, asked, theme=theme, layouts=Layouts(chosen=layout))


def keys(*pressed: str) -> Callable[[Pilot[Any]], Awaitable[None]]:
    """Presses keys, and waits until the ladder has found its reasons."""

    async def before(pilot: Pilot[Any]) -> None:
        await pilot.pause()
        for key in pressed:
            await pilot.press(key)
            await pilot.pause()
        ladders = (one for screen in pilot.app.screen_stack for one in screen.query(LadderPane))
        for ladder in ladders:
            if ladder.display and ladder.size.area:
                await until(lambda ladder=ladder: ladder.reasons.found)  # type: ignore[misc]
        await pilot.pause()

    return before


MIDDLE = ["b"] * 5
"""To the middle of the second branch."""


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("theme", THEMES)
def test_all_panes(
    snap_compare: Compare, monkeypatch: pytest.MonkeyPatch, theme: str, size: tuple[int, int]
) -> None:
    if theme == "ansi-dark":
        monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(replay("capital", theme), terminal_size=size, run_before=keys(*MIDDLE))


@pytest.mark.parametrize("pane", "134567")
def test_one_pane_in_a_small_terminal(snap_compare: Compare, pane: str) -> None:
    app = replay("capital")
    assert snap_compare(app, terminal_size=(80, 24), run_before=keys(*MIDDLE, pane))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_a_speculative_round(snap_compare: Compare, size: tuple[int, int]) -> None:
    before = keys(*["b"] * 10, "f10")
    assert snap_compare(replay("rounds"), terminal_size=size, run_before=before)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("theme", ["dark", "ansi-dark"])
def test_the_bill(
    snap_compare: Compare, monkeypatch: pytest.MonkeyPatch, theme: str, size: tuple[int, int]
) -> None:
    if theme == "ansi-dark":
        monkeypatch.setenv("NO_COLOR", "1")
    before = keys(*MIDDLE, "f12", "z")
    assert snap_compare(replay("capital", theme), terminal_size=size, run_before=before)


def test_a_chat_and_its_template(snap_compare: Compare) -> None:
    assert snap_compare(replay("chat"), terminal_size=(100, 30), run_before=keys("b", "b", "3"))


def test_characters_in_pieces(snap_compare: Compare) -> None:
    assert snap_compare(replay("bytes"), terminal_size=(100, 30), run_before=keys("b", "3"))


def test_dials_tried_on_a_recording(snap_compare: Compare) -> None:
    before = keys(*MIDDLE, "s", "down", "3", "enter")
    assert snap_compare(replay("capital"), terminal_size=(160, 48), run_before=before)


def test_the_export_menu(snap_compare: Compare) -> None:
    assert snap_compare(replay("capital"), terminal_size=(80, 24), run_before=keys(*MIDDLE, "e"))


@pytest.mark.parametrize("layout", ["sampling", "memory", "teaching"])
def test_the_named_layouts(snap_compare: Compare, layout: str) -> None:
    app = replay("capital", layout=layout)
    assert snap_compare(app, terminal_size=(160, 48), run_before=keys(*MIDDLE))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_the_window_of_layouts(snap_compare: Compare, size: tuple[int, int]) -> None:
    before = keys(*MIDDLE, "L", "down", "space")
    assert snap_compare(replay("capital"), terminal_size=size, run_before=before)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_two_branches_in_columns(snap_compare: Compare, size: tuple[int, int]) -> None:
    run_before = keys("V", "n", "n", "t" if size == SIZES[0] else "tab")
    assert snap_compare(replay("capital"), terminal_size=size, run_before=run_before)


def test_letters_to_jump_by(snap_compare: Compare) -> None:
    assert snap_compare(replay("capital"), terminal_size=(160, 48), run_before=keys(*MIDDLE, "J"))


@pytest.mark.parametrize(
    ("size", "theme"), [(SIZES[0], "ansi-dark"), (SIZES[1], "dark")], ids=["80x24", "160x48"]
)
def test_the_ready_requests(
    snap_compare: Compare, monkeypatch: pytest.MonkeyPatch, theme: str, size: tuple[int, int]
) -> None:
    if theme == "ansi-dark":
        monkeypatch.setenv("NO_COLOR", "1")

    def begin(tell: Callable[[Carried], object]) -> Callable[[], None]:
        tell(all_carried())
        return lambda: None

    assert snap_compare(Shapes(begin, theme), terminal_size=size, run_before=keys())
