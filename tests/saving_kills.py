"""Kills ``run --save``, and moves of sessions, at random moments: nothing is lost, no litter stays.

    python -m tests.saving_kills COUNT SEED FOLDER

Each run is a forked copy of this program with the engine in its own process, so that a kill costs
milliseconds; what is killed is the whole of ``run --save``. The last line is one JSON object.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.commands import SetBreakpoints
from inspector.cli import run
from inspector.state.request import Request, Save
from sessions import SessionError, SessionWriter, open_session
from sessions.library import Library
from tests.direct import DirectClient, script
from tests.sessions.test_store import forked_run, save

TOKENS = 60
NAME = "run.llmi"


def _run_save(folder: Path) -> None:
    """``run --save`` as the command line has it, with the engine in this process."""
    run.connect = DirectClient  # type: ignore[assignment]
    opening, configure, submit = script()
    configure = replace(configure, max_tokens=TOKENS)
    run.run(Request(opening, configure, submit, SetBreakpoints(), Save(folder / NAME)), "jsonl")


def _move_about(folder: Path) -> None:
    """Go on writing while the file moves, then give the finished one other names."""
    steps = [one for one in forked_run() if type(one).__name__ == "StepRecord"]
    writer = SessionWriter(folder / NAME)
    writer.add_all([one for one in forked_run() if one not in steps][:4])
    for number, step in enumerate(steps):
        writer.add(step)
        print(json.dumps({"type": "step"}), flush=True)
        if number % 3 == 2:
            writer.move(folder / f"moved {number}.llmi")
    writer.close()
    path, library = writer.path, Library(folder)
    for number in range(10):
        path = library.rename(path, f"named {number}")


def killed_at(work: Callable[[Path], None], folder: Path, delay: float | None) -> tuple[int, bool]:
    """Steps that a fork doing ``work`` had said were saved; and whether it was killed in time."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.dup2(writing, 1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        sys.stdout = os.fdopen(1, "w")
        work(folder)
        sys.stdout.flush()
        os._exit(0)
    os.close(writing)
    if delay is not None:
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
    with os.fdopen(reading, "rb") as said:
        lines = said.read().split(b"\n")[:-1]
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.waitstatus_to_exitcode(status) == 0
    promised = sum(json.loads(line)["type"] == "step" for line in lines)
    return promised, os.WIFSIGNALED(status)


def _found(path: Path, promised: int) -> int:
    """The steps of the session at ``path``, which must hold at least those promised."""
    assert path.stat().st_size > 0, f"half a file is there: {path.name}"
    try:
        with open_session(path) as session:
            saved = len(session)
            for step in session.steps.values():
                _ = step.top, step.stages
    except SessionError as error:
        # Between the file's name and its first row there is a moment.
        if promised or "nothing was saved in it" not in str(error):
            raise
        return 0
    assert promised <= saved <= promised + 1, f"{promised} steps were promised, {saved} are there"
    return saved


def _after_a_kill(folder: Path, promised: int, seen: Counter[str]) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    named = sorted(name for name in before if name.endswith(".llmi") and not name.startswith("."))
    assert named or promised == 0, f"{promised} steps were promised, and no file is there"
    # A move links the new name before it takes the old one away.
    assert len({(folder / name).stat().st_ino for name in named}) <= 1, named
    saved = [_found(folder / name, promised) for name in named]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    seen["hidden files"] += sum(name.endswith(".new") for name in before)
    seen["journals"] += sum(name.endswith("-journal") for name in before)
    seen["two names"] += len(named) > 1
    seen["steps"] += max(saved, default=0)
    # The next command that writes into the folder cleans up.
    save(folder / "next.llmi", [])
    (folder / "next.llmi").unlink()
    beside = {f"{name}{end}" for name in named for end in ("-wal", "-shm")}
    left = {path.name for path in folder.iterdir()} - set(named) - beside
    assert not left, f"left behind: {left}"


def campaign(folder: Path, count: int, seed: int) -> dict[str, Any]:
    """``count`` kills, two in three of ``run --save``, one of moves. Raises AssertionError."""
    rng = random.Random(seed)
    seen: Counter[str] = Counter()
    longest = {}
    for work in (_run_save, _move_about):
        times = []
        for _ in range(2):
            begun = time.perf_counter()
            promised, _ = killed_at(work, folder, None)
            times.append(time.perf_counter() - begun)
            assert promised > 5
            _empty(folder)
        longest[work] = min(times)
    for number in range(count):
        work = _move_about if number % 3 == 2 else _run_save
        promised, in_time = killed_at(work, folder, rng.uniform(0.0, 1.1 * longest[work]))
        seen["kills"] += in_time
        seen["ended before"] += not in_time
        seen["promised"] += promised
        _after_a_kill(folder, promised, seen)
        _empty(folder)
    return dict(seen)


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):
            path.unlink()


if __name__ == "__main__":
    print(json.dumps(campaign(Path(sys.argv[3]), int(sys.argv[1]), int(sys.argv[2]))))
