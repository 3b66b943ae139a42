"""The tree pane as text pictures, and what its rows do."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import pytest
from rich.cells import cell_len

from engine.records.events import BranchNamed, Record, SettingsChanged
from engine.records.step import Draw, How, Stop, StopKind
from engine.records.vocabulary import Token
from inspector.messages import GoTo
from inspector.panes.tree.pane import TreePane
from inspector.panes.tree.rows import details, heading, tree_rows
from inspector.state.branches import Branches
from inspector.state.view import RunLog, View
from inspector.widgets.line_view import Pane
from tests import fakes
from tests.fake_runs import Host, picture, run, styles_at

WORDS = ["The", " cat", " sat", " on\n", "[/b]", "\x1b[2J"]


def drawn(view: View, width: int) -> str:
    branches = Branches()
    branches.update(view.log.tree)
    titles = heading(view, branches, width).plain.rstrip()
    return f"{titles}\n{picture(tree_rows(view, branches, width))}"


def forked() -> View:
    """After ``The cat``: sat on The, beside ``on`` a hostile token, which has two continuations."""
    return run(
        WORDS, prompt=[0, 1], forces=[2, 3, 0], forks=[(1, 4), (4, 5), (4, 1), (0, 0)], seed=7
    )


def test_every_column_at_76_cells() -> None:
    assert drawn(View(forked().log, 5), 76) == (
        """
        prob how           tokens end       text
 ┏╸          prompt             2 2 ways    The cat
 ┠──╴    50% forced             1           "The"
 ┣╸      12% forced             1 2 ways    " sat"
 ┠──╴   6.2% forced             2           " on⏎"The
 ┣╸     3.1% forced             1 2 ways    "[/b]"
 ┠──╴    25% forced             1           " cat"
●┗╸     3.1% forced             1           "␛[2J"
""".strip("\n")
    )


def test_fewer_columns_where_there_is_less_room() -> None:
    view = View(forked().log, 3)
    assert drawn(view, 36).splitlines()[:5] == [
        "        prob how        text",
        " ┏╸          prompt     The cat",
        ' ┠──╴    50% forced     "The"',
        ' ┣╸      12% forced     " sat"',
        '●┡━━╸   6.2% forced     " on⏎"The',
    ]
    assert drawn(view, 20).splitlines()[4] == '●┡━━╸ " on⏎"The'
    assert drawn(view, 7).splitlines()[3:5] == [' ┣╸ " sat"', '●…╸ " on⏎"The']


def test_cells_line_up_at_every_width() -> None:
    view = forked()
    for width in range(1, 140):
        branches = Branches()
        branches.update(view.log.tree)
        rows = tree_rows(view, branches, width)
        fixed = {
            cell_len(line.plain[: line.plain.index('"')])
            for line in (rows[index] for index in range(1, len(rows)))
        }
        assert len(fixed) == 1


def test_the_text_of_a_stretch_up_to_the_cursor_and_beyond() -> None:
    view = run(WORDS, prompt=[0], forces=[1, 2, 3, 0, 1])
    branches = Branches()
    branches.update(view.log.tree)
    rows = tree_rows(View(view.log, 2), branches, 76)
    assert rows[1].plain.endswith('2/5           " cat" sat on⏎The cat')
    assert "$cut" in styles_at(rows, 1, "on")
    assert "$cut" not in styles_at(rows, 1, "sat")


def test_far_down_a_long_stretch_the_text_near_the_cursor_is_shown() -> None:
    words = [f" {number}" for number in range(100)]
    view = run(words, [0.01] * 100, prompt=[0], forces=range(1, 100))
    assert '" 1"… 71 72 73' in drawn(View(view.log, 80), 76).splitlines()[2]
    assert " 80 81" in drawn(View(view.log, 80), 76).splitlines()[2]


def steps(*records: Record) -> View:
    log = RunLog()
    for record in (fakes.SMOLLM2, fakes.prompt(2), *records):
        log.add(record)
    return View(log, 1)


def step(node: int, parent: int, spec: str, **changes: object) -> Record:
    drawn_by = Draw(7, How.SAMPLED, 0.25, 0.0, 0.5)
    return replace(
        fakes.step(node, fakes.timing(1.0), fakes.kv(3), parent=parent, draw=drawn_by),
        chain_spec=spec,
        **changes,  # type: ignore[arg-type]
    )


def test_how_a_token_came_about_and_which_dials_were_turned() -> None:
    base = "temperature=0.8 > top_k=40"
    view = steps(
        step(1, 0, base, seed=3),
        step(2, 1, base, seed=3),
        step(3, 1, "temperature=1.2 > top_k=40", seed=3),
        step(4, 1, "temperature=0.8 > top_p=0.9", seed=3),
        step(5, 1, "top_k=40 > temperature=0.8", seed=12),
        step(6, 1, base, preset="hf"),
        step(7, 0, "temperature=0.8 > top_k=0", seed=4),
        step(8, 3, "temperature=1.2 > top_k=40"),
    )
    log = view.log
    other = {}
    branches = Branches()
    branches.update(log.tree)
    for row in branches.rows:
        words = details(View(log, 1), branches, row)
        other[row.head] = words.partition("≠ ")[2].partition(" · ")[0]
    assert other == {
        0: "",
        1: "",
        2: "",
        3: "temperature 0.8 → 1.2",
        4: "top_k 40 → off, top_p off → 0.9",
        5: "order",
        6: "preset guide → hf",
        7: "top_k 40 → off",
    }
    assert "other settings" not in drawn(view, 120)
    for spec in (base, "temperature=1.2 > top_k=40"):
        log.add(SettingsChanged("guide", spec, 0, {}))
    wide = drawn(view, 120)
    assert "seed 3 ≠           2           temperature 0.8 → 1.2" in wide
    assert "seed 12 ≠" in wide
    assert "≠" not in wide.splitlines()[3]


def test_why_branches_ended() -> None:
    def stop(kind: StopKind) -> Stop:
        return Stop(kind, f"because of \x1b{kind}")

    kinds = (StopKind.STOP_TOKEN, StopKind.LENGTH, StopKind.CONTEXT)
    view = steps(*(step(n, 0, "", stop=stop(kind)) for n, kind in enumerate(kinds, start=1)))
    picture_ = drawn(view, 76)
    for words in ("■ stop ", "■ length ", "■ context "):
        assert picture_.count(words) == 1
    branches = Branches()
    branches.update(view.log.tree)
    assert details(view, branches, branches.rows[-1]).endswith(" · because of ␛stop_token")


def test_names_stand_before_the_text() -> None:
    view = forked()
    for record in (BranchNamed(4, "[bold]a\x1b"), BranchNamed(1, "main"), BranchNamed(2, "")):
        view.log.add(record)
    lines = drawn(view, 76).splitlines()
    assert lines[3].endswith('main: " sat"')
    assert lines[5].endswith('[bold]a␛: "[/b]"')
    # Two names in one stretch, after the fork between them is gone.
    view.log.add(BranchNamed(3, "tail"))
    assert drawn(view, 76).splitlines()[4].endswith('tail: " on⏎"The')


def test_a_prompt_without_text_is_shown_by_its_tokens() -> None:
    assert drawn(run(WORDS, prompt=[4, 5], forces=[]), 76).splitlines()[1] == (
        "●╺╸        prompt             2           [/b]␛[2J"
    )


@pytest.mark.parametrize("width", [1, 2, 5, 20, 79, 200])
def test_hostile_tokens_are_shown_and_not_obeyed(width: int) -> None:
    hostile: Sequence[str | bytes | Token] = [
        *("[/]", "[bold]x", "[$primary]", "\x1b[2J", "\u202e", "\x9b", "\x00", "\u0301", "日本"),
        *(b"\xf0\x9f", b"\xff"),
    ]
    count = len(hostile)
    view = run(
        hostile,
        [1 / count] * count,
        prompt=range(count),
        forces=range(count),
        forks=[(2, token) for token in range(count)],
    )
    for cursor in (0, 2, 3, count):
        shown = drawn(View(view.log, cursor), width)
        assert not set(shown) & {"\x1b", "\u202e", "\x9b", "\x00"}


# --- the pane ---------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(1, 1), (20, 3), (80, 24), (160, 48)])
async def test_it_draws_at_every_size(size: tuple[int, int]) -> None:
    for view in (forked(), View(RunLog())):
        host = Host(TreePane(), view)
        async with host.run_test(size=size) as pilot:
            await pilot.press("down", "up", "end", "home", "enter")


async def test_the_selected_row_is_told_of_in_full() -> None:
    host = Host(TreePane(), forked())
    async with host.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert "token 4 (node 3): forced · 50% after the chain" not in "\n".join(
            host.screen_lines()
        )
        await pilot.press("home")
        assert "the prompt, 2 tokens" in "\n".join(host.screen_lines())
        await pilot.press("down")
        shown = "\n".join(host.screen_lines())
        assert "token 2 (node 7): forced · 50% after the chain, raw rank 1 · 1 token" in shown
        assert "4 branches · 7 tokens" in str(host.pane.border_subtitle)


def went_to(host: Host) -> list[int]:
    return [one.node for one in host.posted if isinstance(one, GoTo)]


async def test_enter_goes_to_the_first_token_and_then_to_the_last() -> None:
    view = forked()
    host = Host(TreePane(), View(view.log, 7))
    async with host.run_test(size=(80, 24)) as pilot:
        await pilot.press("down", "down", "enter")
        assert went_to(host) == [2]
        host.pane.show(View(view.log, 2))
        await pilot.press("enter")
        assert went_to(host) == [2, 3]
        host.pane.show(View(view.log, 3))
        await pilot.press("enter")
        assert went_to(host) == [2, 3, 2]
        await pilot.press("home", "enter")
        assert went_to(host)[-1] == 0


async def test_a_click_goes_there() -> None:
    host = Host(TreePane(), forked())
    async with host.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        await pilot.click(TreePane, offset=(12, 3))
        await pilot.pause()
        assert went_to(host) == [1]


async def test_the_selection_stays_on_its_branch_until_the_cursor_moves() -> None:
    view = forked()
    pane = TreePane()
    host = Host(pane, View(view.log, 7))
    async with host.run_test(size=(80, 24)) as pilot:
        await pilot.press("end")
        assert pane.head == 5
        view.log.add(fakes.step(8, fakes.timing(1.0), fakes.kv(3), parent=1))
        pane.show(View(view.log, 7))
        assert pane.head == 5
        pane.show(View(view.log, 3))
        assert pane.head == 2


async def test_it_is_quick_with_ten_thousand_nodes() -> None:
    log = RunLog()
    log.add(fakes.SMOLLM2)
    log.add(fakes.prompt(10))
    times, cache = fakes.timing(1.0), fakes.kv(5)
    for number in range(1, 10_001):
        parent = number // 2 if number % 25 == 0 else number - 1
        log.add(fakes.step(number, times, cache, parent=parent))
    pane: Pane = TreePane()
    host = Host(pane, View(log, 10_000))
    async with host.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        log.add(fakes.step(10_001, times, cache, parent=10_000))
        started = time.thread_time()
        pane.show(View(log, 10_001))
        lines = [pane.render_line(y) for y in range(20)]
        # About 3 ms of this thread on an idle machine.
        assert time.thread_time() - started < 0.2
        assert len(lines) == 20
