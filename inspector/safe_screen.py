"""The one place that all text on the screen passes: nothing in it acts on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual.app import App
from textual.color import Color
from textual.filter import LineFilter

import themes
from engine.text import safe
from inspector.safe_console import console

Result = TypeVar("Result")


class SafeText(LineFilter):
    """Makes what acts on a terminal visible in a painted line, which stays as wide as it is."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        if "".join([one.text for one in segments]).isprintable():
            return segments
        texts = [
            one.text if one.control else safe(one.text, newline="⏎", tab="⇥") for one in segments
        ]
        fit(texts, [cell_len(one.text) for one in segments])
        shown = zip(segments, texts, strict=True)
        return [Segment(text, one.style, one.control) for one, text in shown if text or one.control]


SAFE_TEXT = SafeText()


def fit(texts: list[str], widths: Sequence[int]) -> None:
    """Shorten ``texts`` in place to ``sum(widths)`` cells, ``widths`` being what they were.

    What has grown takes the blanks behind it, so that all else stays in its place; where they do
    not suffice, its own end is cut off.
    """
    grown = [cell_len(text) - width for text, width in zip(texts, widths, strict=True)]
    for at, over in enumerate(grown):
        for behind in range(at, len(texts) if over > 0 else at):
            text = texts[behind]
            rest = text.rstrip(" ") if behind == at else text.lstrip(" ")
            taken = min(over, len(text) - len(rest))
            texts[behind] = text[: len(text) - taken] if behind == at else text[taken:]
            over -= taken
            if over <= 0 or (behind > at and rest):
                break
        if over > 0:
            texts[at] = set_cell_size(texts[at], cell_len(texts[at]) - over)


class SafeApp(App[Result]):
    """An app with our themes: on its screen and in its last words no text acts on the terminal."""

    def __init__(self) -> None:
        super().__init__()
        # It prints the traceback of an app that fails, with what the error says.
        self.error_console = console(stderr=True)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        current = self.current_theme
        return themes.fallback_variables(dark=current.dark, ansi=current.ansi)

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [*super().get_line_filters(), SAFE_TEXT]
