"""The panes' lines on a plain terminal, their styles in the terminal's own colours."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import cache

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook, RenderResult
from rich.segment import Segment
from rich.text import Text
from textual.content import Content
from textual.style import Style

import themes
from engine.safe_output import unguarded
from engine.text import safe

_THEME = "ansi-dark"
"""The one whose colours are the terminal's: nothing is known here of what is behind the text."""
_MUTED = "$text-muted"


def console(*, stderr: bool = False) -> Console:
    """Standard output or error: no markup, nothing wrapped, no colour where none is wanted.

    Its text is made safe apart from its styles, so that these may pass.
    """
    stream = unguarded(sys.stderr if stderr else sys.stdout)
    made = Console(file=stream, markup=False, highlight=False, emoji=False, soft_wrap=True)
    made.push_render_hook(_SafeText())
    return made


class _SafeText(RenderHook):
    """Has everything printed on a console pass ``safe``."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Safe(one) for one in renderables]


class _Safe:
    """What a renderable draws, its text made safe."""

    def __init__(self, what: ConsoleRenderable) -> None:
        self._what = what

    def __rich_console__(self, out: Console, options: ConsoleOptions) -> RenderResult:
        for text, style, control in out.render(self._what, options):
            yield Segment(text if control else safe(text), style, control)


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
