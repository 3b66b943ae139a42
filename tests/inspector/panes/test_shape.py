"""The shape of a distribution as text pictures, many draws, and the loop watch."""

from __future__ import annotations

import math

import numpy as np
import pytest
from rich.cells import cell_len
from textual.geometry import Size

from engine.records.events import RunState, StateChanged
from engine.records.vocabulary import Token
from engine.sampling.repeat import repeat_draw
from engine.sampling.shape import Mark, census, mark_of, shape_of
from inspector.panes.shape.figures import (
    recorded_census,
    recorded_final,
    recorded_shape,
)
from inspector.panes.shape.histogram import histogram
from inspector.panes.shape.pane import ShapePane, draw
from inspector.panes.transcript.pane import TranscriptPane
from inspector.state.loops import briefly, in_words, loop_at
from inspector.state.rerun import rerun
from inspector.state.view import View
from inspector.state.whatif import chain_of
from inspector.widgets.picture import DENSE
from inspector.widgets.status import status_line
from tests.fake_runs import Host, picture, run

TOKENS = ["a", " b", "[/b]", "\x1b[2J", "日本", "\u202e"]
SHARP = "temperature=0.5 > top_k=4 > top_p=0.9"
WORDS = [f"w{index}" for index in range(300)]


def look(text: str) -> str:
    return text.strip("\n")


def sharp(**more: object) -> View:
    return run(TOKENS, spec=SHARP, seed=2, **more)  # type: ignore[arg-type]


def falling(rate: float) -> list[float]:
    weights = rate ** np.arange(len(WORDS))
    return list(weights / weights.sum())


async def shown(view: View, size: tuple[int, int], draws: int = 0) -> tuple[str, ShapePane]:
    pane = ShapePane(number=7)
    app = Host(pane, view)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        if draws:
            pane.repeat(draws, view)
        await pilot.pause()
        lines = [line.rstrip() for line in app.screen_lines()]
    return "\n".join(lines).rstrip(), pane


# --- pictures ---------------------------------------------------------------------------------


async def test_figures_funnel_and_history() -> None:
    # 1.9375 bits is 1.343 nats, as wide as 2^1.9375 = 3.83; 80 and 20% are 0.50 nats, 1.65 wide.
    lines, pane = await shown(sharp(), (78, 14))
    assert str(pane.border_title) == "7 Shape"
    assert str(pane.border_subtitle) == "as wide as 3.8 tokens · all ƒ"
    assert lines == look(
        """
neither near-forced nor open     Funnel: tokens left, mass ─────────────────
                 model drawn of  model              ████████        6   100%
tokens               6        2  temperature=0.5    ████████        6   100%
as wide as        3.83     1.65  top_k=4            ███████         4  93.8%
entropy           1.34     0.50  top_p=0.9           █████          2  75.0%
varentropy        0.69     0.31
likeliest        50.0%    80.0%
margin           25.0%    60.0%
logit margin      0.69     1.39
tail                0%       0%
Last 1 of 1 steps: ▮ near-forced 0, ○ open 0 ───────────────────────────────
entropy  █
shape    ·
"""
    )


async def test_where_it_is_narrow_the_most_telling_figures_come_first() -> None:
    view = sharp(dense=True)
    tried = View(view.log, view.cursor, chain_of("top_k=6 > temperature=2 > top_p=0.9", "guide"))
    lines, pane = await shown(tried, (50, 20))
    assert str(pane.border_title) == "7 Shape · WHAT IF, not the record"
    assert lines == look(
        """
neither near-forced nor open
                 model drawn of  what if
tokens               6        2        5
as wide as        3.83     1.65     4.47
entropy           1.34     0.50     1.50  nats
margin           25.0%    60.0%    10.4%
tail                0%       0%       0%
Funnel: tokens left, mass ──────────────────────
model              █████                6   100%
top_k=6            █████          6 was 4   100%
temperature=2      █████                6   100%
top_p=0.9          █████          5 was 2  96.9%
                 model drawn of  what if
varentropy        0.69     0.31     0.21
likeliest        50.0%    80.0%    35.6%
logit margin      0.69     1.39     0.35
Last 1 of 1 steps: ▮ near-forced 0, ○ open 0 ───
entropy  █
shape    ·
"""
    )


async def test_draws_beside_what_was_to_be_expected() -> None:
    # 85 of 80 and 15 of 20: 25/80 + 25/20 = 1.5625
    lines, _ = await shown(sharp(), (52, 12), draws=100)
    assert "\n".join(lines.splitlines()[:5]) == look(
        """
Drawn ×100 from the final p ──────────────────────
as expected: χ² 1.56, 1 degree, p 0.211
   drawn           expected           token
      85 █████████     80.0 ████████▌ "a"
      15 █▋            20.0 ██▏       " b"
"""
    )


async def test_draws_go_when_the_cursor_moves() -> None:
    view = sharp(forces=[None, None])
    pane = ShapePane()
    app = Host(pane, view)
    async with app.run_test(size=(60, 20)) as pilot:
        pane.repeat(10_000, view)
        await pilot.pause()
        assert app.screen_lines()[0].startswith("Drawn ×10,000 from the final p")
        pane.show(View(view.log, 1))
        assert "Drawn" not in "\n".join(app.screen_lines())


async def test_what_is_tried_is_what_is_drawn_from() -> None:
    view = sharp(dense=True)
    tried = View(view.log, view.cursor, chain_of("temperature=0.5 > top_k=1", "guide"))
    lines, _ = await shown(tried, (60, 20), draws=100)
    assert "Drawn ×100 from what is tried" in lines
    assert "1 token came up: nothing to hold against chance" in lines


async def test_at_the_prompt_there_is_a_hint() -> None:
    lines, _ = await shown(sharp(forces=[]), (60, 8), draws=100)
    assert lines.splitlines()[0] == "no token drawn yet: step to draw the first"
    assert lines.splitlines()[1].startswith("The shape of its distribution will be here")
    assert not draw(sharp(forces=[]), Size(60, 8)).wants


@pytest.mark.parametrize("size", [(1, 1), (10, 3), (36, 12), (48, 12), (160, 44), (300, 80)])
async def test_any_size_is_drawn(size: tuple[int, int]) -> None:
    pane = ShapePane()
    app = Host(pane, sharp(forces=[None] * 5))
    async with app.run_test(size=size) as pilot:
        pane.repeat(100, app._view)
        await pilot.pause()
        width = pane.scrollable_content_region.width
        assert all(cell_len(line) == width for line in app.screen_lines())


def test_hostile_tokens_in_a_histogram() -> None:
    final = rerun(sharp(dense=True)).ladder.model
    found = repeat_draw(final, 1000, 0, 0)
    lines = histogram(found, lambda i: Token(i, TOKENS[i].encode()), 60, tried=False)
    text = picture(lines)
    assert '"␛[2J"' in text
    assert "\x1b" not in text
    assert '"[/b]"' in text


def test_counts_that_no_fair_dice_would_give_are_called_so() -> None:
    final = rerun(sharp(dense=True)).ladder.final
    found = repeat_draw(final, 100, 0, 0)
    object.__setattr__(found, "p_value", 0.0001)
    text = picture(histogram(found, lambda i: None, 80, tried=False))
    assert "far from expected: χ²" in text
    assert "p <0.001" in text


# --- what a record settles --------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.5, 0.9, 0.97, 1.0])
def test_the_record_has_the_models_shape(rate: float) -> None:
    view = run(WORDS, falling(rate), spec="temperature=0.8 > top_k=40 > top_p=0.95", dense=True)
    assert view.step is not None
    ours, true = recorded_shape(view.step, 300), shape_of(rerun(view).ladder.model)
    for name in ("survivors", "entropy", "effective", "varentropy", "top", "margin",
                 "logit_margin", "tail_mass"):  # fmt: skip
        assert getattr(ours, name) == pytest.approx(getattr(true, name), rel=1e-5, abs=1e-6), name
    assert ours.mark is true.mark


def test_the_record_has_the_final_distribution_where_it_holds_all_of_it() -> None:
    view = run(WORDS, falling(0.9), spec="temperature=0.8 > top_k=40 > top_p=0.95", dense=True)
    assert view.step is not None
    ours, true = recorded_final(view.step), rerun(view).ladder.final
    assert ours is not None
    assert ours.ids.tolist() == true.ids.tolist()
    assert ours.probs == pytest.approx(true.probs, rel=1e-6)
    wide = run(WORDS, falling(1.0), spec="temperature=1 > top_k=0 > top_p=1")
    assert wide.step is not None
    assert recorded_final(wide.step) is None


def test_the_census_of_a_record() -> None:
    view = run(WORDS, falling(0.9), spec="temperature=0.8 > top_k=40 > top_p=0.95", dense=True)
    assert view.step is not None
    ours, true = recorded_census(view.step, 300), census(rerun(view).ladder)
    for one, other in zip(ours, true, strict=True):
        assert one is not None
        assert (one.label, one.survivors) == (other.label, other.survivors)
        assert one.mass == pytest.approx(other.mass)
    wide = run(WORDS, falling(0.99), spec="temperature=1 > top_k=100")
    assert wide.step is not None
    last = recorded_census(wide.step, 300)[-1]
    assert last is not None
    assert last.survivors == 100
    assert math.isnan(last.mass), "36 of the 100 are not in the record"


async def test_what_is_not_settled_is_a_dash_until_the_whole_logits_are_there() -> None:
    spec = "temperature=1 > top_k=100"
    lines, _ = await shown(run(WORDS, falling(0.99), spec=spec), (100, 16), draws=100)
    assert "drawing many times needs the whole logits" in lines
    assert "varentropy" in lines
    assert lines.count("—") >= 8
    assert DENSE in draw(run(WORDS, falling(0.99), spec=spec), Size(100, 16)).wants
    lines, _ = await shown(run(WORDS, falling(0.99), spec=spec, dense=True), (100, 16), draws=100)
    assert "Drawn ×100 from the final p" in lines
    assert "—" not in lines


async def test_while_the_engine_runs_only_the_record_is_shown() -> None:
    view = run(WORDS, falling(0.99), spec="temperature=1 > top_k=100", dense=True)
    view.log.add(StateChanged(RunState.RUNNING))
    lines, _ = await shown(view, (100, 16))
    assert "—" in lines


@pytest.mark.parametrize(
    ("top", "effective", "mark"),
    [(0.95, 2.0, Mark.NEAR_FORCED), (0.9, 19.9, Mark.NONE), (0.3, 20.0, Mark.OPEN)],
)
def test_marks(top: float, effective: float, mark: Mark) -> None:
    assert mark_of(top, effective) is mark


async def test_marks_are_words_and_signs() -> None:
    sure = run(TOKENS, [0.96, 0.01, 0.01, 0.01, 0.01, 0.0], spec=SHARP)
    lines, pane = await shown(sure, (80, 16))
    assert lines.startswith("▮ near-forced: model, drawn of")
    assert str(pane.border_subtitle) == "near-forced · as wide as 1.3 tokens · all ƒ"
    assert "▮ near-forced 1, ○ open 0" in lines
    wide = run(WORDS, falling(1.0), spec="temperature=1 > top_k=10")
    lines, _ = await shown(wide, (80, 16))
    assert lines.startswith("○ open: model")


# --- the loop watch ---------------------------------------------------------------------------


def looping(*texts: str, prompt: int = 3) -> View:
    forces = [ord(letter) - ord("a") for text in texts for letter in text]
    letters = [chr(ord("a") + index) for index in range(6)]
    return run(letters, [1 / 6] * 6, forces=forces, prompt=(5,) * prompt)


def test_a_cycle_is_found_with_its_length_and_its_beginning() -> None:
    view = looping("ab", "cde" * 4)
    loop = loop_at(view)
    assert loop is not None
    # 3 prompt tokens, two others: the cycle begins at position 5
    assert (loop.length, loop.start, loop.repeats) == (3, 5, 4)
    assert in_words(loop) == "↻ loop of 3 tokens ×4 since position 5"
    assert briefly(loop) == "↻ loop 3×4"
    assert loop_at(View(view.log, 10)) is None, "not yet three times twelve tokens"
    assert loop_at(looping("abcdeedcba")) is None


def test_the_prompts_own_repeats_are_its_own_business() -> None:
    assert loop_at(looping(prompt=50)) is None
    loop = loop_at(looping("f", prompt=50))
    assert loop is not None
    assert (loop.length, loop.start) == (1, 0)


def test_a_new_run_on_the_same_log_is_watched_anew() -> None:
    first, second = looping("cde" * 5), looping("abcdeabcedbacde")
    assert loop_at(first) is not None
    for record in (second.log.prompt, *second.log.nodes.values()):
        assert record is not None
        first.log.add(record)
    assert loop_at(View(first.log, 15)) is None


async def test_the_transcripts_border_and_the_status_line_say_it() -> None:
    view = looping("ab", "cde" * 4)
    pane = TranscriptPane(number=1)
    app = Host(pane, view)
    async with app.run_test(size=(80, 8)):
        assert "↻ loop of 3 tokens ×4 since position 5" in str(pane.border_title)
    assert "↻ loop of 3 tokens ×4 since position 5" in status_line(view, 200).plain
    assert "↻ loop 3×4" in status_line(view, 80).plain
    lines, _ = await shown(view, (80, 16))
    assert lines.startswith("↻ loop of 3 tokens ×4 since position 5")


def test_the_status_line_says_what_is_tried() -> None:
    view = sharp()
    tried = View(view.log, view.cursor, chain_of("top_k=2 > temperature=1", "guide"))
    assert "WHAT IF top_k=2 > temperature=1" in status_line(tried, 200).plain
    assert "WHAT IF" in status_line(tried, 80).plain
    assert "WHAT IF" not in status_line(view, 200).plain
