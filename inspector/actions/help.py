"""The key for the help: what the page is made of."""

from __future__ import annotations

from collections.abc import Mapping

from textual.binding import BindingType

from inspector.actions.host import Host
from inspector.help_text import PANES as TEXTS
from inspector.live_keys import live_keys
from inspector.panes.dials.pane import DialsPane
from inspector.panes.registry import PANES
from inspector.screens.debugger import DebuggerScreen
from inspector.screens.help import HelpScreen, sections
from inspector.widgets.line_view import Pane

CLASSES: list[type[Pane]] = [*(pane for _, pane in PANES), DialsPane]
GROUPS = [DebuggerScreen.BINDINGS, Pane.BINDINGS, *(one.BINDINGS for one in CLASSES)]
"""The keys that the app does not have itself."""


async def show_help(host: Host, bindings: list[BindingType], keymap: Mapping[str, str]) -> None:
    """Open the page; ``bindings`` are the app's own, ``keymap`` what the user has changed."""
    names = [*(name for name, _ in PANES), "dials"]
    focused = host.focused
    here = focused.NAME if isinstance(focused, Pane) else ""
    texts = [
        (pane.NAME, pane.HELP or TEXTS.get(name, ""))
        for name, pane in zip(names, CLASSES, strict=True)
    ]
    keys = live_keys(host.app, [bindings, *GROUPS], keymap)
    await host.ask(HelpScreen(sections(keys, texts, here)))
