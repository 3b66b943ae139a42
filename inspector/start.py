"""Opens the inspector: starts the engine first, then the screen, so that both come up at once."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime

from engine.records import ModelFacts
from inspector.ceilings_file import Known, default_path, find
from inspector.config import Config, log_file
from inspector.options import EXIT_ENGINE, EXIT_OK, Request, UsageError


def open_inspector(asked: Request, config: Config, *, theme: str | None) -> int:
    """Run the app until the user quits. Raises UsageError where there is no terminal for it."""
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise UsageError(
            'the inspector needs a terminal; without one use: llm-inspect run "PROMPT"'
        )
    from engine.process import EngineClient
    from themes import ThemeError

    def connect() -> EngineClient:
        client = EngineClient(log_file())
        client.start()
        return client

    first = connect()
    # The engine's imports take longer than ours: it gets its work before the screen is built.
    first.send(asked.open)
    from inspector.app import Inspector

    try:
        app = Inspector(
            asked,
            first,
            connect,
            keys=config.keys,
            theme=theme_name(theme),
            ceilings=known_ceilings,
        )
    except ThemeError as error:
        first.close()
        raise UsageError(str(error)) from None
    app.run()
    return EXIT_OK if app.return_code == 0 else EXIT_ENGINE


def known_ceilings(facts: ModelFacts) -> Known | None:
    """What ``bench`` measured here for such a model, if it ever did."""
    return find(facts, default_path(), datetime.now(UTC))


def theme_name(wanted: str | None) -> str:
    """The theme asked for; without one, what suits the terminal."""
    if wanted:
        return wanted
    return "ansi-dark" if "NO_COLOR" in os.environ else "dark"
