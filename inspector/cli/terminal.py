"""The terminal under an app: what it must be able to do, and how it is left."""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from engine.safe_output import discard_output
from inspector.cli.options import UsageError
from inspector.signals import ENDING, exit_code, handling

if TYPE_CHECKING:
    from textual.app import App

_CANNOT_DRAW = ("dumb", "unknown")
"""Values of TERM that promise no cursor movement; Rich takes such a terminal for 80x25."""
_MODES = "".join(
    f"\x1b[{mode}"
    for mode in (
        *("?1000l", "?1003l", "?1015l", "?1006l", "?1016l"),  # mouse
        *("?2004l", "?1004l", "?2048l"),  # pastes, focus, sizes
        *("<u", "?7h", "?1049l", "?25h"),  # keys; line wrap, main screen, cursor
    )
)
"""Puts back every mode that Textual sets."""
_GRACE_S = 10.0
"""Seconds that an app may take to end when it is told to."""
_LOOK_MS = 1000


def is_terminal() -> bool:
    """True if all three standard streams are a terminal that can be drawn on."""
    return _all_terminals() and os.environ.get("TERM", "") not in _CANNOT_DRAW


def require_terminal(who: str, instead: str) -> None:
    """Raise UsageError where ``is_terminal`` is false: ``who`` needs one, ``instead`` does not."""
    if not _all_terminals():
        raise UsageError(f"{who} needs a terminal; without one use: {instead}")
    if not is_terminal():
        raise UsageError(
            f"{who} needs a terminal that can be drawn on, and TERM={os.environ['TERM']} is none: "
            f"set TERM to what yours is, such as xterm-256color, or use: {instead}"
        )


def _all_terminals() -> bool:
    return all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def run_in_terminal(app: App[Any]) -> Any:
    """Run ``app`` to its end, however that comes; what it returns."""
    from textual.drivers.linux_driver import LinuxDriver

    from inspector.cli.driver import TerminalDriver

    if app.driver_class is LinuxDriver:
        app.driver_class = TerminalDriver
    with _ended_from_outside(app):
        # Textual asks two sources for the size. Where they differ (a terminal that calls itself
        # 0x0, as some consoles do) it would lay its screen out for ever.
        ended = app.run(size=shutil.get_terminal_size())
        if app.return_code == exit_code(signal.SIGHUP):
            discard_output()
        return ended


@contextmanager
def _ended_from_outside(app: App[Any]) -> Iterator[None]:
    """While ``app`` runs, have it end as by ``q`` on a signal, or when its terminal has gone.

    Its return code is then 128 + signal. Where it does not end (its loop hangs, or the terminal
    takes no more output), the terminal is put back and the process ended all the same.
    """
    attributes = termios.tcgetattr(sys.__stdin__.fileno())  # type: ignore[union-attr]
    told, over = threading.Event(), threading.Event()

    def work(number: int) -> None:
        app.exit(return_code=exit_code(number))
        if not over.wait(_GRACE_S):
            _end_at_once(exit_code(number), attributes)

    def end(number: int) -> None:
        # A thread, as this may be called between any two instructions of the app.
        if not told.is_set():
            told.set()
            threading.Thread(target=work, args=(number,), name="ending", daemon=True).start()

    threading.Thread(target=_watch, args=(over, end), name="terminal-watch", daemon=True).start()
    try:
        with handling((*ENDING, signal.SIGINT), end):
            yield
    finally:
        over.set()


def _watch(over: threading.Event, end: Callable[[int], None]) -> None:
    """Wait for the terminal to go: Textual would go on reading nothing at full load."""
    poll = select.poll()
    poll.register(sys.__stdin__.fileno(), 0)  # type: ignore[union-attr]
    while not over.is_set():
        for _, event in poll.poll(_LOOK_MS):
            if event & select.POLLHUP:
                end(signal.SIGHUP)
            # Anything else: a system that cannot say this of a terminal.
            return


def _end_at_once(code: int, attributes: list[Any]) -> None:
    def restore() -> None:
        with suppress(termios.error):
            termios.tcsetattr(sys.__stdin__.fileno(), termios.TCSANOW, attributes)  # type: ignore[union-attr]
        _write(_MODES)

    # A terminal that takes no output would keep us for ever.
    restoring = threading.Thread(target=restore, daemon=True)
    restoring.start()
    restoring.join(1.0)
    os._exit(code)


def _write(text: str) -> None:
    with suppress(OSError):
        os.write(2, text.encode())
