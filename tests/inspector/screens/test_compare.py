"""The compare screen: its drawings as text, and the app under a user's keys."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest
from textual.geometry import Size
from textual.pilot import Pilot
from textual.screen import Screen

from engine.commands import Settings, StepMany
from engine.records.alone import AloneParting, ColumnAlone
from engine.records.events import RunState
from engine.records.step import Draw, How
from engine.records.vocabulary import Token
from inspector.actions.player import Playing
from inspector.app import Inspector
from inspector.replaying import replaying
from inspector.screens.compare import sweep, table, why
from inspector.screens.compare.ask import understand
from inspector.screens.compare.column import ColumnPane, ColumnUI, draw
from inspector.screens.compare.screen import CompareScreen
from inspector.screens.compare.sweep import SweepPoint
from inspector.screens.compare.table import TableRow
from inspector.screens.debugger import DebuggerScreen
from inspector.state.columns import ColumnView
from inspector.state.recorder import Recorder
from inspector.state.request import ColumnRequest, Request
from inspector.widgets.line_view import Pane
from inspector.widgets.status import StatusLine
from sessions import open_session
from sessions.compare import compared_text
from sessions.compare.column_figures import ColumnFigures
from sessions.compare.why_part import why_part
from tests.direct import DirectClient, script
from tests.fake_runs import picture, run
from tests.hostile import LONE, MARKER
from tests.inspector.test_app import press, screen_text
from tests.inspector.test_hostile_screens import assert_safe
from tests.sessions.test_why_part import first

SIZE = Size(36, 8)


# --- drawings ---------------------------------------------------------------------------------


def column(tokens: str, *, cursor: int | None = None) -> ColumnView:
    """A column of single letters behind the prompt ``p``."""
    letters = ["p", *dict.fromkeys(tokens)]
    found = run(
        letters, [1 / len(letters)] * len(letters), forces=[letters.index(one) for one in tokens]
    )
    tip = len(tokens)
    return ColumnView(found.log, tip if cursor is None else cursor, tip=tip)


def test_the_first_token_that_differs_is_marked() -> None:
    found = draw(column("abcd"), SIZE, ColumnUI(title="hot", parting=2))
    assert picture(found.rows) == "pab≠c▐d▌"
    assert found.remark == "hot"
    assert picture(draw(column("abcd", cursor=3), SIZE, ColumnUI(parting=2)).rows) == "pab≠▐c▌d"
    assert "≠" not in picture(draw(column("abcd"), SIZE, ColumnUI()).rows)


def test_aligned_a_row_is_a_position() -> None:
    found = draw(column("abc"), SIZE, ColumnUI(parting=1, other=(1, 9, 3), aligned=True))
    lines = picture(found.rows).splitlines()
    assert len(lines) == 3
    assert lines[0].startswith('    1 "a" ')
    assert lines[1].startswith('    2≠"b" '), "the first that differs"
    assert lines[2].startswith('    3 "c" '), "the same again"
    # One of four tokens that are all alike: ln 4 = 1.39 nats.
    assert all(line.endswith("1.39") for line in lines)
    assert found.follow == 2


def test_the_line_below_says_whether_a_column_goes_on() -> None:
    def below(view: ColumnView, **ui: object) -> str:
        return draw(view, Size(60, 8), ColumnUI(**ui)).footer[0].plain  # type: ignore[arg-type]

    view = column("abc")
    assert below(view) == "○ ready · 3 tokens · 1.39 nats ƒ, rank 4"
    assert below(view, paused=True).startswith("‖ paused")
    assert below(view, waiting=True).startswith("▶ runs")
    assert below(view, error="no such\x1b[31m stage").startswith("✗ no such")
    assert below(column("abc", cursor=1)).startswith("○ ready · 1 of 3 tokens")
    ended = run("pab", [1 / 3] * 3, forces=[1, 2], max_tokens=2)
    assert below(ColumnView(ended.log, 2, tip=2)).startswith("■ length · 2 tokens")
    narrow = draw(view, Size(20, 8), ColumnUI()).footer[0]
    assert narrow.plain == "○ ready · 3 tokens", "what does not fit is left out, not cut"


def pair(a: str, b: str, u_a: float, u_b: float, **more: object) -> str:
    """The lines about two steps, with settings ``a`` and ``b`` and these dice."""
    one, other = first(a, u=u_a), first(b, u=u_b)
    told = why.Pair("A", "B", 1, one, other, **more)  # type: ignore[arg-type]
    return "\n".join(line.plain for line in why.why_lines(why_part(one, other), told, 4, 80))


TWO, THREE = "temperature=1 top_k=2 top_p=1", "temperature=1 top_k=3 top_p=1"


def test_it_says_that_the_settings_made_them_part() -> None:
    """2/3 1/3 against 4/7 2/7 1/7: KL ln(7/6) = 0.1542, total variation 1/7; 0.6 parts them."""
    lines = pair(TWO, THREE, 0.6, 0.6)
    assert lines.startswith("≠ the settings: the same dice fell on other tokens")
    assert 'drew      A "a" (u 0.60000)  B "b" (u 0.60000)' in lines
    assert "settings  top_k 2 → 3" in lines
    assert 'sets      first at top_k: A 2, B 3  only B "c"' in lines
    assert "KL(A‖B) 0.1542 nats ƒ  total variation 0.1429 ƒ" in lines


def test_it_says_that_the_dice_did_or_both() -> None:
    lines = pair(TWO, TWO, 0.1, 0.7)
    assert lines.startswith("≠ the dice: with those of either, both draw the same")
    assert 'B with A\'s: "a"  the same' in lines
    assert pair(TWO, THREE, 0.1, 0.6).startswith("≠ both: with A's dice they draw the same")
    assert pair(TWO, TWO, 0.1, 0.2).startswith("= the same token from the same distribution")


def test_with_the_same_settings_and_dice_it_is_the_logits_of_two_passes() -> None:
    """A logit 0.25 lower, so that another token is ahead: no setting, and no dice, did that."""
    near = [first("temperature=0", [2.0, one, 0.0, 0.0]) for one in (1.875, 2.125)]
    found = why_part(*near)
    assert found.by_logits
    assert found.drift == 0.25
    told = why.Pair("A", "B", 1, *near)
    verdict = why.why_lines(found, told, 4, 90)[0].plain
    assert verdict == (
        "≠ the logits of two passes over one text, up to 0.25 apart: nothing else differs"
    )
    said = "\n".join(compared_text.why_lines("1", "2", found))
    assert "two passes over the same text: their logits lie up to 0.25 apart" in said
    assert not why_part(near[0], near[0]).by_logits
    assert not why_part(near[0], first("temperature=0 top_k=2", [2.0, 2.125, 0.0, 0.0])).by_logits


def test_what_cannot_be_told_is_said() -> None:
    greedy, other = first("temperature=0"), first(THREE, u=0.9)
    told = why.Pair("A", "B", 1, greedy, other)
    lines = "\n".join(line.plain for line in why.why_lines(why_part(greedy, other), told, 4, 80))
    assert "≠ the settings: A greedy, whatever the dice" in lines
    assert "B with A's: — the other is greedy: it threw no dice" in lines
    assert "a candidate of a is impossible in b" not in lines
    forced = replace(other, draw=Draw(other.token.id, How.FORCED, None, 0.0, 0.0))
    verdict = why.why_lines(why_part(first(THREE, u=0.1), forced), told, 4, 80)[0].plain
    assert verdict == "≠ forced: B took a token that somebody chose"
    nowhere = why.draw(column("abc"), Size(70, 9), why.WhyUI(why.Pair("A", "B", 3, greedy, None)))
    assert picture(nowhere.rows) == "B has no token here"


def test_hostile_words_are_shown_and_not_sent() -> None:
    one = first(TWO, u=0.6)
    bad = replace(one, token=Token(1, b"\x1b]52;c;x\x07"), draw=Draw(1, How.FORCED, None, 0.0, 0.0))
    told = why.Pair("A", "B", 1, one, bad)
    for line in why.why_lines(why_part(one, bad), told, 4, 80):
        assert line.plain.isprintable()


FIGURES = ColumnFigures(
    tokens=12,
    entropy=2.5,
    entropy_final=1.25,
    surprisal=1.5,
    distinct_1=0.75,
    distinct_2=1.0,
    repetition=3,
    survivors=40.0,
    ended_by="stop_token",
    ended_detail="",
    tps=None,
    closest=0.1,
    closest_position=4,
)


def test_the_table_has_a_row_a_column() -> None:
    rows = [TableRow("A", "cold", FIGURES, chosen=True), TableRow("B", "hot", FIGURES)]
    wide = table.draw(rows, Size(110, 10))
    heads = "tokens H model H final surprisal d-1 d-2 repeat left tok/s ended by settings"
    assert wide.header[0].plain.split() == heads.split(), "none was read alone"
    line = wide.rows[0].plain
    assert " ".join(line.split()) == "▸A 12 2.50 1.25 1.50 0.75 1.00 3 40.0 — stop token cold"
    notes = " ".join(row.plain.strip() for row in wide.rows[3:])
    assert "surprisal: mean −log p" in notes
    assert "alone" not in notes, "only what is shown is explained"
    narrow = table.draw(rows, Size(40, 10))
    assert all(narrow.rows[at].cell_length <= 40 for at in range(2))
    assert "stop token" in narrow.rows[1].plain, "how it ended stays to the last"


def test_figures_of_drafts_are_there_where_a_column_drafts() -> None:
    drafted = replace(FIGURES, rounds=9, accepted=0.714)
    rows = [TableRow("A", "plain", FIGURES), TableRow("B", "draft=ngram", drafted)]
    shown = table.draw(rows, Size(130, 10))
    assert "rounds accepted" in shown.header[0].plain
    assert " 9      71% " in shown.rows[1].plain
    assert "rounds accepted" in table.draw(rows, Size(60, 10)).header[0].plain
    assert "rounds" not in table.draw(rows[:1], Size(130, 10)).header[0].plain


def test_how_a_column_read_alone_came_out() -> None:
    same = ColumnAlone(1, 9, 9, drift=0.01)
    parted = AloneParting(57, Token(1, b"a"), Token(2, b"b"), 0.001, False, 0.5, 0.2)
    found = {
        "=": same,
        "= (2)": replace(same, near_ties=2, near_position=5),
        "≈57": replace(same, near_ties=1, parting=parted),
        "≠57": replace(same, near_ties=1, parting=replace(parted, rounding=0.01)),
        "—": replace(same, obstacle="no engine"),
    }
    rows = [TableRow("A", "", FIGURES, alone=one) for one in found.values()]
    shown = table.draw(rows, Size(110, 10)).rows
    for row, words in zip(shown, found, strict=False):
        assert f" {words} " in row.plain


def point(letter: str, parts_after: int | None = None, **dials: float) -> SweepPoint:
    figures = replace(FIGURES, entropy_final=dials["temperature"] * 2)
    return SweepPoint(letter, dials, figures, parts_after)


def test_one_number_that_differs_is_drawn_over() -> None:
    points = [point("A", temperature=0.5, top_k=40), point("B", 3, temperature=1.0, top_k=40)]
    assert sweep.swept(points) == ["temperature"]
    found = sweep.draw(points, Size(90, 20))
    lines = picture(found.rows)
    assert found.remark == "over temperature"
    assert "entropy of what is left, nats" in lines
    assert "tokens until it parts from A" in lines
    assert lines.count("●") == 7, "three measures of two columns, and one of the second alone"
    assert all(found.rows[at].cell_length <= 90 for at in range(len(found.rows)))


def test_two_numbers_make_a_map() -> None:
    points = [
        point("A", temperature=0.5, top_p=0.9),
        point("B", temperature=1.0, top_p=0.9),
        point("C", temperature=0.5, top_p=1.0),
    ]
    lines = picture(sweep.draw(points, Size(60, 20)).rows).splitlines()
    assert lines[0] == "entropy of what is left, nats ƒ  1.00 – 2.00"
    assert lines[1].split() == ["0.5", "1"]
    assert lines[2].split() == ["0.9", "1.00", "2.00"]
    assert lines[3].split() == ["1", "1.00", "—"], "a column that there is not"


def test_more_or_fewer_numbers_make_no_plot() -> None:
    same = [point("A", temperature=1.0), point("B", temperature=1.0)]
    assert "--sweep" in picture(sweep.draw(same, Size(60, 10)).rows)


def test_a_column_in_writing() -> None:
    found = understand("temperature=1.2  preset=hf top_p=0.9 seed=7")
    assert found.settings == Settings("hf", spec="temperature=1.2 top_p=0.9")
    assert (found.seed, found.title) == (7, "temperature=1.2 preset=hf top_p=0.9 seed=7")
    for wrong in ("temperature=hot", "preset=nobody", "seed=-1", "seed=99999999999999999999"):
        with pytest.raises(ValueError, match=r"."):
            understand(wrong)


# --- the app ----------------------------------------------------------------------------------


def comparing(*specs: str, recorder: Recorder | None = None) -> Inspector:
    opening, configure, submit = script()
    client = DirectClient()
    client.send(opening)
    columns = tuple(ColumnRequest(Settings(spec=one), None, one) for one in specs)
    return Inspector(
        Request(opening, configure, submit, columns=columns),
        client,
        DirectClient,
        recorder=recorder,
    )


def compared(one: Inspector) -> CompareScreen:
    assert isinstance(one.screen, CompareScreen)
    return one.screen


def in_sight(one: Inspector) -> list[str]:
    return [str(pane.id) for pane in one.screen.query(Pane) if pane.display and pane.size.area]


FOUR = ("temperature=0.5", "temperature=1", "temperature=1.5", "temperature=2")
BELOW = ["compare-ladder", "compare-why", "compare-figures"]


async def test_four_columns_in_a_wide_terminal_two_in_a_small_one() -> None:
    one = comparing(*FOUR)
    async with one.run_test(size=(160, 48)) as pilot:
        await press(pilot, "n", "n")
        assert in_sight(one) == [*(f"column-{at}" for at in range(4)), *BELOW]
        text = screen_text(one)
        assert "2 B · temperature=1 " in text
        assert text.count("○ ready · 2 tokens") == 4
        await pilot.resize_terminal(80, 24)
        await press(pilot)
        assert in_sight(one) == ["column-0", "column-1", "compare-ladder"]
        assert "columns 1–2 of 4" in screen_text(one)
        await press(pilot, "l", "l")
        assert in_sight(one)[:2] == ["column-1", "column-2"]
        assert compared(one).comparison.focused == 2
        await press(pilot, "tab", "tab")
        assert in_sight(one)[2:] == ["compare-why"]
        tabs = one.screen.query_one("#compare-tabs")
        at = screen_text(one).splitlines()[tabs.region.y].index("Figures")
        await pilot.click("#compare-tabs", offset=(at - tabs.region.x, 0))
        await press(pilot)
        assert in_sight(one)[2:] == ["compare-figures"]
        await press(pilot, "z")
        assert in_sight(one) == ["compare-figures"]
        await press(pilot, "escape", "4")
        assert in_sight(one)[:2] == ["column-2", "column-3"]
        await pilot.resize_terminal(30, 10)
        await press(pilot)
        assert "too small" in screen_text(one)


async def test_keys_go_to_all_columns_and_q_back_to_the_debugger() -> None:
    one = comparing(*FOUR[:2])
    async with one.run_test(size=(100, 30)) as pilot:
        await press(pilot, "N", "b", "b", "2")
        columns = compared(one).comparison.columns
        assert [column.position for column in columns] == [8, 8]
        await press(pilot, "i", *"top_k=3", "enter")
        assert [len(column.ids) for column in columns] == [10, 10, 8]
        assert compared(one).comparison.focused == 2
        await press(pilot, "c")
        assert [len(column.ids) for column in columns] == [20, 20, 20]
        await press(pilot, "D")
        assert len(columns) == 2
        await press(pilot, "D")
        assert len(columns) == 2, "two are the least"
        await press(pilot, "s", "f", "r", "x", "P")
        assert isinstance(one.screen, CompareScreen), "keys of the debugger mean nothing here"
        await press(pilot, "question_mark", "q", "2", "q")
        assert not isinstance(one.screen, CompareScreen)
        assert one.controller.cursor.node == columns[1].cursor.node
        # What was stepped is one run: its branches are in the tree.
        assert len(one.controller.log.tree.tips) == 3


async def test_what_the_dials_try_becomes_a_column() -> None:
    one = comparing()
    async with one.run_test(size=(120, 40)) as pilot:
        await press(pilot, "n", "n", "n", "s", "plus", "V")
        columns = compared(one).comparison.columns
        assert [column.depth for column in columns] == [3, 3]
        assert [column.start for column in columns] == [0, 2]
        assert columns[1].title.startswith("tried: temperature=1.05")
        steps = [column.last for column in columns]
        assert len({step.draw.u for step in steps if step is not None}) == 1, "the same dice"


async def test_the_stacks_become_columns() -> None:
    one = comparing()
    async with one.run_test(size=(120, 40)) as pilot:
        await press(pilot, "n", "n", "p", "V")
        columns = compared(one).comparison.columns
        assert [column.depth for column in columns] == [2] * len(columns)
        presets = [column.last.preset for column in columns if column.last is not None]
        assert presets[0] == "guide"
        assert {"hf", "vllm", "llamacpp", "sglang"} < set(presets[1:])


async def test_a_new_engine_goes_on_with_the_columns() -> None:
    one = comparing(*FOUR[:2])
    async with one.run_test(size=(100, 30)) as pilot:
        await press(pilot, "n", "n")
        one.engine.client.die()  # type: ignore[attr-defined]
        await press(pilot, "n")
        columns = compared(one).comparison.columns
        assert [column.depth for column in columns] == [2, 2]
        await press(pilot, "K", "n")
        assert [column.depth for column in columns] == [3, 3]


async def test_a_session_with_columns_is_shown_again_and_computes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "two.llmi"
    one = comparing(*FOUR[:2], recorder=Recorder(lambda text: path))
    async with one.run_test(size=(100, 30)) as pilot:
        await press(pilot, "N")
        ids = [column.ids for column in compared(one).comparison.columns]
        await press(pilot, "q")
        one.exit()
    session = open_session(path)
    opening, configure, submit = script()
    again = replaying(session, Request(opening, configure, submit))
    async with again.run_test(size=(100, 30)) as pilot:
        await press(pilot)
        columns = compared(again).comparison.columns
        assert [column.ids for column in columns] == ids
        assert [column.title for column in columns] == list(FOUR[:2])
        await press(pilot, "b", "b")
        assert [column.position for column in columns] == [8, 8]
        await press(pilot, "n", "n", "n", "i")
        assert [column.position for column in columns] == [10, 10]
        assert isinstance(again.screen, CompareScreen), "there is no model to add a column with"


async def test_e_exports_the_columns_on_screen_and_replaces_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    one = comparing(*FOUR[:3])
    async with one.run_test(size=(100, 30)) as pilot:
        await press(pilot, "n", "n", "2", "D")
        columns = compared(one).comparison.columns
        for key in ("h", "h", "c", "m", "j"):
            await press(pilot, "e", key)
            assert one.sessions.exports.idle.wait(60)
            await pilot.pause()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [f"abc-columns{end}" for end in ("-2.html", ".csv", ".html", ".jsonl", ".md")]
    page = (tmp_path / "abc-columns.html").read_text("utf-8")
    assert page.count("<article>") == 2, "one was taken off the screen"
    assert "<h2>2: temperature=1.5</h2>" in page
    with (tmp_path / "abc-columns.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [json.loads(row["title"]) for row in rows] == [FOUR[0], FOUR[2]]
    assert [row["tokens"] for row in rows] == ["2", "2"]
    lines = [json.loads(line) for line in (tmp_path / "abc-columns.jsonl").open(encoding="utf-8")]
    assert [line["token_ids"] for line in lines[1:3]] == [column.ids for column in columns]
    assert "| 1: temperature=0" in (tmp_path / "abc-columns.md").read_text("utf-8")


async def test_branches_that_no_pass_joined_are_exported_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    one = comparing()
    async with one.run_test(size=(100, 30)) as pilot:
        await press(pilot, "n", "n", "r", "V", "e", "j")
        assert one.sessions.exports.idle.wait(60)
        seeds = [column.last.seed for column in compared(one).comparison.columns if column.last]
    lines = [json.loads(line) for line in (tmp_path / "abc-columns.jsonl").open(encoding="utf-8")]
    assert [line["seed"] for line in lines[1:3]] == seeds
    assert lines[1]["settings"]["temperature"]["value"] == 1.0
    assert lines[-1]["batch"]["tokens"] == 0


async def test_recorded_columns_are_played_as_they_came(tmp_path: Path) -> None:
    """Two columns of ten tokens, of which the first is one and the same."""
    path = tmp_path / "two.llmi"
    one = comparing(*FOUR[:2], recorder=Recorder(lambda text: path))
    async with one.run_test(size=(100, 30)) as pilot:
        await press(pilot, "N", "q")
        one.exit()
    opening, configure, submit = script()
    asked = Request(opening, configure, submit)
    slow = replaying(open_session(path), asked, playing=Playing(speed=1e-6))
    async with slow.run_test(size=(160, 48)) as pilot:
        await press(pilot)
        columns = compared(slow).comparison.columns
        assert [column.position for column in columns] == [0, 0], "what is played begins before it"
        await press(pilot, "c")
        assert slow.controller.log.state.state is RunState.RUNNING
        assert "replayed 1e-06x, streaming" in screen_text(slow).splitlines()[0]
        assert screen_text(slow).count("▶ runs") == 2
        player = slow.player
        assert player is not None
        assert player.tempo is not None
        # As if half of each had come: all tokens of a pass come at once.
        player._began -= player.tempo._due[len(player.tempo._due) // 2]
        player._wait()
        await settled(pilot)
        assert 0 < columns[0].position == columns[1].position < 10
        await press(pilot, "S")
        assert "not streaming" in screen_text(slow).splitlines()[0]
        await press(pilot, "space")
        assert slow.controller.log.state.state is RunState.PAUSED
        assert screen_text(slow).count("○ ready") == 2
        here = columns[0].position
        await press(pilot, "n")
        assert [column.position for column in columns] == [here + 1] * 2
        await press(pilot, "c", "q")
        assert slow.controller.log.state.state is RunState.PAUSED, "no screen shows them now"
    fast = replaying(open_session(path), asked, playing=Playing(speed=1e6))
    async with fast.run_test(size=(100, 30)) as pilot:
        await press(pilot, "space")
        await settled(pilot)
        assert [column.position for column in compared(fast).comparison.columns] == [10, 10]
        # There is no model that could go on: nobody waits for one.
        await press(pilot, "c")
        assert not compared(fast).comparison.running


async def test_no_token_and_no_title_acts_on_the_terminal() -> None:
    """Tokens, titles and reasons of columns that a terminal would act on, on every pane."""
    opening, configure, submit = script(
        "a", tokens=["a", f"b{LONE.encode('utf-8', 'replace').decode()}"]
    )
    client = DirectClient()
    client.send(opening)
    wrong = Settings(spec=f"no_such_stage{MARKER}=1")
    asked = (
        ColumnRequest(Settings(spec="temperature=1"), 1, LONE),
        ColumnRequest(Settings(spec="temperature=2"), 2, LONE),
        ColumnRequest(wrong, None, LONE),
    )
    one = Inspector(Request(opening, configure, submit, columns=asked), client, DirectClient)
    async with one.run_test(size=(160, 48)) as pilot:
        await press(pilot, "N")
        for keys in ("t", "t", "tab", "tab", "tab", "z", "z", "3", "v", "q"):
            await press(pilot, keys)
            assert_safe(one, keys)
        await press(pilot, "f13")
        assert_safe(one, "the batch pane")


async def test_only_columns_that_changed_are_painted(monkeypatch: pytest.MonkeyPatch) -> None:
    """One column runs on alone: the lines of the others stay as they are."""
    one = comparing(*FOUR)
    async with one.run_test(size=(160, 48)) as pilot:
        await press(pilot, "n", "n")
        painted: list[str] = []
        whole = ColumnPane.refresh

        def noted(self: ColumnPane, *regions: object, **more: object) -> ColumnPane:
            painted.append(str(self.id))
            return whole(self, *regions, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(ColumnPane, "refresh", noted)
        compared(one).comparison._send(  # as ``o`` would, for a single token
            StepMany(
                tuple(
                    column.order(held=at > 0)
                    for at, column in enumerate(compared(one).comparison.columns)
                )
            )
        )
        await settled(pilot)
        assert set(painted) == {"column-0"}


async def test_a_key_paints_what_changed_and_nothing_the_screen_below(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = comparing(*FOUR)
    async with one.run_test(size=(160, 48)) as pilot:
        await press(pilot, "n", "n", "2")
        whole: list[Screen[object]] = []
        refresh = Screen.refresh

        def noted(self: Screen[object], *regions: object, **more: object) -> Screen[object]:
            if not regions or self is not one.screen:
                whole.append(self)
            return refresh(self, *regions, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(Screen, "refresh", noted)
        await press(pilot, "1", "2", "tab", "n")
        assert whole == []
        below: list[object] = []
        monkeypatch.setattr(DebuggerScreen, "tick", lambda *seen: below.append(seen))
        monkeypatch.setattr(StatusLine, "show", lambda line, *seen: below.append(line.screen))
        one.controller._sent = True
        one._tick()
        assert below == [one.screen], "a long pass is told of where it is seen"
        await settled(pilot)
        assert whole == []
        await press(pilot, "q")
        whole.clear()
        await press(pilot, "3", "4", "2")
        assert whole == [], "so does the debugger"


async def settled(pilot: Pilot[None]) -> None:
    await pilot.pause()
    await pilot.pause(0.3)
