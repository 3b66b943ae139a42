"""Signals that end a program: everything is closed first, and the exit code is 128 + signal."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

ENDING = (signal.SIGTERM, signal.SIGHUP)


class Signalled(SystemExit):
    """This process was told to end by a signal."""

    def __init__(self, number: int) -> None:
        super().__init__(exit_code(number))
        self.exit_code = exit_code(number)


def exit_code(number: int) -> int:
    """The exit code of a process that a signal ended, as a shell gives it."""
    return 128 + number


@contextmanager
def handling(numbers: tuple[signal.Signals, ...], handler: Callable[[int], None]) -> Iterator[None]:
    """Have ``handler`` called with these signals. What is ignored (nohup) stays ignored."""
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in numbers:
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, lambda got, frame: handler(got))
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@contextmanager
def raising() -> Iterator[None]:
    """Have the first SIGTERM or SIGHUP raise Signalled; those that follow it change nothing."""
    raised = False

    def handler(number: int) -> None:
        nonlocal raised
        if not raised:
            raised = True
            _raise(number)

    with handling(ENDING, handler):
        yield


def _raise(number: int) -> NoReturn:
    raise Signalled(number)
