"""Decode steps under several spin counts of idle OpenMP threads, beside a busy screen.

    python bench/spin.py [--counts default,3000,30000] [--tokens 16] [--rounds 9] [--busy]

One process of ours for each count (``default`` leaves the environment alone), all with the model
loaded, taking short turns; compared round by round with the first. With ``--busy`` another process
keeps one core busy meanwhile. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from engine.openmp import SPINCOUNT, SPINS  # noqa: E402 - found by the line above

PROMPT = "Once upon a time, in a small village by the sea, there lived an old man who"


def child(dtype: str) -> None:
    """Load the model, then answer each line (a number of tokens) with the steps' median ms."""
    from engine.backends.hf import load as hf_open
    from engine.measure.contest import our_gaps
    from engine.run.stepper import Stepper
    from engine.sampling.chain import effective

    backend = hf_open.open_backend({"device": "cpu", "dtype": dtype}, lambda *_: None)
    ids = backend.tokenize(PROMPT, chat=False, system=None).ids
    stepper = Stepper(backend, effective("guide", {"temperature": 0.0}), max_tokens=10_000)
    print(json.dumps(backend.facts.threads), flush=True)
    for line in sys.stdin:
        print(json.dumps(statistics.median(our_gaps(stepper, ids, int(line)))), flush=True)


class Contender:
    """A process of ours with one spin count; ``rounds`` has its median step of each round in ms."""

    def __init__(self, count: str, dtype: str) -> None:
        environment = {name: value for name, value in os.environ.items() if name != SPINCOUNT}
        own = {} if count == "default" else {SPINCOUNT: count}
        self.count, self.rounds = count, list[float]()
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--child", dtype],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**environment, **own},
        )

    def ask(self, line: str) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return self.answer()

    def answer(self) -> float:
        assert self.process.stdout is not None
        return float(json.loads(self.process.stdout.readline()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--counts", default=f"default,3000,{SPINS}", help="with commas between")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--tokens", type=int, default=16, help="tokens a turn (default 16)")
    parser.add_argument("--rounds", type=int, default=9, help="turns each (default 9)")
    parser.add_argument("--busy", action="store_true", help="keep one core busy meanwhile")
    parser.add_argument("--child", metavar="DTYPE", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.child)
        return
    contenders = [Contender(count, args.dtype) for count in args.counts.split(",")]
    threads = [one.answer() for one in contenders]
    neighbour = None
    if args.busy:
        neighbour = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        for round_ in range(args.rounds + 1):
            for turn in range(len(contenders)):
                one = contenders[(turn + round_) % len(contenders)]
                ms = one.ask(str(args.tokens))
                if round_:
                    one.rounds.append(ms)
    finally:
        for process in (*(one.process for one in contenders), neighbour):
            if process is not None:
                process.kill()
    figures = []
    print(f"{'spin count':>12}{'ms a step':>11}{'x ' + contenders[0].count:>12}")
    for one in contenders:
        pairs = zip(one.rounds, contenders[0].rounds, strict=True)
        ratio = statistics.median(ours / theirs for ours, theirs in pairs)
        print(f"{one.count:>12}{statistics.median(one.rounds):11.2f}{ratio:12.3f}")
        figures.append({"count": one.count, "ms": one.rounds, "over_first": ratio})
    summary = {"bench": "spin", "busy": args.busy, "threads": threads[0], "dtype": args.dtype}
    print(json.dumps({**summary, "unit": "ms a step", "figures": figures}, allow_nan=False))


if __name__ == "__main__":
    main()
