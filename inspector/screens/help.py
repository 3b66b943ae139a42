"""The help: a page of sections that can be searched, with the keys as they are bound now."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Size
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input

from inspector.draw.cells import left
from inspector.draw.numbers import cut, heading, muted
from inspector.help_text import MARKS, SYNONYMS, TOPICS
from inspector.live_keys import LiveKey
from inspector.modal import is_closed
from inspector.widgets.footer import Footer
from inspector.widgets.one_line import OneLine

_KEYS, _NAME = 12, 18
_WIDE = 64
"""Cells from which a key, its name and what it does stand on one line."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a section; ``words`` are looked through too, but not shown."""

    sign: str
    name: str
    what: str = ""
    words: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page: its text, and what belongs to it line by line."""

    title: str
    text: str
    entries: tuple[Entry, ...] = ()


def sections(
    keys: Mapping[str, LiveKey], panes: Sequence[tuple[str, str]], here: str = ""
) -> list[Section]:
    """The whole page. ``panes`` are names and texts; the one named ``here`` comes first."""
    parts = [Section(f"Here: {name}", text) for name, text in panes if name == here]
    for topic in TOPICS:
        ids = [one for one in topic.ids if one in keys]
        parts.append(Section(topic.title, topic.text, tuple(_entry(keys[one]) for one in ids)))
    told = {one for topic in TOPICS for one in topic.ids}
    others = tuple(_entry(key) for key in keys.values() if key.id not in told)
    if others:
        parts.append(Section("Other keys", "", others))
    marks = tuple(Entry(sign, "", meaning) for sign, meaning in MARKS)
    parts.append(Section("Marks", "No mark stands for a colour alone.", marks))
    parts += [Section(f"Pane: {name}", text) for name, text in panes if name != here]
    return parts


def _entry(key: LiveKey) -> Entry:
    return Entry(" ".join(key.keys), key.name, key.what, f"{key.id} {SYNONYMS.get(key.id, '')}")


def found(parts: Iterable[Section], query: str) -> list[Section]:
    """The parts with all words of ``query``: whole sections by their title, else single lines."""
    words = query.casefold().split()

    def holds(*texts: str) -> bool:
        text = " ".join(texts).casefold()
        return all(word in text for word in words)

    left_over = []
    for part in parts:
        if holds(part.title):
            left_over.append(part)
            continue
        text = part.text if holds(part.title, part.text) else ""
        entries = tuple(
            one
            for one in part.entries
            if holds(part.title, one.sign, one.name, one.what, one.words)
        )
        if text or entries:
            left_over.append(Section(part.title, text, entries))
    return left_over


def styled(text: str) -> Content:
    """``**keys**`` and ``*words*`` of a help text, bold and italic."""
    parts: list[tuple[str, str]] = []
    for piece in re.split(r"(\*\*.+?\*\*|\*[^*\s][^*]*?\*)", text.replace("\\*", "\0")):
        marks = 2 if piece.startswith("**") else 1 if piece.startswith("*") else 0
        style = ("", "italic", "bold")[marks]
        parts.append((piece[marks : len(piece) - marks].replace("\0", "*"), style))
    return Content.assemble(*parts)


def help_lines(parts: Iterable[Section], width: int) -> tuple[list[Content], list[int]]:
    """The page in lines of at most ``width`` cells, and the lines that sections begin at."""
    lines: list[Content] = []
    starts = []
    for part in parts:
        if lines:
            lines.append(Content(""))
        starts.append(len(lines))
        lines.append(heading(part.title, width))
        for paragraph in re.split(r"\n\s*\n", part.text.strip()):
            if paragraph:
                lines += styled(" ".join(paragraph.split())).wrap(max(8, width))
        for entry in part.entries:
            lines += _entry_lines(entry, width)
    return [cut(line, width) for line in lines], starts


def _entry_lines(entry: Entry, width: int) -> list[Content]:
    indent = _KEYS + (_NAME if entry.name else 0)
    head = Content.assemble((left(entry.sign, _KEYS), "bold"), entry.name)
    if width < _WIDE:
        below = muted(entry.what).wrap(max(8, width - 2)) if entry.what else []
        return [head, *(line.pad_left(2) for line in below)]
    what = muted(entry.what).wrap(max(8, width - indent)) if entry.what else [Content("")]
    first = head.pad_right(max(0, indent - head.cell_length)) + what[0]
    return [first, *(line.pad_left(indent) for line in what[1:])]


class _Page(Widget):
    """The lines, made anew for the width there is."""

    DEFAULT_CSS = "_Page { height: auto; }"

    def __init__(self, parts: list[Section]) -> None:
        super().__init__()
        self.parts = parts
        self.starts: list[int] = []
        # Asked for twice, for the height and to be drawn: what they were made of last.
        self._made: tuple[int, list[Section], list[Content]] = (0, [], [])

    def _lines(self, width: int) -> list[Content]:
        made_at, parts, lines = self._made
        if made_at != width or parts is not self.parts:
            lines, self.starts = help_lines(self.parts, width)
            self._made = width, self.parts, lines
        return lines or [muted("nothing here holds that: escape shows all again")]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._lines(width))

    def render(self) -> Content:
        return Content("\n").join(self._lines(self.content_size.width))


class HelpScreen(ModalScreen[None]):
    """The page. It is read like a pager's: scroll, search, leave."""

    DEFAULT_CSS = """
    HelpScreen { background: $background; }
    HelpScreen #page {
        border: round $primary; border-title-color: $title-active; border-title-style: bold;
        border-subtitle-color: $title;
        background: $background; padding: 0 1; height: 1fr; scrollbar-size-vertical: 1;
    }
    HelpScreen Input { display: none; height: 3; border: round $primary; background: $background; }
    HelpScreen Input.-open { display: block; }
    HelpScreen Input:focus { border: round $primary; background-tint: $foreground 0%; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "Search", id="help.search", tooltip="In keys and texts"),
        Binding("n", "section(1)", "Next section", id="help.next"),
        Binding("p", "section(-1)", "Section before", id="help.before"),
        Binding("tab", "section(1)", "Next section", show=False, id="help.tab"),
        Binding("shift+tab", "section(-1)", "Section before", show=False, id="help.shift-tab"),
        Binding("j,down", "lines(1)", "Down", show=False, id="help.down"),
        Binding("k,up", "lines(-1)", "Up", show=False, id="help.up"),
        Binding("q,question_mark,escape", "leave", "Close", id="help.close"),
    ]

    def __init__(self, parts: list[Section]) -> None:
        super().__init__()
        self._parts = parts

    def compose(self) -> ComposeResult:
        search = OneLine(id="search", placeholder="a key, a name, or what you want to do")
        search.border_title = "Search"
        yield search
        with VerticalScroll(id="page") as box:
            box.border_title = "Help"
            yield _Page(self._parts)
        yield Footer()

    def on_mount(self) -> None:
        if not is_closed(self):
            self.query_one("#page").focus()

    @property
    def _query(self) -> str:
        return self.query_one(Input).value.strip()

    def action_search(self) -> None:
        box = self.query_one(Input)
        box.add_class("-open")
        box.focus()

    @on(Input.Changed)
    def _typed(self) -> None:
        page = self.query_one(_Page)
        page.parts = found(self._parts, self._query) if self._query else self._parts
        page.refresh(layout=True)
        self.query_one("#page").scroll_to(y=0, animate=False)

    @on(Input.Submitted)
    def _searched(self) -> None:
        self.query_one("#page").focus()

    def action_lines(self, by: int) -> None:
        box = self.query_one("#page")
        box.scroll_to(y=box.scroll_offset.y + by, animate=False)

    def action_section(self, by: int) -> None:
        box, starts = self.query_one("#page"), self.query_one(_Page).starts
        at = box.scroll_offset.y
        ahead = [start for start in starts if start > at]
        before = [start for start in starts if start < at]
        wanted = ahead[:1] if by > 0 else before[-1:]
        if wanted:
            box.scroll_to(y=wanted[0], animate=False)

    def action_leave(self) -> None:
        """Out of the search, and then out of the page."""
        search = self.query_one(Input)
        if search.has_class("-open"):
            search.value = ""
            search.remove_class("-open")
            self.query_one("#page").focus()
        else:
            self.dismiss()
