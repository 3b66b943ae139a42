"""The pictures of README.md: the command makes them, and the page shows them all."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from docs.pages.pictures import FOLDER, PICTURES, TITLE, draw
from docs.pages.title_card import title_card
from sessions import open_session
from sessions.examples import example
from tests.folders import ROOT

SVG = "{http://www.w3.org/2000/svg}"


def test_the_readme_shows_every_picture() -> None:
    shown = re.findall(
        r"\]\(docs/pictures/([\w-]+)\.svg\)", (ROOT / "README.md").read_text("utf-8")
    )
    drawn = sorted([TITLE, *PICTURES])
    assert sorted(shown) == drawn == sorted(one.stem for one in FOLDER.glob("*.svg"))


def test_the_title_card_shows_a_recorded_draw_inside_its_edges() -> None:
    """Of " it" 47.1% and " the" 44.5% the dice, 0.73322, took the second."""
    card = title_card(open_session(example("capital")))
    assert card == (FOLDER / f"{TITLE}.svg").read_text("utf-8").rstrip()
    root = ElementTree.fromstring(card)
    words = [(float(one.get("x", 0)), one.text or "") for one in root.iter(f"{SVG}text")]
    assert {'" the"', "u 0.73322 in [0.47136, 0.91590)", "✂ top_p"} <= {text for _, text in words}
    bars = list(root.iter(f"{SVG}rect"))[1:]
    ends = [float(one.get("x", 0)) + float(one.get("width", 0)) for one in bars]
    _, _, width, _ = map(float, str(root.get("viewBox")).split())
    assert max(ends) < width - 20
    assert max(x + 11 * len(text) for x, text in words if x > width / 2) < width


@pytest.mark.parametrize(
    ("name", "words"),
    [("ladder", ("top_p", "drawn")), ("kv-cache", ("Pool", "block")), ("tour", ("4/", "next"))],
)
async def test_the_command_draws_what_the_picture_is_named_for(
    name: str, words: tuple[str, ...]
) -> None:
    drawn = await draw(PICTURES[name])
    assert drawn.startswith("<svg")
    for word in words:
        assert word in drawn
