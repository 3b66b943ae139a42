"""Styles in words, such as ``"$cut $cut-style"``, as they are meant outside a stylesheet."""

from __future__ import annotations

from collections.abc import Mapping

from textual.color import ColorParseError
from textual.css.tokenizer import TokenError
from textual.style import Style

_MUTED = {"$text-muted": "$foreground-muted", "$text-disabled": "$foreground-disabled"}
"""Textual defines the former as ``auto 60%``, and loses the 60% on the way into a ``Content``."""


class StyleWords:
    """Reads words by the theme's variables; remembers what it has read until ``forget``."""

    def __init__(self) -> None:
        self._known: dict[str, Style] = {}

    def forget(self) -> None:
        """The theme has changed."""
        self._known.clear()

    def style(self, text: str, variables: Mapping[str, str]) -> Style:
        """The style that ``text`` stands for; none where a theme lacks a variable."""
        style = self._known.get(text)
        if style is None:
            try:
                style = Style.parse(" ".join(_word(word, variables) for word in text.split()))
            except (ColorParseError, TokenError):
                style = Style.null()
            self._known[text] = style
        return style


def _word(word: str, variables: Mapping[str, str]) -> str:
    """One word of a style, in a form that means outside a stylesheet what it means in one."""
    if word.endswith("-style"):
        return variables.get(word.removeprefix("$"), "none").replace("none", "")
    if word in _MUTED:
        word = _MUTED[word]
        # A terminal's own colour cannot be mixed with what is behind it.
        return "dim" if variables.get(word[1:], "").startswith("ansi_") else word
    return word
