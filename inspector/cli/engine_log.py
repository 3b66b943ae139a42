"""The engine's process and its log file, for every command that starts one."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path

from engine.plain_files import check_plain, reason
from engine.process import EngineClient
from engine.text import visible
from inspector.cli.config import log_file


@cache
def engine_log() -> Path:
    """The engine's log; the null device, which is said once, where none can be written."""
    path = log_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            check_plain(path)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    except (OSError, RuntimeError) as error:  # there may be no home either
        line = f"llm-inspect: the engine keeps no log: {path} cannot be written ({reason(error)})"
        print(visible(line), file=sys.stderr)
        return Path(os.devnull)
    return path


def connect() -> EngineClient:
    """A new engine process and its client."""
    client = EngineClient(engine_log())
    client.start()
    return client
