"""The rows of the session browser: the prompt first, then when, how much and by which model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime
from itertools import groupby

from textual.content import Content

from engine.text import visible
from inspector.draw.numbers import cut, muted, padded, right
from sessions.preview import Preview

MARKED, WRITTEN, INTERRUPTED, UNREADABLE = "●", "✎", "!", "✗"
LEGEND = (
    f"{MARKED} marked  {WRITTEN} being written  {INTERRUPTED} interrupted  {UNREADABLE} unreadable"
)
_SIGNS, _TIME, _TOKENS, _MODEL = 3, 6, 11, 18
_WITH_MODEL, _WITH_TOKENS = 70, 44
"""Cells from which the model, and the number of tokens, have a column."""


def by_day(previews: Sequence[Preview], today: date) -> Iterator[tuple[str, list[int]]]:
    """The sessions of each day, newest first: its name, and their places in ``previews``."""
    for day, places in groupby(range(len(previews)), lambda at: _day(previews[at])):
        yield _named(day, today), list(places)


def _day(one: Preview) -> date:
    return datetime.fromtimestamp(one.modified).date()


def _named(day: date, today: date) -> str:
    ago = (today - day).days
    words = {0: "Today", 1: "Yesterday"}.get(ago, day.strftime("%A") if 1 < ago < 7 else "")
    return f"{words} {day:%Y-%m-%d}".strip()


def said(one: Preview, *, autosaved: bool) -> str:
    """Label of a session: the name that somebody gave it, and its prompt."""
    prompt = " ".join(one.prompt.split())
    if autosaved and prompt:
        return visible(prompt)
    return visible(f"{one.name}: {prompt}" if prompt else one.name)


def session_row(one: Preview, width: int, *, marked: bool, autosaved: bool) -> Content:
    """One session in ``width`` cells."""
    # In no colour of their own: they have to be read on the highlighted row too.
    signs = {"interrupted": INTERRUPTED, "being written": WRITTEN, "": " "}
    sign = UNREADABLE if one.error else signs[one.state]
    cells = [Content(f"{datetime.fromtimestamp(one.modified):%H:%M}".rjust(_TIME))]
    if width >= _WITH_TOKENS:
        count = "—" if one.error else f"{one.steps:,} tok"
        cells.append(right(Content(count), _TOKENS))
    if width >= _WITH_MODEL:
        cells.append(Content("  ") + padded(cut(Content(visible(one.model)), _MODEL), _MODEL))
    room = max(8, width - _SIGNS - sum(cell.cell_length for cell in cells))
    text = padded(Content(said(one, autosaved=autosaved)), room)
    line = Content(f"{MARKED if marked else ' '}{sign}".ljust(_SIGNS)) + text
    return cut(line + Content("").join(cells), width)


def day_row(name: str, width: int) -> Content:
    """The line above the sessions of a day."""
    return cut(muted(f"── {name} ".ljust(width, "─")), width)
