"""The command palette finds an action by what people call it, and lists movements last."""

from __future__ import annotations

import pytest
from textual.command import CommandList

from inspector.commands import synonym_score
from tests.inspector.test_app import app, press

MOVES = ("Step  ", "Step out", "Back", "First", "Last", "Pane", "Next pane", "Up", "Down")
MOVES += ("Page", "Top", "Bottom", "Choose", "Wider", "Narrower", "Higher", "Lower")


def offered(one: object) -> list[str]:
    rows = one.screen.query_one(CommandList).options  # type: ignore[attr-defined]
    return [str(row.prompt).splitlines()[0] for row in rows]


@pytest.mark.parametrize(
    ("typed", "first"),
    [
        ("undo", {"Undo delete  (u)"}),
        ("temperature", {"Dials  (s)", "Fork  (f)"}),
        ("seed", {"Draw again  (r)", "Fork  (f)"}),
        ("copy", {"Copy text  (y)"}),
        ("exit", {"Quit  (q)"}),
        ("theme", {"Theme"}),
    ],
)
async def test_what_people_type_comes_first(typed: str, first: set[str]) -> None:
    one = app()
    async with one.run_test(size=(100, 40)) as pilot:
        await press(pilot, "n", "ctrl+p", *typed)
        await pilot.pause(0.5)
        assert offered(one)[0] in first


async def test_actions_are_listed_before_movements() -> None:
    one = app()
    async with one.run_test(size=(100, 40)) as pilot:
        await press(pilot, "n", "ctrl+p")
        await pilot.pause(0.5)
        rows = [row for row in offered(one) if "(" in row]
        moves = [row.startswith(MOVES) for row in rows]
        assert len(rows) > 40
        assert moves == sorted(moves), "False before True"


def test_a_word_that_is_begun_counts_less_than_a_whole_one() -> None:
    assert synonym_score("dials", "temperature") > synonym_score("dials", "temp") > 0
    assert synonym_score("dials", "xyz") == synonym_score("dials", " ") == 0
