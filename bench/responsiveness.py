"""Response of the screen: time to the first painted screen, and from key to paint.

Runs the real program in a pseudo-terminal, as a user would, and looks in what it writes for text
that only the effect of a key can have brought: the gauges pane alone explains its figures, and all
panes together show the others' titles. While keys are timed, the engine runs flat out. Other
programs can only make a key slower, so on Linux the processor time that the app takes for a key is
told too (with what the engine's records cost meanwhile). Prints a table, and as the last line one
JSON object.

With ``--columns`` keys of the compare screen are timed instead, on four columns.

    python bench/responsiveness.py [--keys 60] [--starts 5] [--model M] [--columns]
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
import tempfile
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COLUMNS, LINES = 160, 48
PROMPT = "Once upon a time"
TOKENS = "8000"
"""More than the engine can draw while keys are timed."""


KEYS = {
    "step along, step back": (("n", b"position 4"), ("b", b"no draw yet: n goes on")),
    "zoom, unzoom": (("z", b"submit to first token id"), ("z", b"3 Tokens")),
}
"""Pairs of keys, each with text that is written only when its effect is painted: the place of the
first token and the words where there is none (all panes change with the cursor); what the gauges
pane says only when it has the whole screen, and a title that is hidden then."""


SPECS = ("temperature=0.2", "temperature=0.6", "temperature=1", "temperature=1.4")
COLUMN_KEYS = {
    "column after, before": (("2", b"temperature=0.6"), ("1", b"temperature=0.2")),
    "zoom, unzoom": (("z", b"temperature=0.2"), ("z", b"Why they part")),
}
"""On the compare screen: a column that gets the focus has its title painted, and the panes below
show its ladder; alone, it has its title painted, and the panes below come back with theirs."""


class Terminal:
    """The program in a pseudo-terminal, and what it wrote since the last key."""

    def __init__(self, *arguments: str, program: Sequence[str] = ("-m", "inspector")) -> None:
        self.written = b""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        # Runs are saved as ever, but not among the user's: each is killed, and the next start would
        # offer to recover it.
        self._data = tempfile.TemporaryDirectory()
        environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        environment["XDG_DATA_HOME"] = self._data.name
        environment.pop("NO_COLOR", None)
        # As it is installed: else each start would compile the program anew.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, *program, *arguments],
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
        self._data.cleanup()


def cpu_ms(pid: int) -> float | None:
    """Processor time that a process has taken; None where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


def first_paints(starts: int, arguments: list[str]) -> list[float]:
    """Milliseconds from exec to a screen with the panes on it, one figure a start.

    One more, the first, compiles what was changed since the last.
    """
    figures = []
    for _ in range(starts + 1):
        with Terminal(PROMPT, *arguments) as terminal:
            figures.append((terminal.wait(b"2 Ladder", 30) - terminal.began) * 1000)
    return figures[1:]


Figures = tuple[dict[str, list[float]], dict[str, float]]
ENDLESS = ("--max-tokens", TOKENS, "--min-new-tokens", TOKENS)


def key_paints(keys: int, arguments: list[str]) -> Figures:
    """By what a key does: (milliseconds from key to paint, one figure a key; processor time).

    The engine runs meanwhile, and no stop token may end that.
    """
    with Terminal(PROMPT, *ENDLESS, *arguments) as terminal:
        terminal.wait(b"ready", 120)
        for key in "6c":
            terminal.press(key)
        terminal.wait(b"running", 30)
        # The cursor leaves the tip, so that only a key changes what the panes show of it. Before
        # there is a token it would stay at the tip.
        terminal.drain(1.0)
        terminal.press("g")
        terminal.drain(1.0)
        found = timed(terminal, KEYS, keys)
        terminal.written = b""
        terminal.press("z")
        terminal.wait(b"running", 10)
    return found


def column_paints(keys: int, arguments: list[str]) -> Figures:
    """The same on the compare screen, while four columns run flat out."""
    chosen = [word for spec in SPECS for word in ("-s", spec)]
    with Terminal("compare", PROMPT, *chosen, *ENDLESS, *arguments) as terminal:
        terminal.wait(b"ready", 120)
        terminal.press("c")
        terminal.wait(b"running", 30)
        terminal.drain(2.0)
        return timed(terminal, COLUMN_KEYS, keys)


def timed(
    terminal: Terminal, wanted: Mapping[str, Sequence[tuple[str, bytes]]], keys: int
) -> Figures:
    """Press each pair of keys in turn, ``keys`` presses in all."""
    figures: dict[str, list[float]] = {name: [] for name in wanted}
    spent: dict[str, float] = {}
    for name, pair in wanted.items():
        before = cpu_ms(terminal.process.pid)
        for count in range(keys):
            key, effect = pair[count % 2]
            pressed = terminal.press(key)
            figures[name].append((terminal.wait(effect, 10) - pressed) * 1000)
            # Keys come at any moment of a frame, not always at its beginning.
            terminal.drain(0.1 + 0.013 * (count % 7))
        after = cpu_ms(terminal.process.pid)
        if before is not None and after is not None:
            spent[name] = round((after - before) / keys, 1)
    return figures, spent


def percentile(figures: list[float], share: float) -> float:
    return statistics.quantiles(figures, n=100, method="inclusive")[round(share * 100) - 1]


def summary(figures: list[float]) -> dict[str, float]:
    """Median, 95th percentile and maximum in milliseconds, and how many there are."""
    return {
        "median": round(statistics.median(figures), 1),
        "p95": round(percentile(figures, 0.95), 1),
        "max": round(max(figures), 1),
        "count": len(figures),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=60)
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--model")
    parser.add_argument("--columns", action="store_true", help="keys of the compare screen")
    args = parser.parse_args()
    arguments = ["--model", args.model] if args.model else []
    result: dict[str, object] = {}
    paints: list[float] = []
    if args.columns:
        keys, spent = column_paints(args.keys, arguments)
    else:
        paints = first_paints(args.starts, arguments)
        keys, spent = key_paints(args.keys, arguments)
        result["first_paint_ms"] = summary(paints)
    result |= {
        "key_to_paint_ms": {name: summary(figures) for name, figures in keys.items()},
        "cpu_ms_per_key": spent,
        "terminal": f"{COLUMNS}x{LINES}",
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load_average": os.getloadavg()[0],
    }
    named = {"first paint": paints} if paints else {}
    for name, figures in (named | keys).items():
        cpu = f"  cpu {spent[name]}" if name in spent else ""
        shown = "  ".join(f"{key} {value}" for key, value in summary(figures).items())
        print(f"{name:<24}", shown + cpu)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
