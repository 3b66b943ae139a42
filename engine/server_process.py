"""The engine process: its log, its priority, and the server that it runs."""

from __future__ import annotations

import os
import signal
import sys
from multiprocessing.connection import Connection
from pathlib import Path

from engine.safe_output import safe_output
from engine.server import Engine

_BEHIND_THE_SCREEN = 10
"""Nice levels by which the engine's process is below the screen's."""

_LONG_LOG = 1 << 20
"""Bytes after which a log is not added to any more."""


def _open_log(path: Path) -> int:
    """The log's file descriptor; the null device's where the log cannot be written.

    Engines that run at the same time share the log; it begins anew once it has grown long.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        long = path.exists() and path.stat().st_size > _LONG_LOG
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        return os.open(path, flags | os.O_TRUNC if long else flags, 0o600)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY)


def serve(connection: Connection, log_file: str) -> None:
    """Run a server; everything printed goes to ``log_file``."""
    # What a terminal sends to all that runs in it; the app decides what becomes of its engine.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # Both want every core while a pass runs; a key must not wait for the pass to be over.
    os.nice(_BEHIND_THE_SCREEN)
    log = _open_log(Path(log_file))
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(log, 1)
    os.dup2(log, 2)
    with safe_output():
        Engine(connection.send, connection).serve()
    sys.stdout.flush()
    sys.stderr.flush()
    # Nobody waits for a long run's records, and a model's weights, to be taken apart one by one.
    os._exit(0)
