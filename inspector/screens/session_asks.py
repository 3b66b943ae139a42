"""Small windows about the session: what to call it, how to export it, whether to leave it."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from engine.text import visible
from inspector.draw.numbers import plural
from inspector.screens.dialog import Ask, Menu
from sessions.preview import Preview


class SaveAsk(Ask[str]):
    """Asks for the session's name."""

    OK: ClassVar[str] = "Save"

    def __init__(self, now: str) -> None:
        """``now``: where it is being kept; empty where it is not."""
        where = f"kept now as {visible(now)}" if now else "not kept so far"
        super().__init__(Content("Save as"), "", f"a name, or a path such as ./run · {where}")

    def understand(self, text: str) -> str:
        return _name(text)


class NewNameAsk(Ask[str]):
    """Asks for another name of a session."""

    OK: ClassVar[str] = "Rename"

    def understand(self, text: str) -> str:
        return _name(text)


def _name(text: str) -> str:
    name = text.strip()
    if not name:
        raise ValueError("give a name: letters or digits")
    return name


def _forms(html: str, markdown: str, jsonl: str, csv: str) -> list[BindingType]:
    """Keys of the forms of an export, by what each holds."""
    return [
        Binding("h", "choose('html')", f"HTML, {html}", id="export.html"),
        Binding("m", "choose('md')", f"Markdown {markdown}", id="export.md"),
        Binding("j", "choose('jsonl')", f"JSONL, {jsonl}", id="export.jsonl"),
        Binding("c", "choose('csv')", f"CSV, {csv}", id="export.csv"),
        Binding("s", "choose('svg')", "SVG picture of the screen", id="export.svg"),
    ]


class ExportMenu(Menu):
    """Asks for the form of an export."""

    BINDINGS: ClassVar[list[BindingType]] = _forms(
        "one file to look at in a browser",
        "report",
        "one object a step",
        "the figures of every step",
    )

    def __init__(self) -> None:
        super().__init__(Content("Export this run as"))


class ComparisonExportMenu(Menu):
    """Asks for the form of a comparison's export."""

    BINDINGS: ClassVar[list[BindingType]] = _forms(
        "the columns side by side", "tables", "one object a column", "a row a column"
    )

    def __init__(self) -> None:
        super().__init__(Content("Export these columns as"))


class InterruptedMenu(Menu):
    """Asks what is to become of a run that a crash, or a kill, has interrupted."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("o", "choose('open')", "Open it", id="interrupted.open"),
        Binding("k", "choose('keep')", "Keep it in the list", id="interrupted.keep"),
        Binding("d", "choose('discard')", "Discard it", id="interrupted.discard"),
    ]

    def __init__(self, run: Preview, others: int) -> None:
        """``others``: how many more there are, which are only in the list."""
        super().__init__(
            Content("A run was interrupted"),
            {
                "open": Content(
                    visible(f"{run.name}: {plural(run.steps, 'token')} of {run.model or '—'}")
                ),
                "keep": Content(f"with {others:,} more like it" if others else ""),
                "discard": Content("to the trash, for 30 days"),
            },
        )


class QuitMenu(Menu):
    """Asks before a run is left that no file holds."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("w", "choose('save')", "Save it", id="quit.save"),
        Binding("d", "choose('quit')", "Discard it, and quit", id="quit.discard"),
    ]

    def __init__(self, title: Content, reason: str) -> None:
        said = {"save": Content.styled(visible(reason), "$warning")} if reason else {}
        super().__init__(title, said)
