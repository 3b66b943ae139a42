"""A long run in the real app on a scripted backend: memory of both processes, step time, quitting.

    python bench/soak.py [--steps 20000] [--kept]

Every tenth of the run prints what a step took, by the clock and of both processes' processor time
(ms), and what they hold. ``--kept`` writes the session file too. Prints a table, and as the last
line one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import psutil

from engine.commands import Configure, Open, Submit
from engine.process import EngineClient
from inspector.app import Inspector
from inspector.state.recorder import Recorder
from inspector.state.request import Request

TENTHS = 10
TOKENS = 64


def cpu_ms(process: psutil.Process) -> float:
    """Processor time that a process has taken; on a busy machine it says more than a clock."""
    times = process.cpu_times()
    return 1000 * float(times.user + times.system)


async def soak(app: Inspector, client: EngineClient, steps: int) -> list[dict[str, Any]]:
    """Run the app to the end of its budget; figures of every tenth."""
    found: list[dict[str, Any]] = []
    ours, theirs = psutil.Process(), psutil.Process(client.pid)
    async with app.run_test(size=(160, 48)) as pilot:
        nodes = app.controller.log
        while nodes.prompt is None or app.controller.busy:
            await pilot.pause(0.05)
        began, before = time.perf_counter(), 0
        spent = cpu_ms(ours), cpu_ms(theirs)
        await pilot.press("c")
        for tenth in range(1, TENTHS + 1):
            while len(nodes.nodes) < steps * tenth // TENTHS:
                await asyncio.sleep(0.01)
            now, count = time.perf_counter(), len(nodes.nodes)
            if count == before:
                continue  # a short run was through this tenth before anybody looked
            used = cpu_ms(ours), cpu_ms(theirs)
            found.append(
                {
                    "steps": count,
                    "step_ms": 1000 * (now - began) / (count - before),
                    "app_cpu_ms": (used[0] - spent[0]) / (count - before),
                    "engine_cpu_ms": (used[1] - spent[1]) / (count - before),
                    "app_mib": ours.memory_info().rss / 2**20,
                    "engine_mib": theirs.memory_info().rss / 2**20,
                }
            )
            print(
                "{steps:>8,} {step_ms:>8.2f} {app_cpu_ms:>8.2f} {engine_cpu_ms:>10.2f} "
                "{app_mib:>8.0f} {engine_mib:>10.0f}".format(**found[-1])
            )
            began, before, spent = now, count, used
        app.quit_began = time.perf_counter()  # type: ignore[attr-defined]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=20_000, metavar="N")
    parser.add_argument("--kept", action="store_true", help="write the session file")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        client = EngineClient(Path(folder, "engine.log"))
        client.start()
        tokens = [chr(0x100 + number) for number in range(TOKENS)]
        asked = Request(
            Open("scripted", {"tokens": tokens}),
            Configure(seed=1, max_tokens=args.steps),
            Submit(tokens[0]),
        )
        client.send(asked.open)
        recorder = Recorder(lambda prompt: Path(folder, "soak.llmi")) if args.kept else None
        app = Inspector(asked, client, lambda: client, recorder=recorder)
        print(f"{'steps':>8} {'ms/step':>8} {'app CPU':>8} {'engine CPU':>10} ", end="")
        print(f"{'app MiB':>8} {'engine MiB':>10}")
        found = asyncio.run(soak(app, client, args.steps))
        quit_s = time.perf_counter() - app.quit_began  # type: ignore[attr-defined]
    first, last = found[0], found[-1]
    made = max(1, last["steps"] - first["steps"])
    figures = {
        "bench": "soak",
        "steps": last["steps"],
        "kept": args.kept,
        "first_step_ms": first["step_ms"],
        "last_step_ms": last["step_ms"],
        "first_cpu_ms": first["app_cpu_ms"] + first["engine_cpu_ms"],
        "last_cpu_ms": last["app_cpu_ms"] + last["engine_cpu_ms"],
        "app_kib_per_step": 1024 * (last["app_mib"] - first["app_mib"]) / made,
        "engine_kib_per_step": 1024 * (last["engine_mib"] - first["engine_mib"]) / made,
        "quit_s": quit_s,
        "machine": f"{os.cpu_count()} cores, Python {platform.python_version()}",
    }
    print(f"a step leaves {figures['app_kib_per_step']:.1f} KiB in the app and ", end="")
    print(f"{figures['engine_kib_per_step']:.1f} KiB in the engine; quitting took {quit_s:.1f} s")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
