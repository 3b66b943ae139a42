"""Ends the engine's process with the one that started it, however that one ended."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import threading

_PR_SET_PDEATHSIG = 1
"""See prctl(2): the signal that this process gets when the thread that started it ends."""


def end_with_parent(pid: int, *, of_main_thread: bool) -> None:
    """Have this process killed when the one numbered ``pid``, its parent, is gone.

    The end of the pipe is not enough: an engine that loads, or hangs in a pass, does not read it.
    On Linux the kernel sees to it, even where no Python code runs any more. As the kernel watches
    a thread, that is only asked for where the parent's main thread started this process; elsewhere
    a thread of ours waits for the parent.
    """
    if sys.platform == "linux" and of_main_thread:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    threading.Thread(target=_outlive, name="parent-watch", daemon=True).start()
    if os.getppid() != pid:
        # It was gone before anybody watched.
        os._exit(1)


def _outlive() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
