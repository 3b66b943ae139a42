"""Opens the inspector: starts the engine first, then the screen, so that both come up at once."""

from __future__ import annotations

import gc
import os
import shlex
import sys
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from engine.commands import Submit
from engine.openmp import limit_spin
from engine.records.measured import Ceilings
from engine.records.model import ModelFacts
from engine.text import visible
from inspector.cli.config import Config
from inspector.cli.engine_log import connect
from inspector.cli.options import UsageError
from inspector.cli.terminal import require_terminal, run_in_terminal
from inspector.exit_codes import EXIT_ENGINE, EXIT_OK
from inspector.state.ceilings import Known, default_path, find, save
from inspector.state.request import Request, Save

if TYPE_CHECKING:
    from engine.process import EngineClient
    from inspector.actions.player import Playing
    from inspector.app import Inspector
    from inspector.screens.layouts import Layouts
    from inspector.state.recorder import Recorder
    from sessions.library import Library
    from sessions.reader import Session


_ALLOCATIONS = 50_000
"""Objects more than before until the youngest ones are looked at."""


def open_inspector(
    asked: Request, config: Config, *, theme: str | None, starts: bool = False
) -> int:
    """Run the app until the user quits; ``starts``: the prompt is still to be asked for.

    Raises UsageError where there is no terminal for it.
    """
    require_terminal("the inspector", 'llm-inspect run "PROMPT"')
    from themes import ThemeError

    # Textual reads it when it is imported: how often a screen that has changed is looked at. At
    # its own 60 a second a key waits up to 17 ms; our panes are repainted far more seldom anyway.
    os.environ.setdefault("TEXTUAL_FPS", "120")
    limit_spin()
    first = connect()
    # The engine's imports take longer than ours: it gets its work before the screen is built.
    first.send(asked.open)
    from sessions.library import Library

    library = Library()
    try:
        # The model loads meanwhile.
        chosen = start(asked, library, theme) if starts else asked.submit
        if not isinstance(chosen, Submit):
            first.close()
            return Opener(asked, config, theme).open(chosen) if chosen is not None else EXIT_OK
        asked = replace(asked, submit=chosen)
        from inspector.app import Inspector

        app = Inspector(
            asked,
            first,
            connect,
            keys=config.keys,
            layouts=layouts_of(config),
            theme=theme_name(theme),
            ceilings=known_ceilings,
            keep_ceilings=keep_ceilings,
            recorder=recorder(asked.save, library),
            library=library,
        )
        app.measurements.unasked = True
    except (ThemeError, UsageError) as error:
        first.close()
        raise UsageError(str(error)) from None
    return Opener(asked, config, theme).run(app)


def layouts_of(config: Config, *, read_only: bool = False) -> Layouts:
    """The layouts of the panes. Raises UsageError for one that cannot be used."""
    from inspector.cli.config_edit import keep_layout
    from inspector.screens.desk import LayoutError
    from inspector.screens.layouts import Layouts, kept_nowhere

    path = None if read_only else config.path
    keep = partial(keep_layout, path) if path is not None else kept_nowhere
    try:
        return Layouts(config.layouts, config.pick("layout", None, "debug"), keep)
    except LayoutError as error:
        raise UsageError(f"{visible(str(config.path))}: {error}") from None


def start(asked: Request, library: Library, theme: str | None) -> Submit | Path | None:
    """Ask for a prompt, or a session to open in its place; None where the user wants neither."""
    from inspector.browser import Start

    app = Start(library, theme_name(theme), chat=asked.submit.chat)
    chosen: Submit | Path | None = run_in_terminal(app)
    return chosen


def recorder(
    save: Save, library: Library, *, goes_on: Path | None = None, prompt: str = ""
) -> Recorder:
    """The recorder of an inspector: the first run in the named file, all others in the library.

    ``goes_on`` is the session that is gone on from, and ``prompt`` its prompt.
    """
    from inspector.state.recorder import Recorder
    from sessions.file.format import SessionError

    named = [save.path] if save.path is not None else []

    def place(text: str) -> Path:
        if named:
            return named.pop()
        if not save.auto:
            raise SessionError("the file named by --save holds the run before: w saves this one")
        return library.autosave_path(text or prompt)

    wanted = place if save.auto or named else None
    return Recorder(wanted, full_logits=save.full_logits, goes_on=goes_on)


_SIGNALLED = 128
"""Return codes above it stand for the signal that ended the app."""
_TURN_S = 0.001
"""Interval in which a thread that reads or writes records gives way to the screen."""


def _collect_rarely() -> None:
    """Keep Python's garbage collector from stopping the screen for longer than a key may take.

    A full collection looks at every token of every record: 60 to 100 ms after some hundred steps,
    measured by ``bench/responsiveness.py``. Records hold no cycles, so nothing is lost by it.
    """
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS, 20, 1000)


@dataclass(frozen=True)
class Opener:
    """Runs an app, and then whatever session was chosen in it, and so on."""

    asked: Request
    config: Config
    theme: str | None

    def run(self, app: Inspector, *, in_tab: bool = False) -> int:
        """Run to the end, ``in_tab`` of a browser or in the terminal. Returns the exit code."""
        from sessions import SessionError, open_session

        if in_tab:
            from inspector.cli.web.tab import run_in_tab
        _collect_rarely()
        sys.setswitchinterval(_TURN_S)
        following: Inspector | None = app
        code = 0
        while following is not None:
            if in_tab:
                run_in_tab(following)
            else:
                run_in_terminal(following)
            tell_where_kept(following)
            if following.damage:
                raise UsageError(following.damage)
            code, path = following.return_code or 0, following.next_session
            following = None
            if path is not None:
                try:
                    following = self.replay(open_session(path))
                except SessionError as error:
                    raise UsageError(str(error)) from None
        return code if code == EXIT_OK or code > _SIGNALLED else EXIT_ENGINE

    def open(self, path: Path) -> int:
        """Run the app on a saved session. Raises UsageError where it cannot be read."""
        from sessions import SessionError, open_session

        try:
            return self.run(self.replay(open_session(path)))
        except SessionError as error:
            raise UsageError(str(error)) from None

    def replay(
        self,
        session: Session,
        *,
        live: bool = False,
        playing: Playing | None = None,
        tour: bool = False,
        read_only: bool = False,
        at_end: bool = False,
    ) -> Inspector:
        """The app on a saved session. Raises UsageError for a theme that cannot be used."""
        from inspector.replaying import replaying
        from inspector.state.replay_client import prompt_of
        from sessions.library import Library
        from themes import ThemeError

        prompt, library = prompt_of(session), Library()
        kept = None
        if live:
            kept = recorder(self.asked.save, library, goes_on=session.path, prompt=prompt.text)
        # A first process cannot be started while a screen is up: that has taken over stderr.
        first = [connect()] if live else []

        def attach() -> EngineClient:
            return first.pop() if first else connect()

        try:
            return replaying(
                session,
                self.asked,
                attach=attach if live else None,
                playing=playing,
                tour=tour,
                read_only=read_only,
                at_end=at_end or live,
                keys=self.config.keys,
                layouts=layouts_of(self.config, read_only=read_only),
                theme=theme_name(self.theme),
                ceilings=known_ceilings,
                keep_ceilings=keep_ceilings,
                recorder=kept,
                library=None if read_only else library,
            )
        except (ThemeError, UsageError) as error:
            for client in first:
                client.close()
            raise UsageError(str(error)) from None


def tell_where_kept(app: Inspector) -> None:
    """Print where the run that was on screen is kept, and how to look at it again."""
    recorder = app.keeping.recorder
    path = recorder.path if recorder is not None and not recorder.error else None
    if path is None or app.next_session is not None or not path.is_file():
        return
    from sessions.library import Library

    library = Library()
    ours = path.parent in (library.folder, library.autosaves)
    name = shlex.quote(path.stem if ours else str(path))
    print(f"kept in {visible(str(path))}\nto look at it again: llm-inspect replay {visible(name)}")


def known_ceilings(facts: ModelFacts) -> Known | None:
    """Ceilings that ``bench`` measured here for such a model, if it ever did."""
    return find(facts, default_path(), datetime.now(UTC))


def keep_ceilings(facts: ModelFacts, ceilings: Ceilings) -> None:
    """Keep what was measured under such a model for the next time. Raises OSError."""
    save(facts, ceilings, default_path(), datetime.now(UTC))


def theme_name(wanted: str | None) -> str:
    """The theme asked for; without one, what suits the terminal."""
    if wanted:
        return wanted
    return "ansi-dark" if "NO_COLOR" in os.environ else "dark"
