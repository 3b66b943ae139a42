"""The KV pane at a token of a speculative round: what its pass wrote, and what it took back."""

from __future__ import annotations

import pytest

from inspector.panes.kv.figures import figures
from inspector.panes.kv.logical import state
from inspector.panes.kv.round import round_lines, round_of, written
from inspector.state.view import View
from tests.speculating import Listed, by_last, log_of, stepper

ROWS = [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0]]
"""a b c d, round and round."""


def view_at(node: int) -> View:
    """Prompt "a", then b; a round of c d a (accepted) b (bonus); one of c d b: b is rejected."""
    run = stepper(
        by_last(ROWS),
        lambda _: Listed([2, 3, 0], [2, 3, 1]),
        prompt="a",
        tokens=3,
        max_tokens=9,
    )
    return View(log_of(run), node)


@pytest.mark.parametrize("node", [2, 3, 5])
def test_of_drafts_that_were_all_accepted_nothing_is_taken_back(node: int) -> None:
    """Position 1 is b, which the round read too; its drafts are 2 to 4, the bonus is not read."""
    there = round_of(view_at(node))
    assert there is not None
    assert written(*there) == (1, 5, 5)
    (line,) = round_lines(view_at(node), 12, 60, 16)
    assert line.plain == "this round  ████  4 written (1–4), 0 taken back"


@pytest.mark.parametrize("node", [6, 7, 8])
def test_a_rejected_draft_is_taken_back(node: int) -> None:
    """Position 5 is the bonus, 6 and 7 the accepted ones, 8 the rejected one."""
    there = round_of(view_at(node))
    assert there is not None
    assert written(*there) == (5, 8, 9)
    (line,) = round_lines(view_at(node), 12, 60, 16)
    assert line.plain == "this round  ███↶  4 written (5–8), 1 taken back (8)"


def test_edges_of_blocks_and_little_room() -> None:
    (line,) = round_lines(view_at(6), 12, 60, 4)
    assert line.plain == "this round  ███│↶  4 written (5–8), 1 taken back (8)"
    for width, shown in (
        (46, "4 written (5–8), 1 taken back (8)"),
        (42, "███│↶ 4 written, 1 taken back"),
    ):
        (line,) = round_lines(view_at(6), 12, width, 4)
        assert line.plain == f"this round  {shown}"


def test_the_pane_tells_of_the_round_in_place_of_a_pass_of_its_own() -> None:
    for node, label in ((1, "this pass"), (6, "this round")):
        view = view_at(node)
        lines = [line.plain for part in figures(view, state(view), 60) for line in part]
        assert sum(line.startswith("this ") for line in lines) == 1
        assert any(line.startswith(label) for line in lines)
