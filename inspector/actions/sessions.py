"""The app's keys for sessions: name, export, look at others, and ask before what is not kept."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.binding import BindingType
from textual.content import Content
from textual.message import Message

from engine.commands import Command, SendLogits, SendVocabulary
from engine.records.events import BreakpointsSet, DenseLogits, Record
from engine.records.prompt import PromptRecord
from engine.records.step import StepRecord
from inspector.actions.recover import RecoveringApp
from inspector.background import Background
from inspector.keys import SESSIONS
from inspector.screens.dialog import Dialog
from inspector.screens.session_asks import ExportMenu, QuitMenu, SaveAsk
from inspector.screens.sessions import SessionsScreen
from inspector.screens.text import TextScreen
from inspector.state.comparing import branches_beside
from inspector.state.controller import Controller
from inspector.state.recorder import Recorder, records_of
from sessions.compare import text as diff_text
from sessions.compare.diff import diff
from sessions.export.formats import write
from sessions.export.source import Source
from sessions.file.format import SUFFIX, SessionError
from sessions.library import Library, file_name


class SavingApp(RecoveringApp):
    """Has a recorder keep the run, and opens the dialogs about sessions."""

    BINDINGS: ClassVar[list[BindingType]] = list(SESSIONS)

    controller: Controller
    recorder: Recorder | None = None
    """Keeps the run; None where there is none to keep."""
    session_name = ""
    """Name of a replayed session."""
    next_session: Path | None = None
    """A session to open once this app has ended."""
    damage = ""
    """The reason for which the app had to end: rows of the session contradict each other."""
    _kept_breakpoints = BreakpointsSet()

    class Said(Message):
        """A line from another thread."""

        def __init__(self, line: str, *, warn: bool = False) -> None:
            super().__init__()
            self.line = line
            self.warn = warn

    def paint(self) -> None:
        """Show the run as it is now."""
        raise NotImplementedError

    def send(self, command: Command) -> None:
        """Ask the engine."""
        raise NotImplementedError

    @on(Said)
    def _said(self, message: Said) -> None:
        self.say(message.line, warn=message.warn)
        self.tell_saved()

    # --- keeping ----------------------------------------------------------------------------------

    def begin_keeping(self) -> None:
        """Listen to the recorder, and look for a run that a crash left behind."""
        self._exports = Background("export")
        if self.recorder is not None:
            self.recorder.changed = self._recorder_changed
        if self.library is not None:
            self._exports.submit(self.look_for_interrupted)

    def keep(self, records: list[Record]) -> list[Record]:
        """Have records kept. Returns those that the screen has a use for."""
        recorder = self.recorder
        if recorder is None:
            return records
        recorder.add(records)
        if recorder.full_logits:
            for record in records:
                if isinstance(record, PromptRecord):
                    self.send(SendVocabulary())
                elif isinstance(record, StepRecord):
                    self.send(SendLogits(record.node))
        cursor = self.controller.cursor
        # Whole logits that were asked for only to be kept would take those away that are looked at.
        made = {record.node for record in records if isinstance(record, StepRecord)}
        return [
            one
            for one in records
            if not isinstance(one, DenseLogits) or one.node == cursor or one.node in made
        ]

    def keep_breakpoints(self) -> None:
        """Have the breakpoints and watches kept: a change at once, counts when the run stands."""
        now, kept = self.controller.breakpoints.record, self._kept_breakpoints
        if self.recorder is None or now == kept:
            return
        if _defined(now) != _defined(kept) or not self.controller.busy:
            self._kept_breakpoints = now
            self.recorder.add([now])

    def _recorder_changed(self) -> None:
        self.post_message(self.Said(""))

    def end_keeping(self) -> None:
        """Finish the file."""
        if self.recorder is not None:
            self.keep_breakpoints()
            self.recorder.close()

    def tell_saved(self) -> None:
        """Show what the recorder has to say, and mark a run that is not being kept."""
        if self.recorder is None:
            return
        for line in self.recorder.take_news():
            self.say(line, warn=bool(self.recorder.error))
        if self.controller.log.unsaved != self.recorder.error:
            self.controller.log.unsaved = self.recorder.error
            self.paint()

    @property
    def _kept(self) -> bool:
        """True if all there is lies in a file, or there is nothing."""
        log, recorder = self.controller.log, self.recorder
        if recorder is None or not log.nodes:
            return True
        return recorder.wanted and not recorder.error

    # --- keys -------------------------------------------------------------------------------------

    def action_save(self) -> None:
        """Give the session a name; begin one where the run was not kept."""
        recorder, library = self.recorder, self.library or Library()
        if recorder is None:
            self.say(f"this recording is kept already: {self.session_name}")
            return

        def named(name: str | None) -> None:
            if name is None:
                return
            try:
                path = place_of(name, library)
            except SessionError as error:
                self.say(str(error), warn=True)
                return
            if recorder.path is not None and self._kept:
                recorder.move(path)
            else:
                recorder.begin(path, records_of(self.controller.log))

        if not self.controller.log.nodes:
            self.say("there is nothing to save yet: n draws the first token", warn=True)
        else:
            now = str(recorder.path) if recorder.path and self._kept else ""
            self.push_screen(SaveAsk(now), named)

    def action_export(self) -> None:
        """Ask for a form, and write the run in it to the folder that the program was started in."""
        log = self.controller.log
        if log.prompt is None:
            self.say("there is nothing to export yet", warn=True)
            return

        def chosen(form: str | None) -> None:
            if form == "svg":
                # Without the menu in it.
                self.call_after_refresh(self._picture)
            elif form is not None:
                tip = self.controller.view.ahead
                node = tip[-1].node if tip else self.controller.cursor
                self._export(Source.of_log(log, node, self.session_name), form)

        self.push_screen(ExportMenu(), chosen)

    def _export(self, source: Source, form: str) -> None:
        path = free_path(self._stem, form)

        def work() -> None:
            try:
                write(source, path, form)
            except SessionError as error:
                self.post_message(self.Said(str(error), warn=True))
            else:
                self.post_message(self.Said(f"exported to {path}"))

        self._exports.submit(work)

    def _picture(self) -> None:
        path = free_path(self._stem, "svg")
        try:
            path.write_text(self.export_screenshot(), "utf-8")
        except OSError as error:
            self.say(f"{path} cannot be written: {error.strerror}", warn=True)
        else:
            self.say(f"exported to {path}")

    @property
    def _stem(self) -> str:
        kept = self.recorder.path if self.recorder is not None else None
        if kept is not None or self.session_name:
            return kept.stem if kept is not None else Path(self.session_name).stem
        prompt = self.controller.log.prompt
        try:
            return file_name(prompt.text[:40] if prompt else "")
        except SessionError:
            return "run"

    def action_compare_branches(self) -> None:
        """Show what differs between this branch and the next one at the nearest fork above."""
        sides = branches_beside(self.controller.view)
        if sides is None:
            self.say("there is no fork above: f makes one", warn=True)
        else:
            self.push_screen(TextScreen("Two branches", diff_text.lines(diff(*sides))))

    def action_sessions(self) -> None:
        """Look at the sessions there are; one that is chosen is opened in this run's place."""
        now = self.recorder.path if self.recorder is not None else None

        def chosen(path: Path | None) -> None:
            if path is not None:
                self.open_instead(path)

        self.push_screen(SessionsScreen(self.library or Library(), now), chosen)

    def open_instead(self, path: Path) -> None:
        """Open a session in this run's place, if the user does not mind leaving this one."""

        def leave() -> None:
            self.next_session = path
            self.exit()

        self._leave(leave)

    async def action_quit(self) -> None:
        """End; ask first where something would be lost."""
        self._leave(self.exit)

    def _leave(self, leave: Callable[[], None]) -> None:
        if self._kept or isinstance(self.screen, QuitMenu):
            leave()
            return
        reason = self.recorder.error if self.recorder is not None else ""

        def answered(name: str | None) -> None:
            if name == "save":
                self.action_save()
            elif name == "quit":
                leave()

        self.push_screen(QuitMenu(Content("This run is kept nowhere"), reason), answered)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        # While a window asks something, another must not open above it.
        if action in ("save", "export", "sessions", "compare_branches"):
            return not isinstance(self.screen, Dialog | SessionsScreen | TextScreen)
        return super().check_action(action, parameters)


def _defined(breakpoints: BreakpointsSet) -> tuple[object, ...]:
    """Breakpoints as the user set them, without what was counted."""
    points = [(one.number, one.text, one.enabled, one.asserts) for one in breakpoints.points]
    return points, breakpoints.watches


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
        path = folder / f"{stem} {number}.{form}"
    return path
