"""A program that is killed while it saves loses at most the step in flight."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sessions import open_session
from tests.folders import ROOT

SAVING = """
import dataclasses, sys
from sessions import SessionWriter
from tests.sessions.test_store import odd_step
from tests import fakes
step = odd_step()
with SessionWriter(sys.argv[1]) as writer:
    writer.add(fakes.prompt(3))
    for node in range(1, 1_000_000):
        writer.add(dataclasses.replace(step, node=node, parent=node - 1))
        # By now the step must be safe.
        sys.stdout.write(f"{node}\\n")
        sys.stdout.flush()
"""


def kill_while_saving(folder: Path, delay: float) -> tuple[int, int]:
    """Steps that the killed program had said were saved, and steps that are in its file."""
    path = folder / "run.llmi"
    saving = subprocess.Popen(
        [sys.executable, "-c", SAVING, str(path)], stdout=subprocess.PIPE, cwd=ROOT
    )
    assert saving.stdout
    saving.stdout.readline()
    time.sleep(delay)
    os.kill(saving.pid, signal.SIGKILL)
    said = saving.stdout.read().split(b"\n")
    saving.wait()
    # What follows the last line end may be half a number.
    promised = int(said[-2]) if len(said) > 1 else 1
    with open_session(path) as session:
        saved = len(session)
        assert session.closed is None
        assert session.prompt
        assert session.step(saved).top.ids.tolist() == [0, 1, 2, 3]
    return promised, saved


def check_kills(folder: Path, count: int, seed: int) -> None:
    """Kill ``count`` savings at random moments; nothing is lost, nothing else is touched."""
    rng = random.Random(seed)
    neighbour = folder / "neighbour.llmi"
    neighbour.write_bytes(b"precious")
    for _ in range(count):
        promised, saved = kill_while_saving(folder, rng.uniform(0.0, 0.3))
        assert promised <= saved <= promised + 1
        left = {path.name for path in folder.iterdir()}
        assert left <= {"neighbour.llmi", "run.llmi", "run.llmi-wal", "run.llmi-shm"}
        assert neighbour.read_bytes() == b"precious"
        for path in folder.glob("run.llmi*"):
            path.unlink()


@pytest.mark.slow
def test_a_few_kills(tmp_path: Path) -> None:
    """``bench/sessions.py --kills 200`` kills more often."""
    check_kills(tmp_path, 4, seed=0)
