"""F2: Escape and q step out of whatever is on top; only on the bare screen q quits."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual._compositor import Compositor
from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from inspector.app import Inspector
from inspector.state.recorder import Recorder
from tests.inspector.test_app import app, press

SIZES = [(80, 24), (40, 12), (160, 48)]
OPENED_BY = {
    "layouts": ["L"],
    "a layout's name": ["L", "w"],
    "jump": ["J"],
    "help": ["question_mark"],
    "search in the help": ["question_mark", "slash"],
    "palette": ["ctrl+p"],
    "zoom": ["z"],
    "dials": ["s"],
    "a dial's value": ["s", "1"],
    "the list of stages": ["s", "i"],
    "fork": ["f"],
    "seed": ["f", "s"],
    "token": ["f", "t"],
    "settings": ["f", "o"],
    "prompt": ["P"],
    "name": ["m"],
    "delete": ["D"],
    "breakpoints": ["B"],
    "sessions": ["o"],
    "search in the sessions": ["o", "slash"],
    "export": ["e"],
    "save": ["w"],
    "drift": ["d"],
    "compare": ["V"],
    "a run that is not kept": ["q"],
}
"""Keys that open each window or mode from the bare screen, at a token of the second branch."""
ENDS = {"ctrl+q", "ctrl+z", "ctrl+c", "super+c", "K", "M", "e", "w", "y"}
"""Keys that are meant to leave the terminal or to write something, each tested elsewhere."""

QUITS = {("", "q"), ("a run that is not kept", "d")}
"""The keys that are meant to quit."""


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys of the export's menu write into the current folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def _painted_once(size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Paint at the first size alone: half of the time, and where a key leads does not depend on it.

    Every window is painted at every size by the other test.
    """
    if size != SIZES[0]:
        monkeypatch.setattr(Compositor, "render_update", lambda *_, **__: None)


def depth(one: Inspector) -> int:
    """Levels that lie above the bare screen."""
    debugger = one.debugger
    panes = debugger._layout
    dials = debugger.dials_open and not panes.has_place("dials")
    return len(one.screen_stack) - 1 + bool(panes.zoomed) + dials


def typing(one: Inspector) -> bool:
    return isinstance(one.focused, Input | TextArea)


async def pressed(pilot: Pilot[None], *keys: str) -> None:
    for key in keys:
        await pilot.press(key)


async def prepared(pilot: Pilot[None]) -> None:
    """Two branches, with the cursor in the second one."""
    await press(pilot, "n", "n", "n", "r", "n")


async def step_out(pilot: Pilot[None], one: Inspector, key: str, where: str, to: int = 0) -> None:
    """Press ``key`` until at most ``to`` levels are left: each time at most one fewer."""
    # A q may be part of a text, or of a dial's value.
    written = "value" in where
    for _ in range(6):
        now = depth(one)
        if now <= to:
            return
        await pilot.press("escape" if typing(one) or written else key)
        written = False
        assert one._exit is False, f"{where}: quits from above the bare screen"
        assert depth(one) in (now, now - 1), f"{where}: two levels at once"
    raise AssertionError(f"{where}: no way out")


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_f2_escape_and_q_step_out_one_level(size: tuple[int, int]) -> None:
    one = app(recorder=Recorder(None))
    async with one.run_test(size=size) as pilot:
        await prepared(pilot)
        for name, keys in OPENED_BY.items():
            for key in ("escape", "q"):
                await pressed(pilot, *keys)
                assert depth(one), f"{name} is not open"
                await step_out(pilot, one, key, name)
        await pressed(pilot, "escape", "backspace")
        assert one._exit is False, "Escape never quits"
        await pressed(pilot, "q", "d")
        assert one._exit is True, "q on the bare screen does, after asking: nothing is kept"


@pytest.mark.usefixtures("_painted_once")
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_f2_no_key_leads_where_escape_does_not_lead_back(size: tuple[int, int]) -> None:
    """Every key of every window, and then the way out of whatever it has opened."""
    one = app(recorder=Recorder(None))
    async with one.run_test(size=size) as pilot:
        await prepared(pilot)
        for name, opening in {"": [], **OPENED_BY}.items():
            await pressed(pilot, *opening)
            keys = {
                active.binding.action: key for key, active in one.screen.active_bindings.items()
            }
            keys = {} if typing(one) else keys
            level = depth(one)
            for key in keys.values():
                if key in ENDS or (name, key) in QUITS:
                    continue
                if depth(one) < level:
                    await step_out(pilot, one, "escape", name)
                    await pressed(pilot, *opening)
                await pilot.press(key)
                assert one._exit is False, f"{name}: {key} quits"
                await step_out(pilot, one, "escape", f"{name}, {key}", to=level)
            await step_out(pilot, one, "escape", name)
