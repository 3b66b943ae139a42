"""The panes' lines on a plain terminal, their styles in the terminal's own colours."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from rich.console import Console
from rich.text import Text
from textual.content import Content
from textual.style import Style

import themes

_THEME = "ansi-dark"
"""The one whose colours are the terminal's: nothing is known here of what is behind the text."""
_MUTED = "$text-muted"


def print_lines(out: Console, lines: Iterable[Content]) -> None:
    """Print lines as the panes make them."""
    for line in lines:
        out.print(rich_text(line))


def rich_text(line: Content) -> Text:
    """One line for rich, its variables such as ``$bar`` resolved."""
    text = Text()
    for part, style in line.render(Style.null(), end="", parse_style=_style):
        text.append(part, style.rich_style)
    text.rstrip()
    return text


def _style(style: str | Style) -> Style:
    return style if isinstance(style, Style) else _parsed(style)


@cache
def _parsed(style: str) -> Style:
    words = (_word(word) for word in style.split())
    return Style.parse(" ".join(word for word in words if word != "none"))


def _word(word: str) -> str:
    if word == _MUTED:
        return "dim"
    if not word.startswith("$"):
        return word
    return str(themes.load(_THEME).textual_kwargs()["variables"].get(word[1:], "none"))
