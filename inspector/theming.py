"""Giving an app its theme, and what NO_COLOR makes of that."""

from __future__ import annotations

from typing import Any

from textual.app import App
from textual.filter import Monochrome, NoColor
from textual.theme import Theme

import themes

_DEPTHS = {"256": 256, "standard": 16}
"""Rich's names for terminals without truecolour -> the number of their colours."""


def use_theme(app: App[Any], wanted: str) -> None:
    """Register all themes and use ``wanted``. Raises ThemeError."""
    depth = _DEPTHS.get(app.console.color_system or "")
    spec = themes.resolve(wanted).in_colors(depth)
    for name in themes.names():
        app.register_theme(Theme(**themes.load(name).in_colors(depth).textual_kwargs()))
    app.register_theme(Theme(**spec.textual_kwargs()))
    app.theme = spec.name
    heed_no_color(app)


def heed_no_color(app: App[Any]) -> None:
    """With NO_COLOR, have the filter that suits the theme: to be called whenever that changes.

    Textual chooses one before the app has its theme. The one for truecolour themes takes the
    terminal's own colours for black, all of them: nothing could be seen.
    """
    if app.no_color:
        filters = [one for one in app._filters if not isinstance(one, Monochrome | NoColor)]
        app._filters = [*filters, NoColor() if app.native_ansi_color else Monochrome()]
