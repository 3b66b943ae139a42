"""The key for the help: what the page is made of."""

from __future__ import annotations

from collections.abc import Mapping

from textual.binding import BindingType

from inspector.actions.host import Host
from inspector.help_text import PANES as TEXTS
from inspector.live_keys import live_keys
from inspector.panes.registry import DIALS_SPEC, PANES
from inspector.screens.compare.column import ColumnPane
from inspector.screens.compare.keys import KEYS
from inspector.screens.compare.sweep import PlotsPane
from inspector.screens.compare.table import FiguresPane
from inspector.screens.compare.why import WhyPane
from inspector.screens.debugger import DebuggerScreen
from inspector.screens.help import HelpScreen, sections
from inspector.widgets.line_view import Pane

SPECS = [*PANES, DIALS_SPEC]
GROUPS: list[list[BindingType]] = [
    DebuggerScreen.BINDINGS,
    Pane.BINDINGS,
    *(spec.pane.BINDINGS for spec in SPECS),
    [*KEYS],
]
"""The keys that the app does not have itself."""


async def show_help(host: Host, bindings: list[BindingType], keymap: Mapping[str, str]) -> None:
    """Open the page; ``bindings`` are the app's own, ``keymap`` what the user has changed."""
    focused = host.focused
    here = focused.NAME if isinstance(focused, Pane) else ""
    texts = [(spec.pane.NAME, spec.pane.HELP or TEXTS.get(spec.name, "")) for spec in SPECS]
    texts += [(pane.NAME, pane.HELP) for pane in (ColumnPane, WhyPane, FiguresPane, PlotsPane)]
    keys = live_keys(host.app, [bindings, *GROUPS], keymap)
    await host.ask(HelpScreen(sections(keys, texts, here)))
