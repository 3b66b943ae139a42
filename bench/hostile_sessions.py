"""Sessions as untrusted input and as something never to be lost: two long campaigns.

    python bench/hostile_sessions.py [--files 10000] [--replays 200] [--kills 300] [--seed 0]

``--files`` mutated session files go through every command that reads: none may end in an internal
error, print what a terminal would act on, take more than 5 s or 1 GB, change a file or a folder, or
fail on what ``sessions check`` calls whole. So many of them are opened on the screen too.
``--kills`` ends ``run --save``, and moves of sessions, at random moments: no step that was said to
be saved may be lost, and nothing may stay behind. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from sessions import library
from tests.hostile_sessions import campaign, replay
from tests.sessions.test_guard import sample_bytes


def mutated_files(folder: Path, count: int, replays: int, seed: int) -> dict[str, Any]:
    """The first campaign; prints each fault that it finds."""
    faults: list[str] = []

    def note(number: int, fault: str) -> None:
        faults.append(fault)
        print(f"file {number} of seed {seed}: {fault}", flush=True)

    data = folder / "data"
    data.mkdir()
    library.data_folder = lambda: data
    begun = time.perf_counter()
    every = max(1, count // replays) if replays else count + 1
    options: dict[str, Any] = {"replay": replay if replays else None, "every": every}
    found = campaign(data, sample_bytes(folder), count, seed, on_fault=note, **options)
    seconds = time.perf_counter() - begun
    print(
        f"{count:,} files, {found['commands']:,} commands, {len(faults)} faults, {seconds:,.0f} s"
    )
    return {**found, "faults": len(faults), "seconds": seconds}


def kills(folder: Path, count: int, seed: int) -> dict[str, Any]:
    """The second campaign, in a program of its own, which can be forked."""
    place = folder / "kills"
    place.mkdir()
    begun = time.perf_counter()
    words = [sys.executable, "-m", "tests.saving_kills", str(count), str(seed), str(place)]
    done = subprocess.run(words, cwd=sys.path[0], stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    seconds = time.perf_counter() - begun
    print(f"{count} kills, {found['steps']:,} steps kept, nothing lost, {seconds:,.0f} s")
    return {**found, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--replays", type=int, default=200)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    figures = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if args.kills:
            figures["kills"] = kills(folder, args.kills, args.seed)
        if args.files:
            figures["files"] = mutated_files(folder, args.files, args.replays, args.seed)
    machine = {
        "cpu": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }
    print(json.dumps({"bench": "hostile_sessions", "figures": figures, "machine": machine}))
    if figures.get("files", {}).get("faults"):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
