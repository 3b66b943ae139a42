"""The ladder of a chain that is tried, beside the record; and why a candidate lived or died."""

from __future__ import annotations

import numpy as np
import pytest
from rich.cells import cell_len
from textual.content import Content
from textual.geometry import Size
from textual.pilot import Pilot

from engine.records.events import RunState, StateChanged
from engine.records.partial import Interval
from engine.records.step import Draw, How
from engine.records.vocabulary import Token
from inspector.draw.bars import DrawLine, about
from inspector.messages import NeedDense
from inspector.panes.ladder.draw import draw
from inspector.panes.ladder.pane import LadderPane
from inspector.panes.ladder.why import Why, why
from inspector.state.rerun import Run, rerun, run, token_of
from inspector.state.view import View
from inspector.state.whatif import chain_of
from inspector.widgets.picture import DENSE
from tests.fake_runs import Host
from tests.fake_runs import run as run_of
from tests.settling import until

TOKENS = ["a", " b", "[/b]", "\x1b[2J", "日本", "\u202e"]
SHARP = "temperature=0.5 > top_k=4 > top_p=0.9"


def look(text: str) -> str:
    return text.strip("\n")


def tried(view: View, spec: str) -> View:
    return View(view.log, view.cursor, chain_of(spec, "guide"))


def sharp(**more: object) -> View:
    return run_of(TOKENS, spec=SHARP, seed=2, **more)  # type: ignore[arg-type]


async def rest(pilot: Pilot[None], pane: LadderPane) -> None:
    """Wait until everything has been explained."""
    await until(lambda: pane.reasons.resting)
    await pilot.pause()


async def picture(view: View, size: tuple[int, int], *keys: str) -> tuple[list[str], LadderPane]:
    pane = LadderPane(number=2)
    app = Host(pane, view)
    async with app.run_test(size=size) as pilot:
        await pilot.press(*keys)
        await rest(pilot, pane)
        return [line.rstrip() for line in app.screen_lines()], pane


# --- beside the record ------------------------------------------------------------------------


async def test_what_is_tried_stands_beside_what_was() -> None:
    # Square roots: 32.7 23.1 16.3 11.6 8.2 8.2%. Of the two last, top-p 0.9 keeps the higher id.
    view = tried(sharp(dense=True), "top_k=6 > temperature=2 > top_p=0.9")
    lines, pane = await picture(view, (76, 20))
    assert str(pane.border_title) == "2 Ladder · WHAT IF, not the record"
    assert pane.has_class("-what-if")
    assert "\n".join(lines) == look(
        """
 rank model    top_k    temp     top_p    would     was     text
      raw p    4→6      0.5→2    0.9      final p   final p
 left 6        6        6        5
  cut          0        0        −8.17%
 nats 1.34     1.34     1.66     1.50
▸   1 50.0%███ 50.0%███ 32.7%██  35.6%██▏ ○ 35.6% ▼ ● 80.0% "a"
    2 25.0%█▌  25.0%█▌  23.1%█▍  25.2%█▌    25.2% ▲   20.0% " b"
    3 12.5%▊   12.5%▊   16.3%█   17.8%█▏    17.8% + ✂ top_p "[/b]"
    4 6.25%▍   6.25%▍   11.6%▊   12.6%▊     12.6% + ✂ top_p "␛[2J"
    5 3.12%▏   3.12%▏   8.17%▌   ✂ top_p            ✂ top_k "日本"
    6 3.12%▏   3.12%▏   8.17%▌   8.89%▌     8.89% + ✂ top_k "<U+202E>"
 all 6 ids


                              ▼ the same u 0.35141 in [0.00000, 0.35579)
 draw 0▓"a"▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓" b"▃▃▃▃▃▃▃▃▃▃▃▃▆"[/b]"▆▆▆▆▆▃▃▃▃▃▃▃▃▆▆▆▆▆▆1
 rank 1 · id 0 · survives · "a"
 raw logit −0.6931 · logprob −0.6931 · final p 0.355788
 u 0.3514: 0.0044 from " b" above
 top_p 0.9 → 0.9184 draws " b"; temperature 2 → 2.055 draws " b"
"""
    )


async def test_another_token_and_one_that_is_lost() -> None:
    view = tried(sharp(dense=True), "temperature=1.5 > top_k=4 > top_p=0.1")
    lines, _ = await picture(view, (78, 12))
    assert lines[3].startswith("▸   1")
    assert "○  100% ▲ ● 80.0%" in lines[3]
    assert lines[4].rstrip().endswith('✂ top_p          −   20.0% " b"')


async def test_a_stage_that_is_new_and_one_that_is_off() -> None:
    view = tried(sharp(dense=True), "temperature=1 > min_p=0.3")
    lines, _ = await picture(view, (80, 12))
    columns = ["rank", "id", "raw", "model", "temp", "min_p", "would", "was", "text"]
    assert lines[0].split() == columns
    assert lines[1].split()[3:] == ["0.5→off", "+0.3", "final", "p", "final", "p"]


async def test_the_rows_of_what_was_drawn_and_would_be_are_pinned() -> None:
    words = [f"w{index}" for index in range(200)]
    view = run_of(words, [1 / 200] * 200, forces=[150], dense=True)
    lines, _ = await picture(tried(view, "temperature=1 > top_k=0 > top_p=0.5"), (80, 14))
    pinned = [line for line in lines if "●" in line or "○" in line]
    assert len(pinned) == 2
    assert pinned[0].split()[0] != pinned[1].split()[0] == "151"


def test_pinned_rows_stand_in_the_order_of_their_ranks() -> None:
    """F19: what was drawn, of rank 11, comes before what would be, of a higher one."""
    words = [f"w{index}" for index in range(200)]
    view = run_of(words, [1 / 200] * 200, forces=[10], seed=3, dense=True)
    found = draw(tried(view, "temperature=1 > top_k=0 > top_p=0.5"), Size(80, 12))
    assert list(found.pinned) == sorted(found.pinned)
    assert found.pinned[0] == 10
    assert "●" in found.footer[0].plain
    assert "○" in found.footer[1].plain


async def test_without_the_tail_the_record_stays_and_the_title_says_why() -> None:
    words = [f"w{index}" for index in range(200)]
    view = run_of(words, [1 / 200] * 200, spec="temperature=1 > top_k=30")
    lines, pane = await picture(tried(view, "temperature=1 > top_k=100"), (150, 12))
    assert "was" not in lines[0].split()
    assert not pane.has_class("-what-if")
    assert str(pane.border_title).startswith("2 Ladder · what if: 68.0% of the mass is not in")
    assert DENSE in draw(tried(view, "temperature=1 >"), Size(150, 12)).wants
    root = View(view.log, what_if=chain_of("temperature=1 > top_k=100", "guide"))
    assert draw(root, Size(150, 12)).remark == (
        "next token, not drawn yet: what is tried is shown once it is drawn"
    )


async def test_from_the_record_alone_figures_are_as_exact_as_they_are() -> None:
    # 1/2, 1/4, ...: the record holds 64 of 80; what is missing is nothing to speak of
    words = [f"w{index}" for index in range(80)]
    halves = [0.5**index for index in range(1, 80)]
    view = run_of(words, [*halves, halves[-1]], spec="temperature=1 > top_k=30", seed=1)
    lines, pane = await picture(tried(view, "temperature=2 > top_k=2"), (78, 12))
    assert pane.has_class("-what-if")
    # after temperature 2 the first has (1 - 1/√2) = 29.3% of all, the second 20.7%; of both 58.6%
    assert "50.0%" in lines[3]
    assert "29.3%" in lines[3]
    assert "58.6%" in lines[3]


def test_figures_that_are_not_settled() -> None:
    assert about(0.5) == "50.0%"
    assert about(Interval(0.4999, 0.5001)) == "50.0%"
    assert about(Interval(0.496, 0.504)) == "~50%"
    assert about(Interval(0.48, 0.52)) == "—"
    assert about(Interval(0.0119, 0.0127)) == "~1.2%"
    for probability in np.linspace(0.02, 0.98, 97):
        for slack in (0.0, 1e-6, 1e-4, 1e-3, 0.01, 0.02):
            assert len(about(Interval.of(probability - slack, probability + slack))) <= 5


async def test_while_the_engine_runs_the_record_is_shown() -> None:
    view = tried(sharp(dense=True), "temperature=2 > top_k=6")
    view.log.add(StateChanged(RunState.RUNNING))
    lines, pane = await picture(view, (78, 12))
    assert not pane.has_class("-what-if")
    assert "the engine is running" in str(pane.border_title)
    assert "would" not in lines[0]


def test_nothing_was_drawn_there() -> None:
    line = DrawLine(np.array([0.5, 0.25, 0.25]), (0.5, 0.75), 0.6, tried=True)
    assert line.bar(8).plain == "▆▆▆▆▓▓▆▆"
    assert "$bar-drawn" not in {str(span.style) for span in line.bar(8).spans}


# --- reasons ----------------------------------------------------------------------------------


def reasons(view: View, token_id: int, spec: str | None = None) -> tuple[str, str]:
    assert view.step is not None
    found: Run = rerun(view) if spec is None else run(view, chain_of(spec, "guide"))
    drawn = view.step.draw if spec is None else found.draw
    made = why(found, drawn, token_id, lambda one: token_of(view, one))
    return made.happened.plain, made.otherwise.plain


def test_a_cut_token_by_how_much_and_what_would_have_saved_it() -> None:
    view = sharp(dense=True)
    assert reasons(view, 2) == (
        "✂ cut by top_p=0.9: mass of the more likely 0.941 >= 0.9",
        "top_p=0.942 would keep it",
    )
    assert reasons(view, 4) == ("✂ cut by top_k=4: rank 5 > 4", "top_k=5 would keep it, but then cut by top_p=0.9")  # fmt: skip
    assert reasons(view, 3, "temperature=1 > min_p=0.2") == (
        "✂ cut by min_p=0.2: probability 0.0625 < 0.1",
        "min_p=0.125 would keep it",
    )
    assert reasons(view, 1, "suppress=1 > temperature=1")[0] == "✂ forbidden by suppress=1"


def test_how_near_the_dice_were_to_another_token() -> None:
    """u is 0.35141; the first token has 80%: 0.4486 more and it would have been the second."""
    first, second = reasons(sharp(dense=True), 0)
    assert first == 'u 0.3514: 0.4486 from " b" above'
    assert second.startswith("temperature 0.5 → ")
    assert second.endswith('draws " b"')


def test_a_survivor_that_was_not_drawn() -> None:
    first, second = reasons(sharp(dense=True), 1)
    assert first == "survives: probability 0.2 among 2"
    assert second == "drawn by a u in [0.80000, 1.00000): 0.4486 higher than it was"


def test_a_sure_thing() -> None:
    first, second = reasons(sharp(dense=True), 0, "temperature=0.5 > top_k=1")
    assert first == "u 0.3514: whatever it is, no other token can be drawn"
    assert "temperature" not in second
    assert second == "no change of a single dial draws another token" or "top_k" in second


def test_greedy_has_a_lead_instead_of_dice() -> None:
    first, _ = reasons(sharp(dense=True), 0, "temperature=0 >")
    assert first == 'greedy: 0.6931 logits ahead of " b"', "ln 2"


def test_forced() -> None:
    view = sharp(dense=True, forces=[1])
    assert reasons(view, 1) == ("forced: no dice were thrown", "")


def test_from_the_record_alone_there_are_reasons_but_no_other_values() -> None:
    words = [f"w{index}" for index in range(200)]
    halves = [0.9**index for index in range(200)]
    spec = "temperature=1 > top_k=30"
    view = run_of(words, [one / sum(halves) for one in halves], spec=spec, forces=[None])
    first, second = reasons(view, 40)
    assert (first, second) == ("✂ cut by top_k=30: rank 41 > 30", "")


def test_hostile_tokens_in_reasons() -> None:
    view = sharp(dense=True)
    neighbour = Draw(2, How.SAMPLED, 0.95, 0.9, 0.96)
    made = why(run(view, chain_of("temperature=1 >", "guide")), neighbour, 2, lambda i: Token(i, TOKENS[i].encode()))  # fmt: skip
    text = made.happened.plain + made.otherwise.plain
    assert "\x1b" not in text
    assert '"␛[2J"' in text


@pytest.mark.parametrize("width", [10, 30, 60])
def test_reasons_fit(width: int) -> None:
    made = Why(Content("happened " * 9), Content("otherwise " * 9))
    assert all(line.cell_length <= width for line in made.lines(width, roomy=True))
    assert len(made.lines(width, roomy=True)) == 2
    (line,) = made.lines(width, roomy=False)
    assert line.cell_length <= width


# --- when they are looked for -----------------------------------------------------------------


async def test_reasons_come_when_the_selection_rests_and_not_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("inspector.panes.ladder.reasons._PAUSE_S", 60.0)
    pane = LadderPane()
    app = Host(pane, sharp(dense=True))
    async with app.run_test(size=(78, 20)) as pilot:
        await pilot.press("down", "down")
        assert not pane.reasons.resting
        assert "mass of the more likely" not in "\n".join(app.screen_lines())
        monkeypatch.setattr("inspector.panes.ladder.reasons._PAUSE_S", 0.001)
        await pilot.press("up", "down")
        await rest(pilot, pane)
        assert "mass of the more likely 0.941 >= 0.9" in "\n".join(app.screen_lines())


async def test_no_reasons_while_the_engine_runs() -> None:
    view = sharp(dense=True)
    view.log.add(StateChanged(RunState.RUNNING))
    pane = LadderPane()
    app = Host(pane, view)
    async with app.run_test(size=(78, 20)) as pilot:
        await pilot.pause()
        assert pane.reasons.resting
        assert app.posted == []


async def test_whole_logits_are_asked_for_when_the_reasons_need_them() -> None:
    pane = LadderPane()
    app = Host(pane, sharp())
    async with app.run_test(size=(78, 20)) as pilot:
        await rest(pilot, pane)
        assert [one.node for one in app.posted if isinstance(one, NeedDense)] == [1]


async def test_in_a_low_pane_reasons_take_the_place_of_the_figures() -> None:
    lines, _ = await picture(sharp(dense=True), (78, 12), "down", "down")
    assert lines[-1] == (
        " ✂ cut by top_p=0.9: mass of the more likely 0.941 >= 0.9 · top_p=0.942 wou…"
    )


@pytest.mark.parametrize("size", [(20, 3), (4, 1), (1, 1), (40, 6), (55, 9), (300, 80)])
async def test_any_size_is_drawn(size: tuple[int, int]) -> None:
    view = tried(sharp(dense=True), "top_k=6 > temperature=2 > top_p=0.9")
    pane = LadderPane()
    app = Host(pane, view)
    async with app.run_test(size=size) as pilot:
        await pilot.press("down", "end")
        await pilot.pause()
        width = pane.scrollable_content_region.width
        assert all(cell_len(line) == width for line in app.screen_lines())
