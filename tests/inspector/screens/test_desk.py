"""Places of the panes: in writing, on the screen, and every change of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.geometry import Region

from inspector.screens.desk import (
    LAYOUTS,
    Axis,
    LayoutError,
    Part,
    added,
    borders,
    grown,
    moved,
    names,
    parse,
    regions,
    spell,
    swapped,
    without,
)
from inspector.screens.layout import SPECS

ROOM = Region(0, 0, 160, 46)


def layout(text: str) -> Part:
    return parse(text, SPECS)


def cells(part: Part, room: Region = ROOM) -> dict[str, tuple[int, int, int, int]]:
    return {name: tuple(its) for name, its in regions(part, room).items()}  # type: ignore[misc]


# --- in writing -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("kv", "kv"),
        ("kv|tree/ladder", "(kv | tree) / ladder"),
        ("(kv / tree) | ladder*2.5", "(kv / tree) | ladder*2.5"),
        (" ((kv))*3 ", "kv"),
        *((text, text) for text in LAYOUTS.values()),
    ],
)
def test_a_layout_in_writing(text: str, spelled: str) -> None:
    assert spell(layout(text)) == spelled
    assert layout(spelled) == layout(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "a pane is missing before the end"),
        ("kv |", "a pane is missing before the end"),
        ("kv | | tree", r"a pane is missing before \|"),
        ("(kv | tree", r"a \( without its \)"),
        ("kv)", r"'\)' is too much"),
        ("kv tree", "'tree' is too much"),
        ("kv * tree", r"a \* without its number"),
        ("kv*0", "0 is no share"),
        ("kv*99999999999", "is no share"),
        ("kv | spam", "no pane 'spam'; there are transcript, ladder"),
        ("kv | kv", "kv has two places"),
        ("kv; rm", "cannot read ';"),
        ("(" * 100 + "kv" + ")" * 100, "nested too deeply"),
        ("kv | " * 1000, "longer than 1,000"),
        ("\x1b[2J", "cannot read"),
    ],
)
def test_what_cannot_be_read_says_why(text: str, reason: str) -> None:
    with pytest.raises(LayoutError, match=reason) as raised:
        layout(text)
    assert "\x1b" not in str(raised.value)


# --- on the screen ----------------------------------------------------------------------------


def test_the_panes_stand_where_they_always_stood() -> None:
    """46 lines in shares of 4 and 1.6; the first as halves; thirds of 160 cells below."""
    assert cells(layout(LAYOUTS["debug"])) == {
        "transcript": (0, 0, 80, 16),
        "tokens": (0, 16, 80, 16),
        "ladder": (80, 0, 80, 32),
        "kv": (0, 32, 53, 14),
        "prefill": (53, 32, 53, 14),
        "gauges": (106, 32, 54, 14),
    }


@given(
    st.sampled_from(sorted(LAYOUTS)),
    st.integers(30, 400),
    st.integers(10, 120),
    st.lists(st.tuples(st.integers(0, 9), st.integers(-30, 200)), max_size=4),
)
def test_every_cell_is_one_panes_whatever_is_dragged(
    name: str, width: int, height: int, drags: list[tuple[int, int]]
) -> None:
    room, part = Region(3, 1, width, height), layout(LAYOUTS[name])
    for number, to in drags:
        listed = list(borders(part, room))
        part = moved(part, listed[number % len(listed)], to)
    found = regions(part, room).values()
    assert sum(one.area for one in found) == room.area
    assert all(room.contains_region(one) for one in found if one.area)
    again = regions(layout(spell(part)), room)
    for pane, its in regions(part, room).items():
        assert all(abs(a - b) <= 1 for a, b in zip(its, again[pane], strict=True))


# --- changes ----------------------------------------------------------------------------------


def test_a_dragged_border_follows_the_mouse_and_moves_no_other_pane() -> None:
    part = layout("(kv | tree | ladder) / tokens")
    across = next(one for one in borders(part, ROOM) if one.axis is Axis.ACROSS)
    assert across.touches(53, 5)
    assert not across.touches(55, 5)
    assert not across.touches(53, 40)
    after = regions(moved(part, across, 70), ROOM)
    assert after["kv"].right == after["tree"].x == 70
    assert after["ladder"] == regions(part, ROOM)["ladder"]
    assert after["tokens"] == regions(part, ROOM)["tokens"]


def test_a_drag_leaves_room_to_both_neighbours() -> None:
    part = layout("kv | tree")
    (border,) = borders(part, ROOM)
    assert regions(moved(part, border, -50), ROOM)["kv"].width == 16
    assert regions(moved(part, border, 999), ROOM)["tree"].width == 16
    narrow = Region(0, 0, 20, 5)
    (border,) = borders(part, narrow)
    assert moved(part, border, 2) == part


@pytest.mark.parametrize(
    ("pane", "axis", "by", "expected"),
    [
        ("transcript", Axis.ACROSS, 4, 84),
        ("ladder", Axis.ACROSS, 4, 84),
        ("kv", Axis.ACROSS, 3, 56),
        ("gauges", Axis.ACROSS, 3, 57),
        ("transcript", Axis.DOWN, 2, 18),
        ("kv", Axis.DOWN, 2, 16),
        ("ladder", Axis.DOWN, -3, 29),
    ],
)
def test_a_pane_grows_by_its_nearest_border(pane: str, axis: Axis, by: int, expected: int) -> None:
    its = regions(grown(layout(LAYOUTS["debug"]), ROOM, pane, axis, by), ROOM)[pane]
    assert (its.width if axis is Axis.ACROSS else its.height) == expected


def test_panes_are_swapped_taken_out_and_put_in() -> None:
    part = layout("(kv / tree) | ladder*2")
    assert spell(swapped(part, "kv", "ladder")) == "(ladder / tree) | kv*2"
    assert spell(without(part, "tree")) == "kv | ladder*2"
    assert spell(without(without(part, "tree"), "kv")) == "ladder"
    assert spell(without(layout("kv"), "kv")) == "kv"
    assert spell(added(part, "shape", ROOM)) == "(kv / tree) | (ladder / shape)*2"
    assert spell(added(layout("kv"), "shape", Region(0, 0, 300, 40))) == "kv | shape"
    assert names(added(part, "shape", ROOM)) == ["kv", "tree", "ladder", "shape"]
