"""The first minute: what is on the screen before there is a token."""

from __future__ import annotations

import pytest
from textual.geometry import Size

from engine.records.events import LoadProgress, RunState, StateChanged
from inspector.app import Inspector
from inspector.panes.ladder.draw import draw as ladder
from inspector.panes.tokens import draw as tokens
from inspector.panes.transcript.pane import draw as transcript
from inspector.panes.tree.pane import draw as tree
from inspector.state.view import RunLog, View
from inspector.widgets.key_hint import KeyHint
from inspector.widgets.picture import Picture
from tests.direct import DirectClient
from tests.inspector.test_app import app, press, screen_text

SIZES = [(80, 24), (160, 48)]


def lines(picture: Picture) -> list[str]:
    return [picture.rows[index].plain for index in range(len(picture.rows))]


def held() -> Inspector:
    """An app whose engine says nothing for now."""
    one = app("two words")
    client = one.engine.client
    assert isinstance(client, DirectClient)
    client.held = True
    client.take()
    return one


# --- before the model is loaded ---------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
async def test_the_prompt_is_there_from_the_first_paint(size: tuple[int, int]) -> None:
    one = held()
    async with one.run_test(size=size) as pilot:
        await pilot.pause()
        text = screen_text(one)
        assert "two words" in text
        assert "not yet tokens" in text
        assert "The candidates for the next token will be here" in text


def test_a_prompt_that_is_not_read_yet_cannot_reach_the_terminal_raw() -> None:
    log = RunLog(asked="one\x1b[2J\u202e\nlonger than the pane\n\n" + "x" * 10_000)
    picture = transcript(View(log), Size(12, 9))
    assert lines(picture)[:6] == ["one␛[2J<U+20", "2E>", "longer than ", "the pane", "", "x" * 12]
    assert lines(picture)[-1].startswith("not yet")
    assert len(lines(picture)) < 1000


def test_f13_the_marks_are_explained_on_the_first_screen_at_every_size() -> None:
    """F13: they were explained in some panes only."""
    for width in (38, 76, 160):
        text = " ".join(lines(ladder(View(RunLog()), Size(width, 9))))
        for mark, word in (("•", "measured"), ("ƒ", "derived"), ("~", "estimated")):
            assert f"{mark} {word}" in text


@pytest.mark.parametrize("draw", [ladder, tokens, tree])
def test_an_empty_pane_says_what_will_be_in_it(draw: object) -> None:
    picture = draw(View(RunLog()), Size(60, 9))  # type: ignore[operator]
    assert "will be here" in " ".join(lines(picture))


def test_phases_of_loading_are_those_that_were_told_and_begin_anew() -> None:
    log = RunLog()
    log.add(StateChanged(RunState.LOADING))
    for step in ("starting torch", "tokenizer", "weights"):
        log.add(LoadProgress("load", None, step))
    shown = lines(ladder(View(log), Size(60, 12)))
    assert [line.split()[0] for line in shown[:3]] == ["torch", "tokenizer", "weights"]
    assert shown[2].endswith("how long is not known")
    log.add(StateChanged(RunState.LOADING))
    log.add(LoadProgress("download", 0.25, "1 of 4 MB"))
    shown = lines(ladder(View(log), Size(60, 12)))
    assert shown[0].split()[0] == "download"
    assert shown[0].endswith("25%")


# --- after it ---------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
async def test_after_loading_one_line_names_the_first_keys_until_the_first_token(
    size: tuple[int, int],
) -> None:
    one = app()
    async with one.run_test(size=size) as pilot:
        await press(pilot)
        assert "n next · c run · s what if · enter force · ? help" in screen_text(one)
        await press(pilot, "n")
        assert "n next · c run" not in screen_text(one)
        await press(pilot, "b")
        assert "n next · c run" not in screen_text(one)


async def test_the_first_keys_are_those_that_the_user_has() -> None:
    one = app()
    one._keys["step"] = "Z"
    async with one.run_test(size=(80, 24)) as pilot:
        await press(pilot)
        assert "Z next · c run" in screen_text(one)


async def test_while_the_model_loads_there_is_no_line_of_keys() -> None:
    one = held()
    async with one.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert not one.screen.query_one(KeyHint).display
