"""A program in a pseudo-terminal of its own, as a user would have it: for tests of what is left."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import sys
import termios
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.folders import ROOT

_MODE = re.compile(rb"\x1b\[\?([\d;]+)([hl])|\x1b\[([<>])\d*u")
_NORMALLY_ON = {"7", "25"}

SCRIPTED = """
import sys
from engine.commands import Configure, Open, Submit
from inspector.cli.config import Config
from inspector.state.request import Request, Save
from inspector.cli.open import open_inspector

options = {"tokens": list("abcdefgh"), **%r}
asked = Request(
    Open("scripted", options), Configure(seed=1, max_tokens=100_000), Submit("abc"), save=%s
)
sys.exit(open_inspector(asked, Config(), theme=None))
"""


def scripted_app(options: Mapping[str, object] | None = None, save: Path | None = None) -> str:
    """A program that opens the inspector on a scripted backend with these options."""
    kept = f"Save(__import__('pathlib').Path({str(save)!r}))" if save else "Save(auto=False)"
    return SCRIPTED % (dict(options or {}), kept)


class Terminal:
    """A pseudo-terminal and the program in it. ``output`` is all that the program wrote."""

    def __init__(
        self,
        words: Sequence[str],
        *,
        size: tuple[int, int] = (100, 30),
        answers_sizes: bool = False,
        **environment: str,
    ) -> None:
        """``answers_sizes``: a terminal that tells its size in band, as kitty and foot do."""
        self.output = b""
        self._answers_sizes = answers_sizes
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(ROOT)
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
            plain = {"TERM": "xterm-256color", "OMP_NUM_THREADS": "1"}
            # A size in the environment, as pytest-xdist sets one, would go before the terminal's.
            for name in ("COLUMNS", "LINES"):
                os.environ.pop(name, None)
            os.execvpe(sys.executable, [sys.executable, *words], os.environ | plain | environment)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        answered = False
        while True:
            try:
                data = os.read(self.fd, 1 << 16)
            except OSError:
                return
            self.output += data
            if self._answers_sizes and not answered and b"\x1b[?2048$p" in self.output:
                answered = True
                self.type("\x1b[?2048;2$y")

    def type(self, keys: str) -> None:
        """Send keys as a keyboard would."""
        os.write(self.fd, keys.encode())

    def resize(self, width: int, height: int) -> None:
        """Give the terminal another size."""
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def wait_for(self, text: str, timeout: float = 240.0) -> None:
        """Wait until the program has written ``text`` since the last ``forget``."""
        until = time.monotonic() + timeout
        while text.encode() not in self.output:
            assert time.monotonic() < until, f"{text!r} not in {self.output[-2000:]!r}"
            time.sleep(0.02)

    def wait_quiet(self, seconds: float, timeout: float = 240.0) -> None:
        """Wait until the program has written nothing for ``seconds``."""
        until, seen, since = time.monotonic() + timeout, -1, time.monotonic()
        while (now := time.monotonic()) - since < seconds:
            assert now < until, "it goes on writing"
            if len(self.output) != seen:
                seen, since = len(self.output), now
            time.sleep(0.02)

    def forget(self) -> None:
        """Wait for new output only."""
        self.output = b""

    def exit_code(self, timeout: float = 240.0) -> int:
        """Wait for the program to end; 128 + signal where that ended it uncaught."""
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = 0
                self._reader.join(60.0)
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 1000 - code
            time.sleep(0.02)
        raise AssertionError(f"it has not ended: {self.output[-2000:]!r}")

    @property
    def modes_left(self) -> set[str]:
        """The modes that are not as a terminal has them at first, by their numbers."""
        left: set[str] = set()
        for numbers, act, keys in _MODE.findall(self.output):
            if keys:
                left = left - {"keys"} if keys == b"<" else left | {"keys"}
            for number in numbers.decode().split(";") if numbers else ():
                changed = (act == b"h") != (number in _NORMALLY_ON)
                left = left | {number} if changed else left - {number}
        return left

    @property
    def echoes(self) -> bool:
        """True if the terminal is back in its ordinary, line by line mode."""
        flags = termios.tcgetattr(self.fd)[3]
        return bool(flags & termios.ECHO and flags & termios.ICANON and flags & termios.ISIG)

    def close(self) -> None:
        """End the program, if it has not ended, and give the terminal away."""
        if self.pid:
            os.kill(self.pid, 9)
            os.waitpid(self.pid, 0)
            self.pid = 0
        with suppress(OSError):  # a test may have taken the terminal away itself
            os.close(self.fd)


@contextmanager
def terminal(
    *words: str,
    size: tuple[int, int] = (100, 30),
    answers_sizes: bool = False,
    **environment: str,
) -> Iterator[Terminal]:
    """A Terminal that runs Python with these words, closed in the end."""
    one = Terminal(words, size=size, answers_sizes=answers_sizes, **environment)
    try:
        yield one
    finally:
        one.close()


def children_of(pid: int) -> list[int]:
    """The processes that a process started (Linux)."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(word) for one in tasks for word in one.read_text().split()]


def alive(pid: int) -> bool:
    """True if there is such a process, and not only its remains (Linux)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
