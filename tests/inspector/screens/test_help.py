"""The help page: sections, search, and the keys as they are bound now."""

from __future__ import annotations

import pytest
from textual.widgets import Input

from inspector.actions.help import GROUPS
from inspector.app import Inspector
from inspector.help_text import SYNONYMS, TOPICS
from inspector.live_keys import LiveKey, live_keys
from inspector.screens.help import HelpScreen, found, help_lines, sections, styled
from tests.fakes import texts
from tests.inspector.test_app import app, press, screen_text

KEYS = {
    "step": LiveKey("step", ("n", "→"), "Step", "One forward pass"),
    "branch-undo": LiveKey("branch-undo", ("u",), "Undo delete", "Bring it back"),
    "mine": LiveKey("mine", ("f12",), "Of a plug-in"),
}
PANES = [("Ladder", "**✂** cut\nby *top_p*."), ("Tokens", "ids")]


def test_the_page_begins_with_the_pane_that_has_the_focus() -> None:
    parts = sections(KEYS, PANES, "Ladder")
    titles = [part.title for part in parts]
    assert titles[0] == "Here: Ladder"
    assert titles[1:8] == [topic.title for topic in TOPICS]
    assert titles[8:] == ["Other keys", "Marks", "Pane: Tokens"]
    lines, starts = help_lines(parts, 70)
    assert [lines[at].plain.split(" ─")[0] for at in starts] == titles
    picture = texts(lines)
    assert "✂ cut by top_p." in picture
    assert "n →         Step              One forward pass" in picture
    assert "f12         Of a plug-in" in picture


@pytest.mark.parametrize("width", [20, 36, 74, 154])
def test_no_line_is_wider_than_the_page(width: int) -> None:
    lines, _ = help_lines(sections(KEYS, PANES), width)
    assert all(line.cell_length <= width for line in lines)


@pytest.mark.parametrize(
    ("query", "titles"),
    [("undo", ["Branches"]), ("REVERT", ["Branches"]), ("plug-in", ["Other keys"]), ("zzz", [])],
)
def test_what_people_type_is_found(query: str, titles: list[str]) -> None:
    """By name, by text, and by the words that people use for it."""
    parts = found(sections({"branch-undo": KEYS["branch-undo"], "mine": KEYS["mine"]}, []), query)
    assert [part.title for part in parts] == titles


def test_words_between_stars_are_bold_or_italic() -> None:
    line = styled("**n** is *one* and \\* a star, 2 * 3 * 4")
    assert line.plain == "n is one and * a star, 2 * 3 * 4"
    assert [(span.start, span.end, span.style) for span in line.spans] == [
        (0, 1, "bold"),
        (5, 8, "italic"),
    ]


async def test_every_key_is_in_a_section_and_every_name_is_a_key() -> None:
    one = app()
    async with one.run_test(size=(80, 24)):
        known = live_keys(one, [Inspector.BINDINGS, *GROUPS], {})
    told = [name for topic in TOPICS for name in topic.ids]
    assert len(told) == len(set(told))
    assert set(known) - set(told) == set(), "keys that no section names"
    assert set(told) - set(known) == set(), "names in a section that no key has"
    assert set(SYNONYMS) - set(known) == set()


async def test_it_is_usable_at_80x24_and_shows_rebound_keys() -> None:
    from inspector.state.request import Request
    from tests.direct import DirectClient, script

    opening, configure, submit = script()
    client = DirectClient()
    client.send(opening)
    keys = {"step": "j,down", "fork": "ctrl+f"}
    one = Inspector(Request(opening, configure, submit), client, DirectClient, keys=keys)  # type: ignore[arg-type]
    async with one.run_test(size=(80, 24)) as pilot:
        await press(pilot, "question_mark")
        assert isinstance(one.screen, HelpScreen)
        shown = screen_text(one)
        assert "Here: Ladder" in shown
        assert "j ↓         Step " in shown
        assert "q Close" in shown.splitlines()[-1]
        await press(pilot, "n", "n")
        assert screen_text(one).splitlines()[1].startswith("│ Looking ─")
        await press(pilot, "p")
        assert screen_text(one).splitlines()[1].startswith("│ Stepping ─")
        await press(pilot, "slash", *"temperature", "enter")
        assert "s           Dials" in screen_text(one)
        assert "Stepping" not in screen_text(one)
        await press(pilot, "escape")
        assert one.screen.query_one(Input).value == "", "Escape leaves the search first"
        assert isinstance(one.screen, HelpScreen)
        await press(pilot, "slash", *"fork")
        assert "^f          Fork" in screen_text(one)
        await press(pilot, "escape", "q")
        assert not isinstance(one.screen, HelpScreen)
        assert one._exit is False
