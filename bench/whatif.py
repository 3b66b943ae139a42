"""Time from a turned dial to paint, with the whole vocabulary.

    python bench/whatif.py [--keys 40]

Runs the real app in a pseudo-terminal of 160x48, on an engine process whose logits are made up:
``model`` is shaped like a language model's (a few likely tokens, a long tail) under the default
chain, ``wide`` has thousands of likely ones under a chain without top-k, the worst there is. Then
it turns the temperature up and down, and waits for the text that only the new value can have
brought. Other programs can only make a turn slower, so the best is told too, and on Linux the
processor time that the app takes for a turn. Prints a table, and as the last line one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import cycle
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from bench.responsiveness import COLUMNS, LINES, Terminal, cpu_ms

SIZES = (49_152, 151_936)
SPECS = {"model": "", "wide": "temperature=0.8 > top_p=0.95"}
BUDGET_MS = 30.0


@dataclass(frozen=True)
class Scene:
    """The pane on screen while a dial is turned, and the keys that bring it there."""

    name: str
    keys: str
    sign: str
    """The text on screen when the dial stands at a value; ``{}`` is the value."""


SCENES = (
    Scene("dials and ladder", "nns", "0.8→{}"),
    Scene("dials, ladder, shape", "nn7s", "0.8→{}"),
    Scene("dials and stacks", "nnps", "temperature={} top"),
)


# --- the program under test, in a process of its own ------------------------------------------


@lru_cache(maxsize=1)
def _vector(size: int, kind: str) -> np.ndarray:
    rng = np.random.default_rng(size)
    values = rng.standard_normal(size)
    if kind == "model":
        values = values * 2.5 - 8
        values[rng.choice(size, 25, replace=False)] += rng.uniform(8, 18, 25)
    return values.astype(np.float32)


def logits(read: Sequence[int]) -> np.ndarray:
    """Called by the engine's process after each pass; the environment says which vector."""
    return _vector(int(os.environ["WHATIF_SIZE"]), os.environ["WHATIF_KIND"])


def serve(size: int, kind: str) -> None:
    """The app on made-up logits, in this terminal."""
    from engine.commands import Configure, Open, Submit
    from engine.process import EngineClient
    from inspector.app import Inspector
    from inspector.state.request import Request

    os.environ["WHATIF_SIZE"], os.environ["WHATIF_KIND"] = str(size), kind
    log = Path(tempfile.mkdtemp()) / "engine.log"

    def connect() -> EngineClient:
        client = EngineClient(log)
        client.start()
        return client

    words = [f" w{number}" for number in range(size)]
    opening = Open("scripted", {"function": "whatif:logits", "tokens": words})
    client = connect()
    client.send(opening)
    asked = Request(opening, Configure(spec=SPECS[kind]), Submit(" w1 w2"))
    Inspector(asked, client, connect).run()


# --- the measuring side -----------------------------------------------------------------------


def turns() -> Iterator[tuple[str, str]]:
    """Keys, each with the value that it leads to; 0.8 itself is the record's, and 1 is off."""
    yield "+", "0.85"
    yield from cycle([("+", "0.9"), ("+", "0.95"), ("-", "0.9"), ("-", "0.85")])


def key_paints(scene: Scene, size: int, kind: str, keys: int) -> tuple[list[float], float | None]:
    """(milliseconds from key to paint, one figure a turn; processor time of a turn).

    The first turn, which warms up, is dropped.
    """
    figures = []
    spent = None
    with Terminal("--serve", str(size), kind, program=(str(Path(__file__).resolve()),)) as terminal:
        terminal.wait(b"ready", 60)
        for key in scene.keys:
            terminal.press(key)
            terminal.drain(0.6)
        for turn, (key, value) in zip(range(keys + 1), turns(), strict=False):
            spent = cpu_ms(terminal.process.pid) if turn == 1 else spent
            began = terminal.press(key)
            seen = terminal.wait(scene.sign.format(value).encode(), 10)
            figures.append((seen - began) * 1000)
            terminal.drain(0.04)
        after = cpu_ms(terminal.process.pid)
    each = (after - spent) / keys if after is not None and spent is not None else None
    return figures[1:], each


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--keys", type=int, default=40, help="turns a scene (default 40)")
    parser.add_argument("--serve", nargs=2, metavar=("SIZE", "KIND"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(int(args.serve[0]), args.serve[1])
        return
    found = []
    names = ("median ms", "p95", "best", "cpu")
    print(f"{'on the screen':<24}{'logits':>8}{'tokens':>10}" + "".join(f"{n:>10}" for n in names))
    for kind in SPECS:
        for size in SIZES:
            for scene in SCENES:
                figures, cpu = key_paints(scene, size, kind, args.keys)
                median, best = statistics.median(figures), min(figures)
                p95 = statistics.quantiles(figures, n=20, method="inclusive")[-1]
                print(
                    f"{scene.name:<24}{kind:>8}{size:>10,}{median:10.1f}{p95:10.1f}{best:10.1f}"
                    + (f"{cpu:10.1f}" if cpu is not None else f"{'—':>10}")
                    + ("" if median <= BUDGET_MS else f"  over {BUDGET_MS:g}")
                )
                found.append(
                    {
                        "figure": "key to paint",
                        "scene": scene.name,
                        "logits": kind,
                        "vocabulary": size,
                        "median": round(median, 2),
                        "p95": round(p95, 2),
                        "best": round(best, 2),
                        "cpu": None if cpu is None else round(cpu, 2),
                        "unit": "ms",
                    }
                )
    summary = {
        "bench": "whatif",
        "keys": args.keys,
        "terminal": f"{COLUMNS}x{LINES}",
        "budget_ms": BUDGET_MS,
        "figures": found,
        "machine": {
            "cores": os.cpu_count(),
            "system": platform.platform(),
            "python": platform.python_version(),
            "numpy": np.__version__,
        },
    }
    print(json.dumps(summary, allow_nan=False))


if __name__ == "__main__":
    main()
