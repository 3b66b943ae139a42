"""The desk under a user's keys and mouse: named layouts, sizes, the window of layouts, jumping."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from textual.content import Content
from textual.widgets import Input

from inspector.app import Inspector
from inspector.cli.config import Config, ConfigError
from inspector.cli.config_edit import keep_layout, with_value
from inspector.cli.open import layouts_of
from inspector.cli.options import UsageError
from inspector.panes.dials.pane import DialsPane
from inspector.panes.ladder.pane import LadderPane
from inspector.screens.desk import LAYOUTS, LayoutError
from inspector.screens.jump import JumpScreen, letters
from inspector.screens.layout import SPECS
from inspector.screens.layouts import Layouts, LayoutScreen, desk_map
from inspector.state.request import Request
from inspector.widgets.line_view import Pane
from tests.direct import DirectClient, script
from tests.inspector.test_app import app, press, screen_text, visible

WIDE, COMPACT = (160, 48), (80, 24)


def with_layouts(layouts: Layouts) -> Inspector:
    opening, configure, submit = script("abc")
    client = DirectClient()
    client.send(opening)
    return Inspector(Request(opening, configure, submit), client, DirectClient, layouts=layouts)


def width(one: Inspector, name: str) -> int:
    return one.query_one(f"#{name}").region.width


# --- named layouts ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", LAYOUTS)
async def test_every_named_layout_shows_its_panes(name: str) -> None:
    one = with_layouts(Layouts(chosen=name))
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "n", "n")
        wanted = {pane for pane in SPECS if pane in LAYOUTS[name].replace("(", " ").split()}
        wanted |= {pane for pane in SPECS if f"{pane}*" in LAYOUTS[name]}
        wanted |= {pane for pane in SPECS if f"{pane})" in LAYOUTS[name]}
        assert set(visible(one)) == wanted
        area = sum(pane.region.area for pane in one.screen.query(Pane) if pane.display)
        assert area == one.query_one("#body").region.area
        assert isinstance(one.focused, Pane)
        await pilot.resize_terminal(*COMPACT)
        await press(pilot)
        assert visible(one) in (
            ["speculation"],
            ["roofline"],
            ["transcript", one.debugger._layout.opened],
        )


async def test_a_pane_without_a_place_is_opened_in_anothers_and_goes_again() -> None:
    one = with_layouts(Layouts(chosen="teaching"))
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "n", "9")
        assert visible(one) == ["transcript", "ladder", "tree"]
        await press(pilot, "4")
        assert set(visible(one)) == {"transcript", "kv", "tree"}
        await press(pilot, "2", "3")
        assert visible(one) == ["transcript", "ladder", "tokens"]


async def test_dials_with_a_place_of_their_own_are_stepped_out_of_without_closing() -> None:
    one = with_layouts(Layouts(chosen="sampling"))
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "n", "n", "s")
        assert isinstance(one.focused, DialsPane)
        await press(pilot, "plus")
        assert one.controller.cursor.what_if is not None
        await press(pilot, "s")
        assert isinstance(one.focused, LadderPane)
        assert "dials" in visible(one)
        assert one.controller.cursor.what_if is None
        assert not one.debugger.step_out()


# --- sizes ------------------------------------------------------------------------------------


async def test_borders_are_dragged_and_keys_size_the_focused_pane(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = app()
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "n")
        applied: list[object] = []
        monkeypatch.setattr(one.stylesheet, "update_nodes", lambda *a, **k: applied.append(a))
        await pilot.mouse_down(offset=(80, 20))
        await pilot.hover(offset=(100, 20))
        await pilot.mouse_up(offset=(100, 20))
        await pilot.pause()
        assert (width(one, "transcript"), width(one, "ladder")) == (100, 60)
        assert applied == [], "a layout is no stylesheet"
        await press(pilot, "1", "shift+left")
        assert (width(one, "transcript"), width(one, "ladder")) == (98, 62)
        before = one.query_one("#transcript").region.height
        await press(pilot, "shift+down")
        assert one.query_one("#transcript").region.height == before + 1
        await press(pilot, "z", "shift+down", "z")
        assert one.query_one("#transcript").region.height == before + 1


async def test_on_a_small_screen_the_text_gets_more_lines() -> None:
    one = app()
    async with one.run_test(size=COMPACT) as pilot:
        await press(pilot, "n")
        text = one.query_one("#transcript")
        assert text.region.height == 7
        await press(pilot, "shift+up")
        assert text.region.height == 8, "the ladder has the focus, and got lower"
        await pilot.mouse_down(offset=(30, text.region.bottom - 1))
        await pilot.hover(offset=(30, 5))
        await pilot.mouse_up(offset=(30, 5))
        await pilot.pause()
        assert text.region.bottom == 6
        await pilot.resize_terminal(40, 12)
        await press(pilot)
        assert one.query_one("#ladder").region.height >= 4


@pytest.mark.parametrize("size", [(40, 12), (80, 24), (119, 40), (160, 48)])
async def test_the_body_is_full_at_every_size_with_the_dials_open(size: tuple[int, int]) -> None:
    one = app()
    async with one.run_test(size=size) as pilot:
        await press(pilot, "n", "s")
        body = one.query_one("#body").region
        tabs = one.query_one("#tabs")
        there = [pane.region for pane in one.screen.query(Pane) if pane.display]
        assert sum(its.area for its in there) + tabs.display * body.width == body.area
        assert one.query_one(DialsPane).region.height >= 4


# --- the window of layouts --------------------------------------------------------------------


@pytest.mark.parametrize("size", [(40, 12), COMPACT, WIDE])
async def test_layouts_are_chosen_and_panes_taken_out_in_their_window(
    size: tuple[int, int],
) -> None:
    one = app()
    async with one.run_test(size=size) as pilot:
        await press(pilot, "n", "L")
        assert isinstance(one.screen, LayoutScreen)
        assert "● debug" in screen_text(one)
        await press(pilot, "down", "down", "space")
        assert "● memory" in screen_text(one)
        for _ in range(len(LAYOUTS) - 2):
            await press(pilot, "down")
        await press(pilot, "space", "right_curly_bracket", "plus", "greater_than_sign", "q")
        assert not isinstance(one.screen, LayoutScreen)
        assert isinstance(one.focused, Pane)
        assert one.focused.display
        if size == WIDE:
            assert "transcript" not in visible(one), "the first pane was taken out"
            assert "tree" in visible(one)


async def test_a_layout_is_kept_under_a_name_and_begins_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("# mine\nseed = 3 # dice\n\n[keys]\nstep = 'J'\n")
    one = with_layouts(layouts_of(Config.load(path)))
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "L", "down", "space", "w")
        line = one.screen.query_one(Input)
        assert line.value == "sampling"
        line.value = "My layout"
        await press(pilot, "enter")
        assert "small letters" in screen_text(one)
        line.value = "mine"
        await press(pilot, "enter")
        assert "kept: the next start begins with mine" in screen_text(one)
    assert path.read_text().startswith('layout = "mine"\n# mine\nseed = 3 # dice\n')
    found = Config.load(path)
    assert found.options == {"layout": "mine", "seed": 3}
    assert found.keys == {"step": "J"}
    assert found.layouts == {"mine": LAYOUTS["sampling"]}
    assert layouts_of(found).desk == Layouts(chosen="sampling").desk


async def test_a_layout_that_cannot_be_kept_says_why() -> None:
    one = app()
    async with one.run_test(size=WIDE) as pilot:
        await press(pilot, "L", "w", "enter")
        assert "not kept: there is no place to keep it in" in screen_text(one)


def test_the_map_shows_the_places() -> None:
    lines = desk_map(Layouts(own={"a": "kv | (ladder / tree)"}, chosen="a").desk, 24, 6, "tree")
    assert Content("\n").join(lines).plain == "\n".join(
        [
            "╭KV cache──╮╭Ladder────╮",
            "│          ││          │",
            "│          │╰──────────╯",
            "│          │╭▸Tree─────╮",
            "│          ││          │",
            "╰──────────╯╰──────────╯",
        ]
    )


# --- the configuration file -------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        "seed = 1",
        "[layouts]\nmine = 'kv'\nother = 'tree'\n",
        "# [layouts]\n[keys]\nstep = 'n'\n[ layouts ] # here\n",
        "[sampler]\ntemperature = 1\n\n[keys]\n",
    ],
)
def test_one_line_of_the_file_changes(text: str, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "config.toml"
    path.parent.mkdir()
    path.write_text(text)
    keep_layout(path, "mine", "kv | tree")
    found, before = tomllib.loads(path.read_text()), tomllib.loads(text)
    assert found.pop("layout") == "mine"
    assert found["layouts"].pop("mine") == "kv | tree"
    before.setdefault("layouts", {}).pop("mine", None)
    assert found == before
    for line in text.splitlines():
        assert line in path.read_text().splitlines() or line.startswith("mine")


@pytest.mark.parametrize(
    "text", ["layouts = {a = 'kv'}\n", "layouts.a = 'kv'\n", 'a = """\n[layouts]\n"""\n']
)
def test_a_file_written_otherwise_is_left_alone(text: str) -> None:
    with pytest.raises(ValueError, match="by hand"):
        with_value(text, "layouts", "mine", "kv")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("layout = 'spam'", "no layout 'spam'; there are debug, sampling"),
        ("[layouts]\nmine = 'kv | spam'", "layout 'mine': no pane 'spam'"),
        ("[layouts]\n'My own' = 'kv'", "layout 'My own': its name"),
    ],
)
def test_a_layout_that_cannot_be_used_is_one_line(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=reason):
        layouts_of(Config.load(path))
    path.write_text("[layouts]\nmine = 3")
    with pytest.raises(ConfigError, match="mine must be a text"):
        Config.load(path)
    with pytest.raises(LayoutError):
        Layouts(chosen="")


# --- jumping ----------------------------------------------------------------------------------


def test_every_pane_has_a_letter_of_its_own() -> None:
    found = letters([*SPECS, "ladder two", "quit"])
    assert len(set(found.values())) == len(found)
    assert "q" not in found.values()
    assert found["transcript"] == "t"


@pytest.mark.parametrize("size", [COMPACT, WIDE])
async def test_a_letter_gives_a_pane_the_focus_seen_or_not(size: tuple[int, int]) -> None:
    one = app()
    async with one.run_test(size=size) as pilot:
        await press(pilot, "n", "J")
        assert isinstance(one.screen, JumpScreen)
        assert "╭─ l Ladder ─" in screen_text(one), "the letter stands where the digit was"
        assert "abc" in screen_text(one), "the panes are seen behind the letters"
        found = letters({name: spec.pane.NAME for name, spec in SPECS.items()})
        await press(pilot, found["kv"])
        assert one.focused is not None
        assert one.focused.id == "kv"
        assert "kv" in visible(one)
        await press(pilot, "J", found["shape"])
        assert one.focused.id == "shape"
        for key in ("q", "escape"):
            await press(pilot, "J", key)
            assert not isinstance(one.screen, JumpScreen)
            assert one.focused.id == "shape"
