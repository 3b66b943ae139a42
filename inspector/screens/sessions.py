"""The session browser: list, search, preview, open, rename, compare, delete with undo."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from engine.text import visible
from inspector.background import Background
from inspector.draw.numbers import plural
from inspector.modal import is_closed
from inspector.screens.session_asks import NewNameAsk
from inspector.screens.session_rows import LEGEND, by_day, day_row, session_row
from inspector.screens.text import TextScreen
from inspector.widgets.footer import Footer
from inspector.widgets.one_line import OneLine
from sessions.compare import text as diff_text
from sessions.compare.diff import diff, side_of
from sessions.file.format import SessionError
from sessions.library import Deleted, Library
from sessions.preview import Preview
from sessions.reader import open_session

_OUTPUT_SHOWN = 80
"""Tokens of a session's output in its preview."""


class SessionList(OptionList):
    """The rows. Enter opens one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "select", "Open", id="sessions.open", tooltip="Replay this session")
    ]


class SessionsScreen(ModalScreen[Path | None]):
    """All sessions of a library. Answers with the one to open."""

    DEFAULT_CSS = """
    SessionsScreen { background: $background; }
    SessionsScreen Input, SessionsScreen #list, SessionsScreen #preview {
        border: round $border-blurred; border-title-color: $title; background: $background;
    }
    SessionsScreen Input { height: 3; display: none; }
    SessionsScreen Input.-open { display: block; }
    SessionsScreen #list {
        height: 1fr; padding: 0 1; scrollbar-gutter: stable; scrollbar-size-vertical: 1;
    }
    SessionsScreen #preview { height: 40%; max-height: 12; padding: 0 1; }
    SessionsScreen Input:focus, SessionsScreen #list:focus {
        border: round $primary; border-title-color: $title-active; border-title-style: bold;
        background-tint: $foreground 0%;
    }
    SessionsScreen #said { height: 1; padding: 0 2; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "Search", id="sessions.search", tooltip="In names and texts"),
        Binding("r", "rename", "Rename", id="sessions.rename"),
        Binding("d,delete", "delete", "Delete", id="sessions.delete", tooltip="u brings it back"),
        Binding("u", "undo", "Undo", id="sessions.undo", tooltip="Bring back what was deleted"),
        Binding(
            "space", "mark", "Mark", id="sessions.mark", tooltip="To compare another one with it"
        ),
        Binding(
            "c", "compare", "Compare", id="sessions.compare", tooltip="With the one that is marked"
        ),
        Binding("q,o,escape", "leave", "Close", id="sessions.close", tooltip="Back, one step"),
    ]

    @dataclass
    class Found(Message):
        """The list, from the thread that looked through the files."""

        previews: list[Preview]

    @dataclass
    class Read(Message):
        """The contents of a session, in lines; or a comparison with ``title``."""

        lines: list[str]
        title: str = ""

    def __init__(self, library: Library, current: Path | None = None) -> None:
        """``current`` is being written now, so that it stays where it is."""
        super().__init__()
        self._library = library
        self._current = current
        self._previews: list[Preview] = []
        self._marked: Path | None = None
        self._deleted: list[Deleted] = []
        self._lister = Background("sessions-list")
        self.reader = Background("sessions-reader")

    def compose(self) -> ComposeResult:
        with Vertical():
            search = OneLine(id="search", placeholder="in names, prompts and outputs")
            search.border_title = "Search"
            yield search
            listed = SessionList(id="list")
            listed.border_title = "Sessions"
            listed.border_subtitle = LEGEND
            yield listed
            yield Static(id="preview")
            yield Static(id="said")
        yield Footer()

    def on_mount(self) -> None:
        if is_closed(self):
            return
        self.query_one("#preview").border_title = "Preview"
        self.query_one(OptionList).focus()
        self.look()

    def on_unmount(self) -> None:
        self._lister.close()
        self.reader.close()

    # --- the list ---------------------------------------------------------------------------------

    def look(self) -> None:
        words, library = self.query_one(Input).value.strip(), self._library

        def work() -> None:
            found = library.search(words) if words else library.previews()
            self.post_message(self.Found(found))

        self._lister.submit(work)

    @on(Found)
    def _found(self, message: Found) -> None:
        chosen = self.chosen
        self._previews = message.previews
        self._list(chosen.path if chosen else None)
        if not self._previews:
            searched = self.query_one(Input).value.strip()
            self._show(["no session holds that" if searched else "no sessions yet: runs are kept"])

    def on_resize(self) -> None:
        if is_closed(self):
            return
        chosen = self.chosen
        self._list(chosen.path if chosen else None)

    def _list(self, chosen: Path | None) -> None:
        listed = self.query_one(OptionList)
        width = listed.scrollable_content_region.width
        listed.clear_options()
        options: list[Option] = []
        rows: dict[Path, int] = {}
        for day, places in by_day(self._previews, datetime.now().date()):
            options.append(Option(day_row(day, width), disabled=True))
            for at in places:
                rows[self._previews[at].path] = len(options)
                options.append(Option(self._line(self._previews[at], width), id=str(at)))
        listed.add_options(options)
        if rows:
            first = next(iter(rows.values()))
            listed.highlighted = rows.get(chosen, first) if chosen is not None else first

    def _line(self, one: Preview, width: int) -> Content:
        autosaved = one.path.parent == self._library.autosaves
        return session_row(one, width, marked=one.path == self._marked, autosaved=autosaved)

    @property
    def chosen(self) -> Preview | None:
        listed = self.query_one(OptionList)
        at = listed.highlighted
        option = listed.get_option_at_index(at) if at is not None else None
        return self._previews[int(option.id)] if option is not None and option.id else None

    @on(OptionList.OptionHighlighted)
    def _highlighted(self) -> None:
        chosen = self.chosen
        if chosen is not None:
            self._later(lambda: self.Read(list(glance(chosen))))

    def _later(self, read: Callable[[], Message]) -> None:
        def work() -> None:
            self.post_message(read())

        self.reader.submit(work)

    @on(Read)
    def _read(self, message: Read) -> None:
        if message.title:
            self.app.push_screen(TextScreen(message.title, message.lines))
        else:
            self._show(message.lines)

    def _show(self, lines: Iterable[str]) -> None:
        self.query_one("#preview", Static).update(Content("\n".join(lines)))

    def _say(self, line: str, style: str = "") -> None:
        self.query_one("#said", Static).update(Content.styled(visible(line), style))

    # --- keys -------------------------------------------------------------------------------------

    @on(OptionList.OptionSelected)
    def open_chosen(self) -> None:
        chosen = self.chosen
        if chosen is None:
            return
        if chosen.error or chosen.path == self._current:
            self._say(chosen.error or "this is the run on screen", "$warning")
            return
        self.dismiss(chosen.path)

    def action_search(self) -> None:
        box = self.query_one(Input)
        box.add_class("-open")
        box.focus()

    @on(Input.Changed)
    def _typed(self) -> None:
        self.look()

    @on(Input.Submitted)
    def _searched(self) -> None:
        self.query_one(OptionList).focus()

    def action_rename(self) -> None:
        chosen = self.chosen
        if chosen is None:
            return

        def named(name: str | None) -> None:
            if name is not None:
                self._try(partial(self._rename, chosen.path, name))

        title = Content(f"Rename {visible(chosen.name)}")
        self.app.push_screen(NewNameAsk(title, visible(chosen.name)), named)

    def _rename(self, path: Path, name: str) -> str:
        self._refuse_current(path)
        return f"renamed to {self._library.rename(path, name).stem}"

    def action_delete(self) -> None:
        chosen = self.chosen
        if chosen is not None:
            self._try(partial(self._delete, chosen.path))

    def _delete(self, path: Path) -> str:
        self._refuse_current(path)
        self._deleted.append(self._library.delete(path))
        return f"{path.stem} is in the trash for 30 days: u brings it back"

    def action_undo(self) -> None:
        if self._deleted:
            self._try(lambda: f"{self._library.undo(self._deleted.pop()).stem} is back")
        else:
            self._say("nothing was deleted here", "$warning")

    def _refuse_current(self, path: Path) -> None:
        if path == self._current:
            raise SessionError("this is the run on screen: w there gives it another name")

    def _try(self, act: Callable[[], str]) -> None:
        try:
            self._say(act())
        except SessionError as error:
            self._say(str(error), "$error")
        self.look()

    def action_mark(self) -> None:
        """Mark the chosen session; or take its mark away."""
        chosen = self.chosen
        if chosen is not None:
            self._marked = None if self._marked == chosen.path else chosen.path
            self._list(chosen.path)

    def action_compare(self) -> None:
        chosen, marked = self.chosen, self._marked
        if chosen is None or marked is None or chosen.path == marked:
            self._say("mark one session with space, then choose another one", "$warning")
            return
        self._later(lambda: self._compared(marked, chosen.path))

    def _compared(self, a: Path, b: Path) -> SessionsScreen.Read:
        try:
            with open_session(a) as one, open_session(b) as other:
                lines = list(diff_text.lines(diff(side_of(one), side_of(other))))
        except SessionError as error:
            lines = [visible(str(error))]
        return self.Read(lines, "Comparison")

    def action_leave(self) -> None:
        """Out of the search; out of the screen where that has been left already."""
        box = self.query_one(Input)
        if box.has_class("-open"):
            box.value = ""
            box.remove_class("-open")
            self.query_one(OptionList).focus()
        else:
            self.dismiss(None)


def glance(one: Preview) -> Iterable[str]:
    """A session in a few lines: what it is, and its text. Read in a thread."""
    if one.error:
        yield visible(one.error)
        return
    how = f" · {one.state}" if one.state else ""
    created = one.created[:16].replace("T", " ")
    tokens = plural(one.steps, "token") + (f" ({one.deleted:,} deleted)" if one.deleted else "")
    yield visible(f"{one.model or '—'} · {tokens} · begun {created} UTC{how}")
    yield f"{visible(str(one.path))} · {one.size / 1000:,.0f} kB •"
    yield ""
    yield visible(one.prompt)
    try:
        with open_session(one.path) as session:
            nodes = session.path_nodes(session.tip)[:_OUTPUT_SHOWN]
            output = b"".join(session.steps[node].token.bytes for node in nodes)
            yield "→ " + visible(output.decode("utf-8", "replace"))
    except SessionError as error:
        yield visible(str(error))
