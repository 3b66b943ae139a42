"""The line of keys: help and quit are never cut, the others give way from the right."""

from __future__ import annotations

import pytest

from inspector.widgets.footer import Shown, arranged, footer_line

KEYS = [
    Shown("n", "n", "Step"),
    Shown("b", "b", "Back"),
    Shown("question_mark", "?", "Help", pinned=True),
    Shown("c", "c", "Continue"),
    Shown("q", "q", "Quit", pinned=True),
]


def test_where_there_is_room_all_keys_are_there() -> None:
    assert footer_line(KEYS, 44).plain == "n Step  b Back  c Continue    ? Help  q Quit"
    assert footer_line(KEYS, 42).plain == "n Step  b Back  c Continue  ? Help  q Quit"


def test_an_ellipsis_says_that_there_are_more() -> None:
    assert footer_line(KEYS, 41).plain == "n Step  b Back  …          ? Help  q Quit"
    assert footer_line(KEYS, 32).plain == "n Step  …         ? Help  q Quit"
    assert footer_line(KEYS, 18).plain == "…   ? Help  q Quit"


@pytest.mark.parametrize("width", range(14, 60))
def test_help_and_quit_are_never_cut(width: int) -> None:
    line = footer_line(KEYS, width).plain
    assert line.endswith("? Help  q Quit")
    assert len(line) == width
    for at, one in arranged(KEYS, width):
        assert line[at : at + one.cells] == f"{one.display} {one.name}", "a click finds it there"
