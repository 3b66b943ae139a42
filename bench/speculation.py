"""Speed of speculative decoding against plain decoding, turn by turn in one process.

    python bench/speculation.py [--model MODEL] [--dtype float32 ...] [--tokens 40] [--rounds 3]

Greedy decoding of a prompt that repeats itself and of prose: plain, prompt lookup with 2 to 8
drafts, and the model's own first layers. All keep every record. They take turns, so that whatever
else the machine does meets them alike; what is shown is the median of the rounds. ``inspection`` is
the share of a round that is neither drafting nor the pass. ``cpu`` is the processor's time, which
other work on the machine disturbs less. Ids are to be those of plain decoding, or to part where two
tokens are nearer to each other than the dtype's measured drift; else the exit code is 1. The last
line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from engine.acceptance import Acceptance, acceptance
from engine.api import open_model
from engine.backends.base import Backend
from engine.drafts.early_exit import EarlyExit
from engine.drafts.ngram import PromptLookup
from engine.measure.near_tie import first_parting
from engine.run.speculation import Speculation
from engine.run.stepper import Stepper
from engine.sampling.chain import effective

CODE = """class Point:
    def __init__(self, x, y):
        self.x = x
        self.y = y

    def __repr__(self):
        return f"Point({self.x}, {self.y})"

# The same class once more:
class Point:
    def __init__(self, x, y):
        self.x = x
"""
PROSE = "Once upon a time, in a small village by the sea, there lived an old man who"
PROMPTS = {"repeating code": CODE, "prose": PROSE}
DRAFTS = (2, 4, 6, 8)
PLAIN = "plain"


@dataclass
class Turns:
    """Turns of one contender: milliseconds a token, wall and processor, and its last run."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    run: Stepper | None = None

    @property
    def rounds(self) -> Acceptance:
        """Figures of the last run's rounds, but for first passes of a new shape."""
        found = list(self.run.rounds.values()) if self.run is not None else []
        return acceptance([one for one in found if not one.warmup] or found)


def turn(
    backend: Backend, prompt: str, draft: Speculation | None, tokens: int, into: Turns
) -> None:
    """Decode ``tokens`` tokens greedily, behind a first one that is not timed."""
    run = Stepper(backend, effective("guide", {"temperature": 0.0}), max_tokens=tokens + 1)
    run.speculation = draft
    run.submit(prompt)
    for _ in run.prefill():
        pass
    node, count = run.grow(0)[-1].node, 1
    wall, cpu = time.perf_counter(), time.process_time()
    while count <= tokens:  # not run(): it would end at a stop token
        steps = run.grow(node)
        node, count = steps[-1].node, count + len(steps)
    into.wall.append((time.perf_counter() - wall) * 1000 / (count - 1))
    into.cpu.append((time.process_time() - cpu) * 1000 / (count - 1))
    into.run = run


def measured(
    backend: Backend, prompt: str, tokens: int, rounds: int
) -> tuple[dict[str, dict[str, Any]], bool]:
    """Every contender's figures on one prompt, and whether ids are as they must be."""
    layers = max(1, backend.facts.layers * 2 // 3)
    contenders: dict[str, Speculation | None] = {PLAIN: None}
    contenders |= {f"ngram, {k} drafts": Speculation(PromptLookup(), k) for k in DRAFTS}
    contenders[f"self:{layers}, 4 drafts"] = Speculation(EarlyExit(layers, backend), 4)
    turns = {name: Turns() for name in contenders}
    for round_ in range(rounds + 1):
        for name, draft in contenders.items():
            # The first round warms up.
            turn(backend, prompt, draft, tokens, turns[name] if round_ else Turns())
    plain, right = turns[PLAIN], True
    figures = {}
    for name, one in turns.items():
        assert plain.run is not None
        assert one.run is not None
        parting = first_parting(plain.run, one.run)
        right = right and (parting is None or parting.near_tie)
        figures[name] = _figures(one, plain) | {"ids": parting.words if parting else "same"}
        print(_line(name, figures[name]), flush=True)
    return figures, right


def _figures(one: Turns, plain: Turns) -> dict[str, Any]:
    found = one.rounds
    spent = found.draft_ms + found.verify_ms + found.rest_ms
    ratios = [theirs / ours for theirs, ours in zip(plain.wall, one.wall, strict=True)]
    cpu = [theirs / ours for theirs, ours in zip(plain.cpu, one.cpu, strict=True)]
    return {
        "token_ms": statistics.median(one.wall),
        "cpu_ms": statistics.median(one.cpu),
        "speed_up": statistics.median(ratios),
        "cpu_speed_up": statistics.median(cpu),
        "acceptance": found.rate,
        "tokens_per_pass": found.tokens_per_pass,
        "verify_ms": found.verify_ms / found.rounds if found.rounds else None,
        "inspection": found.rest_ms / spent if spent else None,
    }


def _line(name: str, figures: Mapping[str, Any]) -> str:
    rate, rest, verify = (figures[one] for one in ("acceptance", "inspection", "verify_ms"))
    return (
        f"  {name:<20} {figures['token_ms']:7.2f} ms a token {figures['speed_up']:5.2f}x "
        f"(cpu {figures['cpu_speed_up']:4.2f}x)  "
        f"accepted {'—' if rate is None else f'{rate:.0%}':>4}  "
        f"pass {'—' if verify is None else f'{verify:.1f} ms':>8}  "
        f"inspection {'—' if rest is None else f'{rest:.1%}':>5}  ids {figures['ids']}"
    )


def best(results: Mapping[str, Any]) -> str:
    """The dtype that is best for several rows, and what prompt lookup brings there."""
    prompt = next(iter(PROMPTS))
    found = []
    for dtype, of in results.items():
        ngram = {name: one for name, one in of[prompt].items() if name.startswith("ngram")}
        name = min(ngram, key=lambda one: ngram[one]["token_ms"])
        found.append((ngram[name]["token_ms"], dtype, name, ngram[name]["speed_up"]))
    ms, dtype, name, speed = min(found)
    return f"{prompt}: best in {dtype}, {name}: {ms:.2f} ms a token, {speed:.2f}x plain decoding"


def main() -> int:
    """Take turns, print tables, and the figures as one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model")
    parser.add_argument("--dtype", nargs="+", default=["float32", "float16", "bfloat16"])
    parser.add_argument("--threads", type=int)
    parser.add_argument("--tokens", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    results: dict[str, dict[str, Any]] = {}
    right, name = True, ""
    for dtype in args.dtype:
        backend = open_model(args.model, dtype=dtype, threads=args.threads)
        name, own = backend.facts.name, results.setdefault(backend.facts.dtype, {})
        for about, prompt in PROMPTS.items():
            print(f"{about}: {args.tokens} tokens, {backend.facts.dtype}", flush=True)
            own[about], held = measured(backend, prompt, args.tokens, args.rounds)
            right = right and held
        backend.close()
    print(best(results))
    machine = {"cpus": os.cpu_count(), "threads": args.threads}
    print(json.dumps({"unit": "ms", "model": name, **machine, "results": results}))
    return 0 if right else 1


if __name__ == "__main__":
    raise SystemExit(main())
