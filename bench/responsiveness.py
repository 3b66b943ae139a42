"""How quickly the screen answers: time to the first painted screen, and from key to paint.

Runs the real program in a pseudo-terminal, as a user would, reads what it writes into a terminal
emulator (pyte) and waits for the effect of a key to be on the emulated screen. While keys are
timed, the engine runs flat out. The emulator's own time is in the figures, so they are upper
bounds. Prints a table, and as the last line one JSON object.

    pip install pyte && python bench/responsiveness.py [--keys 60] [--starts 5] [--model M]
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
from collections.abc import Callable
from pathlib import Path

import pyte

ROOT = Path(__file__).resolve().parent.parent
COLUMNS, LINES = 160, 48
PROMPT = "Once upon a time"


class Terminal:
    """The program in a pseudo-terminal, and what its screen shows."""

    def __init__(self, *arguments: str) -> None:
        self.screen = pyte.Screen(COLUMNS, LINES)
        self.stream = pyte.ByteStream(self.screen)
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        environment.pop("NO_COLOR", None)
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "inspector", *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
            env=environment,
            start_new_session=True,
        )
        os.close(theirs)
        self.fd = ours

    def wait(self, seen: Callable[[str], bool], timeout: float) -> float:
        """The time at which the screen first satisfies ``seen``; TimeoutError after ``timeout``."""
        deadline = time.perf_counter() + timeout
        while time.perf_counter() < deadline:
            if select.select([self.fd], [], [], 0.001)[0]:
                self.stream.feed(os.read(self.fd, 1 << 16))
                if seen("\n".join(self.screen.display)):
                    return time.perf_counter()
        raise TimeoutError("\n".join(self.screen.display))

    def drain(self, seconds: float) -> None:
        """Let the program go on for a while, its output taken in."""
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            if select.select([self.fd], [], [], 0.001)[0]:
                self.stream.feed(os.read(self.fd, 1 << 16))

    def press(self, key: str) -> float:
        os.write(self.fd, key.encode())
        return time.perf_counter()

    def end(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.fd)


def first_paints(starts: int, arguments: list[str]) -> list[float]:
    """Milliseconds from exec to a screen with the panes on it, one figure a start."""
    figures = []
    for _ in range(starts):
        terminal = Terminal(PROMPT, *arguments)
        figures.append((terminal.wait(lambda text: "Ladder" in text, 30) - terminal.began) * 1000)
        terminal.end()
    return figures


def key_paints(keys: int, arguments: list[str]) -> tuple[list[float], int]:
    """Milliseconds from key to paint while the engine runs, and how many tokens it made then."""
    terminal = Terminal(PROMPT, "--max-tokens", "4000", *arguments)
    terminal.wait(lambda text: "ready" in text, 120)
    terminal.press("c")
    terminal.wait(lambda text: "running" in text, 30)
    terminal.drain(1.0)
    figures = []
    for count in range(keys):
        # Zoom hides and shows five panes: the largest repaint that a key can ask for.
        zoomed = count % 2 == 0
        pressed = terminal.press("z")
        seen = terminal.wait(lambda text, zoomed=zoomed: ("Gauges" in text) != zoomed, 5)
        figures.append((seen - pressed) * 1000)
        terminal.drain(0.1)
    still_running = "running" in "\n".join(terminal.screen.display)
    terminal.end()
    if not still_running:
        raise RuntimeError("the engine was not running to the end: the figures mean nothing")
    return figures, keys


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
    keys, count = key_paints(args.keys, arguments)
    result = {
        "first_paint_ms_median": round(statistics.median(paints), 1),
        "first_paint_ms_max": round(max(paints), 1),
        "key_to_paint_ms_median": round(statistics.median(keys), 1),
        "key_to_paint_ms_p95": round(percentile(keys, 0.95), 1),
        "key_to_paint_ms_max": round(max(keys), 1),
        "starts": args.starts,
        "keys": count,
        "terminal": f"{COLUMNS}x{LINES}",
        "unit": "ms",
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
    }
    for name, value in result.items():
        print(f"{name:<26} {value}")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
