"""The keys for sessions: name, export, look at others, and ask before what is not kept.

What only a key needs is imported when it is pressed: the first screen must be up at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from textual.content import Content

from inspector.actions.host import Host
from inspector.actions.keeping import Keeping
from inspector.background import Background
from inspector.screens.session_asks import ComparisonExportMenu, ExportMenu, QuitMenu, SaveAsk
from inspector.state.comparison import Comparison
from inspector.state.recorder import records_of
from sessions.file.format import SUFFIX, SessionError
from sessions.library import Library, words_of


class Sessions:
    """Opens the dialogs about sessions. ``replayed``: the session on screen, if it is one."""

    def __init__(
        self, host: Host, keeping: Keeping, library: Library | None, replayed: str = ""
    ) -> None:
        self._host = host
        self._keeping = keeping
        self._library = library or Library()
        self._replayed = replayed
        self.exports = Background("export")

    async def save(self) -> None:
        """Give the session a name; begin one where the run was not kept."""
        host, recorder, log = self._host, self._keeping.recorder, self._host.controller.log
        if recorder is None:
            host.say(f"this recording is kept already: {self._replayed}")
            return
        if not log.nodes:
            host.say("there is nothing to save yet: n draws the first token", warn=True)
            return
        now = str(recorder.path) if recorder.path and self._keeping.kept else ""
        name = await host.ask(SaveAsk(now))
        if name is None:
            return
        try:
            path = place_of(name, self._library)
        except SessionError as error:
            host.say(str(error), warn=True)
            return
        if recorder.path is not None and self._keeping.kept:
            recorder.move(path)
        else:
            recorder.begin(path, records_of(log))

    async def export(self, comparison: Comparison | None) -> None:
        """Ask for a form, and write the run in it to the folder that the program was started in.

        ``comparison``: the one on screen, which is then what is written.
        """
        host, controller = self._host, self._host.controller
        if controller.log.prompt is None:
            host.say("there is nothing to export yet", warn=True)
            return
        form = await host.ask(ExportMenu() if comparison is None else ComparisonExportMenu())
        if form == "svg":
            self._picture(await host.picture())
        elif form is not None and comparison is not None:
            self._columns(comparison, form)
        elif form is not None:
            self._run(form)

    def _run(self, form: str) -> None:
        from sessions.export.formats import write
        from sessions.export.source import Source

        controller = self._host.controller
        tip = controller.view.ahead
        node = tip[-1].node if tip else controller.cursor.node
        source = Source.of_log(controller.log, node, self._replayed)
        path = free_path(self._stem, form)
        self.exports.submit(partial(self._written, partial(write, source, path, form), path))

    def _columns(self, comparison: Comparison, form: str) -> None:
        from sessions.compare.compared import compared
        from sessions.compare.compared_table import pieces
        from sessions.export.formats import write_pieces
        from sessions.export.source import Source

        source = Source.of_log(comparison.log, comparison.column.tip, self._replayed)
        # As they are now: they may go on meanwhile.
        columns = [(one.state(at), one.tip) for at, one in enumerate(comparison.columns, 1)]
        path = free_path(f"{self._stem}-columns", form)

        def write() -> None:
            write_pieces(pieces(compared(source, columns), form), path)

        self.exports.submit(partial(self._written, write, path))

    def _written(self, write: Callable[[], None], path: Path) -> None:
        """In a thread: a long run takes its time."""
        try:
            write()
        except SessionError as error:
            self._host.call_later(partial(self._host.say, str(error), warn=True))
        else:
            self._host.call_later(self._host.say, f"exported to {path}")

    def _picture(self, svg: str) -> None:
        path = free_path(self._stem, "svg")
        try:
            path.write_text(svg, "utf-8")
        except OSError as error:
            self._host.say(f"{path} cannot be written: {error.strerror}", warn=True)
        else:
            self._host.say(f"exported to {path}")

    @property
    def _stem(self) -> str:
        recorder = self._keeping.recorder
        kept = recorder.path if recorder is not None else None
        if kept is not None or self._replayed:
            return kept.stem if kept is not None else Path(self._replayed).stem
        prompt = self._host.controller.log.prompt
        return words_of(prompt.text if prompt else "") or "run"

    def copy(self) -> None:
        """Copy the cursor's branch, from the prompt to its end, to the terminal's clipboard."""
        from sessions.export.words import output_text

        view = self._host.controller.view
        if view.prompt is None:
            self._host.say("there is nothing to copy yet", warn=True)
            return
        self._host.copy_to_clipboard(view.prompt.text + output_text(view.branch))
        self._host.say("this branch's text is in the clipboard, if the terminal allows that")

    async def browse(self) -> None:
        """Look at the sessions there are; one that is chosen is opened in this run's place."""
        from inspector.screens.sessions import SessionsScreen

        recorder = self._keeping.recorder
        now = recorder.path if recorder is not None else None
        path = await self._host.ask(SessionsScreen(self._library, now))
        if path is not None:
            await self.leave(path)

    async def leave(self, next_session: Path | None = None) -> None:
        """End, or open a session in this run's place; ask first where something would be lost."""
        if not self._keeping.kept and not isinstance(self._host.screen, QuitMenu):
            title = Content("This run is kept nowhere")
            answer = await self._host.ask(QuitMenu(title, self._keeping.error))
            if answer == "save":
                await self.save()
            if answer != "quit":
                return
        self._host.end(next_session)


def place_of(name: str, library: Library) -> Path:
    """The path of a session of that name: a path as it stands, a name in the library."""
    if os.sep in name or name.startswith("~"):
        path = Path(name).expanduser()
        return path if path.suffix == SUFFIX else path.with_name(path.name + SUFFIX)
    return library.named_path(name)


def free_path(stem: str, form: str) -> Path:
    """A file of that form in the current folder, whose name nobody has."""
    folder = Path.cwd()
    path, number = folder / f"{stem}.{form}", 1
    while path.exists():
        number += 1
        path = folder / f"{stem}-{number}.{form}"
    return path
