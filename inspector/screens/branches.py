"""The list of branches from which one is chosen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from engine.text import visible
from inspector.draw.numbers import plural
from inspector.screens.dialog import Dialog
from inspector.state.comparing import label
from inspector.state.view import View


class BranchMenu(Dialog[int]):
    """Asks for one of the branches that end at ``tips``; answers with its end."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "close", "Close", id="branches.close", tooltip="Compare nothing")
    ]

    def __init__(self, view: View, tips: Sequence[int]) -> None:
        super().__init__(Content("Compare this branch with"))
        self._view = view
        self._tips = tips

    def body(self) -> Iterable[Widget]:
        yield OptionList(*map(self._option, self._tips), id="choices", compact=True)

    def _option(self, tip: int) -> Option:
        log = self._view.log
        here = log.tip(self._view.cursor, self._view.visited)
        parted, length = log.tree.common(tip, here) or 0, log.tree.depth(tip) or 0
        own = plural(length - parted, "token")
        return Option(Content(visible(f"{label(log, tip, here)}  {own} of its own, to node {tip}")))

    @on(OptionList.OptionSelected)
    def _selected(self, message: OptionList.OptionSelected) -> None:
        self.dismiss(self._tips[message.option_index])
