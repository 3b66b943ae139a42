"""The pictures of README.md: the command makes them, and the page shows them all."""

from __future__ import annotations

import re

import pytest

from docs.pages.pictures import FOLDER, PICTURES, draw
from tests.folders import ROOT


def test_the_readme_shows_every_picture() -> None:
    shown = re.findall(
        r"\]\(docs/pictures/([\w-]+)\.svg\)", (ROOT / "README.md").read_text("utf-8")
    )
    assert sorted(shown) == sorted(PICTURES) == sorted(one.stem for one in FOLDER.glob("*.svg"))


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
