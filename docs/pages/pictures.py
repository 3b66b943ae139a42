"""Draws the pictures of README.md from recorded sessions: no model, and the same at every run.

``python -m docs.pages.pictures [FOLDER]``; into docs/pictures where no folder is given.
"""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path

# Textual reads them when it is imported.
os.environ.setdefault("TEXTUAL_COLOR_SYSTEM", "truecolor")
os.environ.setdefault("TEXTUAL_ANIMATIONS", "none")

from docs.pages.title_card import title_card
from engine.commands import Configure, Open, Submit
from inspector.actions.replay import request_of
from inspector.replaying import replaying
from inspector.state.request import Request
from sessions import open_session
from sessions.examples import example

FOLDER = Path(__file__).parents[1] / "pictures"
_MIDDLE = ("b", "b", "b", "b", "b")
_SETTLED_S = 1.0
"""Time in which reasons and histograms are found that are not needed for a first paint."""


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture: which session, what size, and the keys pressed before it."""

    session: str
    size: tuple[int, int]
    keys: tuple[str, ...]
    tour: bool = False


PICTURES = {
    "debugger": Picture("capital", (160, 48), _MIDDLE),
    "ladder": Picture("capital", (110, 30), (*_MIDDLE, "2", "z")),
    "kv-cache": Picture("tour", (110, 30), (*_MIDDLE, "4", "z")),
    "tour": Picture("tour", (110, 34), ("right_parenthesis",) * 3, tour=True),
}
TITLE = "title"
"""The name of the picture that no screen shows."""


async def draw(picture: Picture) -> str:
    """The picture as SVG."""
    session = open_session(example(picture.session))
    asked = request_of(session, Request(Open(), Configure(), Submit("")))
    app = replaying(session, asked, tour=picture.tour)
    async with app.run_test(size=picture.size) as pilot:
        await pilot.pause()
        for key in picture.keys:
            await pilot.press(key)
            await pilot.pause()
        await pilot.pause(_SETTLED_S)
        return app.export_screenshot()


def main(folder: Path = FOLDER) -> None:
    """Write all pictures into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = {name: asyncio.run(draw(picture)) for name, picture in PICTURES.items()}
    drawn[TITLE] = title_card(open_session(example("capital")))
    for name, picture in drawn.items():
        (folder / f"{name}.svg").write_text(picture + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
