"""Cost of a session file: bytes and milliseconds a step, opening, jumping, and how it survives.

    python bench/sessions.py [--steps 1000] [--model MODEL | --no-model] [--kills 200]
                             [--fuzz 10000]

Records a run of the model (the default one; without one, a script whose logits look like a
language's), saves it step by step, and reads it back. The long session is the same run ten times
over. ``--kills`` kills a program that saves at as many random moments, ``--fuzz`` reads as many
mutated files. Timings are the fastest and the median of a few turns, because other programs can
only make a turn slower. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from engine.backends import open_backend
from engine.backends.base import Backend
from engine.backends.scripted import ScriptedBackend
from engine.records.events import Record
from engine.records.step import StepRecord
from engine.run.stepper import Stepper
from engine.sampling.chain import effective
from sessions import SessionWriter, open_session
from sessions.recording import first_records

PROMPT = "Once upon a time, in a small village by the sea, there lived an old man who"
TIMES_LONGER = 10
JUMPS = 50


def script() -> Backend:
    """Steps whose candidates' likelihoods fall off like a language's, other words each time."""
    width = 20_000
    likely = (-2.0 * np.log(np.arange(1, width + 2))).astype(np.float32)
    words = [f" word{number}" for number in range(width)]

    def logits_of(ids: Sequence[int]) -> Any:
        return np.random.default_rng(len(ids)).permutation(likely)

    return ScriptedBackend(logits_of, [*words, PROMPT])


def recorded(backend: Backend, steps: int) -> list[Record]:
    """A run of so many steps, whatever stop token it meets on the way."""
    stepper = Stepper(backend, effective("guide", {}), seed=1, max_tokens=steps)
    records: list[Record] = list(first_records(stepper, PROMPT))
    while len(stepper.nodes) < steps:
        records.append(stepper.extend(stepper.cursor))
    return records


def timed(turns: int, work: Callable[[], Any]) -> dict[str, float]:
    """Milliseconds of ``work``: the fastest and the median turn."""
    times = []
    for _ in range(turns):
        before = time.perf_counter()
        work()
        times.append(1000 * (time.perf_counter() - before))
    return {"fastest_ms": min(times), "median_ms": statistics.median(times)}


def save(path: Path, records: Sequence[Record]) -> list[float]:
    """Save a run step by step; milliseconds of each record."""
    times = []
    with SessionWriter(path) as writer:
        for record in records:
            before = time.perf_counter()
            writer.add(record)
            times.append(1000 * (time.perf_counter() - before))
    return times


def longer(records: Sequence[Record]) -> list[Record]:
    """The same run as one ten times as long."""
    steps = [one for one in records if isinstance(one, StepRecord)]
    head = [one for one in records if not isinstance(one, StepRecord)]
    count = len(steps) * TIMES_LONGER
    copies = (
        replace(steps[node % len(steps)], node=node + 1, parent=node) for node in range(count)
    )
    return [*head, *copies]


def jumps(path: Path, count: int) -> list[float]:
    """Milliseconds to any step, with all of its ladder, in a session that was just opened."""
    rng = np.random.default_rng(0)
    times = []
    for node in rng.integers(1, count + 1, JUMPS).tolist():
        with open_session(path) as session:
            before = time.perf_counter()
            step = session.step(node)
            _ = step.top, step.stages, step.timing
            times.append(1000 * (time.perf_counter() - before))
    return times


def size_by_table(path: Path, steps: int) -> dict[str, float]:
    """Bytes a step by table, where this SQLite can tell."""
    query = "SELECT name, sum(pgsize) FROM dbstat GROUP BY name ORDER BY 2 DESC"
    try:
        with sqlite3.connect(path) as database:
            return {name: size / steps for name, size in database.execute(query)}
    except sqlite3.OperationalError:
        return {}


def survival(folder: Path, kills: int, mutations: int) -> dict[str, Any]:
    """Kill a saving program and read mutated files as often as asked; both raise on a failure."""
    from tests.sessions.test_crash import check_kills
    from tests.sessions.test_fuzz import fuzz
    from tests.sessions.test_guard import sample_bytes

    found: dict[str, Any] = {"kills": kills, "mutated_files": mutations}
    if kills:
        before = time.perf_counter()
        (folder / "kills").mkdir()
        check_kills(folder / "kills", kills, seed=2)
        found["kills_s"] = time.perf_counter() - before
    if mutations:
        before = time.perf_counter()
        (folder / "fuzz").mkdir()
        read, refused = fuzz(folder / "fuzz" / "run.llmi", sample_bytes(folder), mutations, 2)
        found.update(read=read, refused=refused, fuzz_s=time.perf_counter() - before)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--model", default=None)
    parser.add_argument("--no-model", action="store_true")
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--fuzz", type=int, default=0)
    args = parser.parse_args()
    backend = script() if args.no_model else open_backend("hf", {"model": args.model})
    records = recorded(backend, args.steps)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        figures = measure(folder, records, args.steps)
        figures["survival"] = survival(folder, args.kills, args.fuzz)
    summary = {
        "bench": "sessions",
        "model": backend.facts.name,
        "dtype": backend.facts.dtype,
        "steps": args.steps,
        "figures": figures,
        "machine": {
            "cpu": platform.processor() or platform.machine(),
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "sqlite": sqlite3.sqlite_version,
        },
    }
    print(json.dumps(summary, allow_nan=False))


def measure(folder: Path, records: Sequence[Record], steps: int) -> dict[str, Any]:
    """Every figure but survival; prints them for people."""
    path, long_path = folder / "short.llmi", folder / "long.llmi"
    writes = save(path, records)
    per_step = path.stat().st_size / steps
    tables = size_by_table(path, steps)
    count = steps * TIMES_LONGER
    with SessionWriter(long_path) as writer:
        writer.add_all(longer(records))
    opening = timed(7, lambda: open_session(long_path).close())
    far = jumps(long_path, count)
    with open_session(long_path) as session:
        whole_path = timed(1, session.branch)
    print(f"size        {per_step:8,.0f} bytes a step over {steps:,} steps")
    for table, size in list(tables.items())[:5]:
        print(f"  {table:<14} {size:8,.0f}")
    print(f"save        {statistics.median(writes):8.2f} ms a step (worst {max(writes):.1f})")
    print(f"open        {opening['median_ms']:8.1f} ms with {count:,} steps")
    print(f"jump        {statistics.median(far):8.1f} ms to any step (worst {max(far):.1f})")
    print(f"whole path  {whole_path['median_ms']:8.1f} ms for {count:,} steps")
    return {
        "bytes_per_step": per_step,
        "bytes_per_step_by_table": tables,
        "save_ms_per_step": {"median": statistics.median(writes), "worst": max(writes)},
        "long_session_steps": count,
        "long_session_bytes": long_path.stat().st_size,
        "open": opening,
        "jump_ms": {"median": statistics.median(far), "worst": max(far)},
        "whole_path_ms": whole_path["median_ms"],
    }


if __name__ == "__main__":
    main()
