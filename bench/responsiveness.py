"""How quickly the screen answers: time to the first painted screen, and from key to paint.

Runs the real program in a pseudo-terminal, as a user would, and looks in what it writes for text
that only the effect of a key can have brought: the gauges pane alone explains its figures, and all
panes together show the others' titles. While keys are timed, the engine runs flat out. Prints a
table, and as the last line one JSON object.

    python bench/responsiveness.py [--keys 60] [--starts 5] [--model M]
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import platform
import pty
import select
import signal
import statistics
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COLUMNS, LINES = 160, 48
PROMPT = "Once upon a time"


ZOOMED, UNZOOMED = b"submit to first token id", b"3 Tokens"
"""What only the zoomed gauges pane says, and what is only there when it is not alone."""


class Terminal:
    """The program in a pseudo-terminal, and what it wrote since the last key; ends with the block."""

    def __init__(self, *arguments: str) -> None:
        self.written = b""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        environment.pop("NO_COLOR", None)
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "inspector", *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=ROOT,
            env=environment,
            start_new_session=True,
        )
        os.close(theirs)
        self.fd = ours

    def wait(self, text: bytes, timeout: float) -> float:
        """The time at which ``text`` has been written since the last key, or TimeoutError."""
        deadline = time.perf_counter() + timeout
        while time.perf_counter() < deadline:
            if select.select([self.fd], [], [], 0.001)[0]:
                self.written += os.read(self.fd, 1 << 16)
                if text in self.written:
                    return time.perf_counter()
        raise TimeoutError(f"{text!r} was not written within {timeout} s")

    def drain(self, seconds: float) -> None:
        """Let the program go on for a while, its output taken in."""
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            if select.select([self.fd], [], [], 0.001)[0]:
                self.written += os.read(self.fd, 1 << 16)

    def press(self, key: str) -> float:
        self.written = b""
        os.write(self.fd, key.encode())
        return time.perf_counter()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.fd)


def first_paints(starts: int, arguments: list[str]) -> list[float]:
    """Milliseconds from exec to a screen with the panes on it, one figure a start."""
    figures = []
    for _ in range(starts):
        with Terminal(PROMPT, *arguments) as terminal:
            figures.append((terminal.wait(b"2 Ladder", 30) - terminal.began) * 1000)
    return figures


def key_paints(keys: int, arguments: list[str]) -> list[float]:
    """Milliseconds from key to paint while the engine runs, one figure a key."""
    figures = []
    with Terminal(PROMPT, "--max-tokens", "4000", *arguments) as terminal:
        terminal.wait(b"ready", 120)
        terminal.press("6")
        terminal.press("c")
        terminal.wait(b"running", 30)
        terminal.drain(1.0)
        for count in range(keys):
            # Zoom hides and shows all other panes: the largest repaint that a key can ask for.
            pressed = terminal.press("z")
            seen = terminal.wait(UNZOOMED if count % 2 else ZOOMED, 10)
            figures.append((seen - pressed) * 1000)
            # Keys come at any moment of a frame, not always at its beginning.
            terminal.drain(0.1 + 0.013 * (count % 7))
        terminal.written = b""
        terminal.wait(b"running", 10)
    return figures


def percentile(figures: list[float], share: float) -> float:
    return statistics.quantiles(figures, n=100, method="inclusive")[round(share * 100) - 1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=60)
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--model")
    args = parser.parse_args()
    arguments = ["--model", args.model] if args.model else []
    paints = first_paints(args.starts, arguments)
    keys = key_paints(args.keys, arguments)
    result = {
        "first_paint_ms_median": round(statistics.median(paints), 1),
        "first_paint_ms_max": round(max(paints), 1),
        "key_to_paint_ms_median": round(statistics.median(keys), 1),
        "key_to_paint_ms_p95": round(percentile(keys, 0.95), 1),
        "key_to_paint_ms_max": round(max(keys), 1),
        "starts": args.starts,
        "keys": args.keys,
        "terminal": f"{COLUMNS}x{LINES}",
        "unit": "ms",
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
    }
    for name, value in result.items():
        print(f"{name:<26} {value}")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
