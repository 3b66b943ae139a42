"""Another model on another machine: the table at several widths, the command, and the screen."""

from __future__ import annotations

import json
from typing import Any

import pytest
from textual.widgets import Input

from engine.napkin.library import Library
from engine.napkin.notation import EXAMPLE, parse
from inspector.cli import main as cli
from inspector.draw.napkin import napkin_lines
from inspector.screens.napkin import NapkinScreen, line_of
from tests.fakes import SMOLLM2, texts
from tests.inspector.test_app import app, press

LIBRARY = Library.load()


def shown(text: str, width: int) -> str:
    return texts(napkin_lines(*parse(text, LIBRARY), 131_072, width))


def test_the_table() -> None:
    lines = shown(EXAMPLE, 80).splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("weights "))
    assert [line.rstrip() for line in lines[at - 1 : at + 7]] == [
        "                      16 bit  int8 weights  int4 weights      int8 K/V",
        "weights               140 GB ƒ     70.0 GB ƒ     35.0 GB ƒ      140 GB ƒ",
        "K/V a token           328 kB ƒ      328 kB ƒ      328 kB ƒ      164 kB ƒ",
        "K/V at 128K          42.9 GB ƒ     42.9 GB ƒ     42.9 GB ƒ     21.5 GB ƒ",
        "decode            23.9 tok/s ~  47.9 tok/s ~  95.7 tok/s ~  23.9 tok/s ~",
        "decode at 128K    18.3 tok/s ~  29.7 tok/s ~  43.0 tok/s ~  20.7 tok/s ~",
        "batch               295 rows ~    148 rows ~   73.8 rows ~    295 rows ~",
        "batch at 128K                —             —             —             —",
    ]


@pytest.mark.parametrize("width", [1, 20, 40, 60, 80, 160])
@pytest.mark.parametrize("text", [EXAMPLE, "deepseek-v3 @ 8x h200", "gpt-3-175b"])
def test_no_line_is_too_wide_and_every_figure_has_its_mark(text: str, width: int) -> None:
    lines = list(napkin_lines(*parse(text, LIBRARY), 131_072, width))
    assert all(line.cell_length <= max(33, width) for line in lines)
    for line in texts(lines).splitlines():
        if line.startswith(("weights  ", "K/V", "decode", "batch", "prefill")) and "=" not in line:
            assert line.rstrip()[-1] in "ƒ~—", line


def test_the_line_of_the_model_that_is_loaded() -> None:
    line = line_of(SMOLLM2, None)
    assert line == "134.5M 30 layers 576 wide 9 heads 3 kv heads heads of 64 32bit"
    parse(line, LIBRARY)
    assert line_of(None, None) == EXAMPLE


async def test_the_screen_works_it_out_as_it_is_typed() -> None:
    running = app()
    async with running.run_test(size=(120, 40)) as pilot:
        await press(pilot, "W")
        screen = running.screen
        assert isinstance(screen, NapkinScreen)
        box = screen.query_one(Input)
        box.value = "llama-3.1-8b @ h100"
        await pilot.pause()
        assert "209 tok/s ~" in _worked(screen)
        box.value = "llama-3.1-8b @ h1000"
        await pilot.pause()
        assert "did you mean h100?" in _worked(screen)
        await press(pilot, "escape")
        assert not isinstance(running.screen, NapkinScreen)


def _worked(screen: NapkinScreen) -> str:
    from inspector.widgets.lines import Lines

    return str(screen.query_one(Lines).render())


# --- the command ----------------------------------------------------------------------------


def test_the_command_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["napkin", EXAMPLE, "--format", "json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    given = {one["name"]: one for one in found["variants"][0]["figures"]}
    assert given["K/V a token"]["value"] == 327_680
    assert given["K/V a token"]["source"] == "derived"
    assert given["decode"]["source"] == "estimated"
    assert given["batch at 128K"]["value"] is None
    assert given["batch at 128K"]["reason"]


def test_a_context_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["napkin", "llama-3.1-8b @ h100", "--context", "32K"]) == 0
    assert "K/V at 32K" in capsys.readouterr().out


def test_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["napkin", "--list"]) == 0
    assert "deepseek-v3" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["llama-3.1-9b"],
        [EXAMPLE, "--context", "0"],
        [EXAMPLE, "--context", "many"],
        ["70B 80 layers 8192 wide \x1b[2J"],
    ],
)
def test_bad_input_is_one_line_and_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["napkin", *words]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "\x1b" not in said
