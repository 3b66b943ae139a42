"""Time to open a long session and to jump in it, on the screen of the real program.

    python bench/replay.py [--steps 10000] [--rounds 7] [--jumps 40] [--model MODEL | --no-model]

Records a run of the model (the default one; without one, a script whose logits look like a
language's), makes a session of that many steps of it, with a fork every 200, and one of five. Both
are opened in a pseudo-terminal in turns: what the long one takes longer until the first screen is
what its length costs. Then keys are timed from the key to the paint of where they lead: to the
first and the last token, and in the tree's pane to the beginning of some stretch. The last line is
one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.responsiveness import COLUMNS, LINES, Terminal, summary
from bench.sessions import recorded, script
from engine.backends import open_backend
from engine.records.events import Record
from engine.records.step import StepRecord
from engine.run.tree import ROOT
from inspector.panes.registry import PANES
from inspector.panes.tokens import POSITION
from inspector.state.branches import Branches
from inspector.state.controller import Controller
from sessions import Session, SessionWriter, open_session

FEW = 5
RECORDED = 500
FORK_EVERY = 200
QUIET_S = 0.12
"""Longer than between two frames, shorter than until what is explained once the user rests."""
TREE = str(1 + [one.name for one in PANES].index("tree"))
"""The key of the pane where every stretch has a row."""


def session_of(path: Path, records: Sequence[Record], count: int) -> Path:
    """A session of ``count`` steps, the recorded ones over and over, with forks of one token."""
    steps = [one for one in records if isinstance(one, StepRecord)]
    made: list[Record] = [one for one in records if not isinstance(one, StepRecord)]
    tip, first = ROOT, steps[0].position - 1
    for node in range(1, count + 1):
        step = steps[(node - 1) % len(steps)]
        made.append(replace(step, node=node, parent=tip, position=first + node, stop=None))
        # The run goes on from before the fork: of two branches the newer one is the way on.
        tip = tip if node % FORK_EVERY == 0 else node
    with SessionWriter(path) as writer:
        writer.add_all(made)
    return path


def settled(terminal: Terminal) -> float:
    """The time of the last output, once nothing has come for a while: all has been painted."""
    last = time.perf_counter()
    while time.perf_counter() - last < QUIET_S:
        before = len(terminal.written)
        terminal.drain(0.001)
        if len(terminal.written) > before:
            last = time.perf_counter()
    return last


def first_paints(files: Sequence[Path], rounds: int) -> list[list[float]]:
    """Milliseconds from exec to all panes with the last token's figures, for each file in turns."""
    figures: list[list[float]] = [[] for _ in files]
    for _ in range(rounds):
        for file, found in zip(files, figures, strict=True):
            with open_session(file) as session:
                twin = Twin(session)
            with Terminal("replay", "--end", str(file)) as terminal:
                for text in (twin.at_last(), twin.last_row):
                    if text not in terminal.written:
                        terminal.wait(text, 60)
                found.append((settled(terminal) - terminal.began) * 1000)
    return figures


class Twin:
    """The program's work for the same keys, without the screen."""

    def __init__(self, session: Session) -> None:
        self._controller = Controller(lambda command: None)
        self._controller.replay(
            session.records(steps=False), session.steps, session.tree, session.rounds
        )
        self.branches = Branches()
        self.branches.update(self._controller.log.tree)
        self._controller.cursor.last()
        self.tip = self._controller.cursor.node

    def at_last(self) -> bytes:
        """The sign of the last token's place on screen; see ``at``."""
        return self.at(self.tip)

    @property
    def last_row(self) -> bytes:
        """Beginning of the last token's row in the table of tokens."""
        prompt = self._controller.log.prompt
        tokens = len(prompt.tokens) if prompt is not None else 0
        return POSITION.cell(f"{tokens + len(self._controller.log.path(self.tip)) - 1}").encode()

    def at(self, node: int) -> bytes:
        """The status line's text when the cursor has been moved to a node."""
        self._controller.cursor.go_to(node)
        view = self._controller.view
        here = len(view.path) + view.prompt_length - 1
        of = f" of {here + len(view.ahead):,}" if view.ahead else ""
        return f"position {here:,}{of}".encode()


class Jumper:
    """A replay in a terminal, and the keys that move about in it."""

    def __init__(self, terminal: Terminal, session: Session) -> None:
        self._terminal = terminal
        self.twin = Twin(session)
        self._rng = random.Random(1)
        self._row = 0

    def jump(self, key: str, node: int) -> float:
        """Milliseconds from a key until all panes show the node it leads to."""
        place = self.twin.at(node)
        pressed = self._terminal.press(key)
        self._terminal.wait(place, 20)
        took = (settled(self._terminal) - pressed) * 1000
        # Keys come at any moment of a frame, not always at its beginning.
        self._terminal.drain(0.013 * self._rng.randrange(7))
        return took

    def select(self) -> int:
        """Select a row of the tree's pane at random; the node that it begins with."""
        others = [row for row in range(1, len(self.twin.branches.rows)) if row != self._row]
        wanted = self._rng.choice(others)
        by = wanted - self._row
        self._terminal.press(("j" if by > 0 else "k") * abs(by))
        settled(self._terminal)
        self._row = wanted
        return self.twin.branches.rows[wanted].head


def jump_paints(file: Path, jumps: int) -> dict[str, list[float]]:
    """Milliseconds from key to paint, one figure a jump, by where it leads."""
    figures: dict[str, list[float]] = {"to the first": [], "to the last": []}
    with Terminal("replay", "--end", str(file)) as terminal, open_session(file) as session:
        jumper = Jumper(terminal, session)
        terminal.wait(jumper.twin.at_last(), 60)
        settled(terminal)
        for _ in range(jumps):
            figures["to the first"].append(jumper.jump("g", ROOT))
            figures["to the last"].append(jumper.jump("G", jumper.twin.tip))
        if len(session) > FORK_EVERY:
            terminal.press(TREE)
            settled(terminal)
            jumper.jump("g", ROOT)
            figures["to any stretch"] = [jumper.jump("\r", jumper.select()) for _ in range(jumps)]
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--jumps", type=int, default=40)
    parser.add_argument("--model", default=None)
    parser.add_argument("--no-model", action="store_true")
    args = parser.parse_args()
    backend = script() if args.no_model else open_backend("hf", {"model": args.model})
    records = recorded(backend, min(args.steps, RECORDED))
    with tempfile.TemporaryDirectory() as name:
        few = session_of(Path(name) / "few.llmi", records, FEW)
        many = session_of(Path(name) / "many.llmi", records, args.steps)
        size = many.stat().st_size
        starts = first_paints((few, many), args.rounds)
        jumps = jump_paints(many, args.jumps)
        short = jump_paints(few, args.jumps)
    beyond = [long - own for own, long in zip(*starts, strict=True)]
    figures = {
        f"first paint, {FEW} steps": starts[0],
        f"first paint, {args.steps:,} steps": starts[1],
        "opening beyond the app's own start": beyond,
        **{f"jump {name}": found for name, found in jumps.items()},
        **{f"jump {name}, {FEW} steps": found for name, found in short.items()},
    }
    for what, found in figures.items():
        words = "  ".join(f"{key} {value}" for key, value in summary(found).items())
        print(f"{what:<36}", words)
    result = {
        "bench": "replay",
        "model": backend.facts.name,
        "steps": args.steps,
        "bytes": size,
        "unit": "ms",
        "figures": {what: summary(found) for what, found in figures.items()},
        "terminal": f"{COLUMNS}x{LINES}",
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load_average": os.getloadavg()[0],
    }
    print(json.dumps(result, allow_nan=False))


if __name__ == "__main__":
    main()
