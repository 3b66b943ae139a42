"""Giving an app its theme, and what NO_COLOR makes of that."""

from __future__ import annotations

from typing import Any

from textual.app import App
from textual.filter import Monochrome, NoColor
from textual.theme import Theme

import themes


def use_theme(app: App[Any], wanted: str) -> None:
    """Register all themes and use ``wanted``. Raises ThemeError."""
    spec = themes.resolve(wanted)
    for name in themes.names():
        app.register_theme(Theme(**themes.load(name).textual_kwargs()))
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
