"""The screen of the ready requests: bars and figures by hand, and how it is opened and closed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual.command import CommandPalette

from engine.text import visible
from inspector.browser import Shapes
from inspector.screens.shapes.lines import lines, progress
from inspector.screens.shapes.screen import ShapesScreen
from inspector.screens.shapes.words import dominating, reused, way_lines
from inspector.state.shapes.carry_out import Carried, Sizes
from inspector.state.shapes.requests import REUSED
from tests.fakes import texts
from tests.hostile import MARKER, acting
from tests.inspector.test_app import app, press, screen_text
from tests.ready_requests import WAYS, all_carried
from tests.settling import until


def shown(found: Carried, width: int = 80, *, common: bool = True) -> list[str]:
    return texts(lines(found, width, common=common)).splitlines()


def bars(found: Carried, name: str, *, common: bool = True) -> list[str]:
    """The request's bars, of time and of the bill, each without what stands beside it."""
    rows = [row for row in shown(found, common=common) if row.startswith(name)]
    return [row[21:68].rstrip() for row in rows[:2]]


def test_bars_are_on_one_scale() -> None:
    """47 cells for the longest, 900 ms: 500 of reading are 26 of them. For the dearest, 0.003 cent:
    10 tokens at 1 are a third of that, 5 of output at 4 the rest."""
    found = all_carried()
    assert bars(found, "chat turn 40, cold") == ["█" * 26 + "▄" * 21, "█" * 16 + "▄" * 31]
    # 100 of 900 ms end at cell 5, 200 at 10; 2, 2.8 and 10.8 of 30 millionths at 3, 4 and 17.
    assert bars(found, "chat turn 40, reused") == ["█" * 5 + "▄" * 5, "█" * 3 + "▒" + "▄" * 13]


def test_each_bar_can_be_a_whole() -> None:
    """Half of 200 ms is half of 47 cells. The parts end at 4, 10, 11, 91, 111, 113, 143 and 193 ms
    of 200: at cells 1, 2, 3, 21, 26, 27, 34 and 45."""
    found = all_carried()
    time, _ = bars(found, "chat turn 40, reused", common=False)
    assert time == "█" * 24 + "▄" * 23
    time, _ = bars(found, "thinking, budget", common=False)
    assert time == f"▞▚▒{'█' * 18}{'▓' * 5}▒{'▀' * 7}{'▄' * 11}░░"


def test_figures_are_in_one_table_or_in_two() -> None:
    for width, tables in ((80, 2), (160, 1)):
        rows = shown(all_carried(), width)
        assert sum(row.startswith("request") for row in rows) == tables
        figures = "\n".join(rows)
        for words in ("2      8        0      2", "500 ms ƒ   100 ms ƒ  10.0 tok/s ƒ   900 ms ƒ"):
            assert words in figures
    assert "$0.000030 ~" in figures


def test_warm_up_in_a_reading_is_said() -> None:
    said = [row for row in shown(all_carried(), 160) if "first of their shape" in row]
    assert said == ["TTFT".ljust(21) + "has passes that were the first of their shape: " + REUSED]


def test_what_dominates_is_said_with_its_figures() -> None:
    """500 of 900 ms and 2 of 3 of the price; 10 tokens in 500 ms; 5 times as soon, 10.8 of 30."""
    long, cold, warm, thought = all_carried().answered
    found = [texts([line]).strip() for line in lines(all_carried(), 200)]
    assert (
        "reading: 56% ƒ of the time; decoding: 67% ~ of the price; "
        "10 tokens in 1 pass, 50.0 ms ƒ a token"
    ) in found
    assert (
        "the prefix kept      TTFT 100 ms ƒ in place of 500 ms ƒ, 5 times ƒ as soon; "
        "36% ~ of the price"
    ) in found
    # 100 of 200 ms went to reading 4 tokens.
    assert dominating(thought)[0] == "reading: "
    assert reused([long, cold]) == ()
    assert reused([cold, warm])


def test_one_long_thought_or_several_short_ones() -> None:
    """104 tokens in 4 s are 26 a second; 128 in 2 s are 64, and three of four say 7."""
    found = [line.rstrip() for line in texts(way_lines(WAYS, 80)).splitlines()]
    assert found[1:] == [
        "serial, 1 × 96               96         8       103    4.00 s ƒ      26.0 ƒ",
        "  answer             1 of 1: none",
        "parallel, 4 × 24             96        32        31    2.00 s ƒ      64.0 ƒ",
        '  answer             3 of 4: "7"; 1 of 4: none',
    ]


def test_progress_is_that_of_the_request() -> None:
    """One of six parts is done and the second half: a quarter of the bar's 16 cells."""
    whole = all_carried()
    found = replace(
        whole, done=whole.done[:1], ways=(), now=whole.shapes[1].name, share=0.5, detail="token 3"
    )
    assert progress(found, 80).plain == "▕████            ▏ chat turn 40, cold (2 of 5): token 3"
    rows = shown(found)
    assert sum("waits" in row for row in rows) == 6, "three requests in two lists"
    assert "▕████████        ▏ token 3" in "\n".join(rows)
    assert "waits" not in "\n".join(shown(replace(found, now="")))
    assert shown(Carried(()))[0].startswith("Where the time goes")


def test_an_error_is_read_to_its_end() -> None:
    found = all_carried()
    why = "the context holds 5 tokens, and this prompt has 6,000 of them, as far as they were read"
    failed = replace(found, done=(*found.done[:4], replace(found.done[4], error=why)))
    said = "\n".join(shown(failed)).partition("What dominates")[2]
    assert why in " ".join(said.split())
    assert why in " ".join(" ".join(shown(replace(found, error=why), 60)).split())


@pytest.mark.parametrize("width", [1, 40, 60, 80, 160])
def test_no_line_is_too_wide_and_none_acts_on_the_terminal(width: int) -> None:
    found = all_carried()
    evil = replace(
        found,
        facts=replace(found.facts, name=MARKER, device_name=MARKER),  # type: ignore[type-var]
        done=(*found.done[:4], replace(found.done[4], error=MARKER)),
        ways=(replace(WAYS[0], votes=((MARKER, 1),)), WAYS[1]),
    )
    doing = replace(evil, now=found.shapes[1].name, detail=MARKER, done=evil.done[:1])
    for one in (evil, doing, replace(evil, error=MARKER)):
        made = [*lines(one, width), progress(one, width)]
        assert not acting(texts(made))
        assert all(line.cell_length <= max(40, width) for line in made)
    assert visible(MARKER)[:4] in texts(lines(evil, 160))


async def test_the_command_line_has_a_screen_that_answers_with_what_is_known() -> None:
    """Closed, it ends what still runs."""
    ended = []

    def begin(tell: object) -> object:
        tell(all_carried())  # type: ignore[operator]
        return lambda: ended.append(True)

    one = Shapes(begin)  # type: ignore[arg-type]
    async with one.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert "on one scale" in screen_text(one)  # type: ignore[arg-type]
        await pilot.press("t")
        await pilot.pause()
        assert "each bar a whole" in screen_text(one)  # type: ignore[arg-type]
        await pilot.press("q")
    assert ended == [True]
    assert one.return_value is not None
    assert len(one.return_value.done) == 5


async def test_a_digit_opens_the_run_of_its_request() -> None:
    """The fifth has failed: there is no run of it."""

    def begin(tell: object) -> object:
        tell(all_carried())  # type: ignore[operator]
        return lambda: None

    one = Shapes(begin)  # type: ignore[arg-type]
    async with one.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        await pilot.press("5", "4")
        await pilot.pause()
    assert one.return_value is not None
    assert one.return_value.opened is one.return_value.done[3]


async def test_the_palette_runs_them_beside_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is as it was; its model is opened once more."""
    monkeypatch.setattr("inspector.actions.shapes.Sizes", lambda: Sizes(50, 2, 2, 1))
    one = app(tokens=["\n", *map(chr, range(32, 127))])
    async with one.run_test(size=(100, 40)) as pilot:
        await press(pilot, "n", "ctrl+p", *"request")
        await until(lambda: isinstance(one.screen, CommandPalette))
        await pilot.pause(0.5)
        await press(pilot, "enter")
        await until(lambda: isinstance(one.screen, ShapesScreen))
        screen = one.screen
        assert isinstance(screen, ShapesScreen)
        await until(lambda: screen.carried.ended and bool(screen.carried.done))
        assert [one.shape.name for one in screen.carried.answered][:1] == ["long document"]
        await press(pilot, "q")
        assert len(one.controller.log.nodes) == 1
