"""Speed of speculative decoding against plain decoding, turn by turn in one process.

    python bench/speculation.py [--model MODEL] [--dtype float32] [--tokens 48] [--rounds 5]

Greedy decoding of a prompt that repeats itself and of prose: plain, prompt lookup with 2 to 8
drafts, and the model's own first layers. All keep every record. They take turns, so that whatever
else the machine does meets them alike; what is shown is the median of the rounds. ``inspection`` is
the share of a round that is neither drafting nor the pass. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from engine.acceptance import acceptance
from engine.api import open_model
from engine.backends.base import Backend
from engine.drafts.early_exit import EarlyExit
from engine.drafts.ngram import PromptLookup
from engine.run.speculation import Speculation
from engine.run.stepper import Stepper
from engine.sampling.chain import effective
from engine.timing import now_ms

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


def turn(backend: Backend, prompt: str, draft: Speculation | None, tokens: int) -> Stepper:
    """Decode ``tokens`` tokens greedily."""
    run = Stepper(backend, effective("guide", {"temperature": 0.0}), max_tokens=tokens)
    run.speculation = draft
    run.submit(prompt)
    node = 0
    for _ in run.prefill():
        pass
    while len(run.path(node)) < tokens:  # not run(): it would end at a stop token
        node = run.grow(node)[-1].node
    return run


def main() -> None:
    """Take turns, print a table, and the figures as one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    backend = open_model(args.model, dtype=args.dtype, threads=args.threads)
    contenders: dict[str, Speculation | None] = {"plain": None}
    contenders |= {f"ngram, {k} drafts": Speculation(PromptLookup(), k) for k in DRAFTS}
    layers = max(1, backend.facts.layers * 2 // 3)
    contenders[f"self:{layers}, 4 drafts"] = Speculation(EarlyExit(layers, backend), 4)
    results: dict[str, Any] = {}
    for name, prompt in PROMPTS.items():
        times: dict[str, list[float]] = {one: [] for one in contenders}
        runs: dict[str, Stepper] = {}
        for round_ in range(args.rounds + 1):
            for one, draft in contenders.items():
                run = turn(backend, prompt, draft, args.tokens)
                steps = run.path()[1:]
                if round_:  # the first warms up
                    total = sum(step.timing.total_ms for step in steps)
                    times[one].append(total / len(steps))
                    runs[one] = run
        plain = runs["plain"].path()
        print(f"{name}: {args.tokens} tokens, {backend.facts.dtype}")
        results[name] = {}
        for one, each in times.items():
            rounds = list(runs[one].rounds.values())
            found = acceptance(rounds)
            ratios = [a / b for a, b in zip(times["plain"], each, strict=True)]
            spent = found.draft_ms + found.verify_ms + found.rest_ms
            ours = runs[one].path()
            same = all(a.token.id == b.token.id for a, b in zip(plain, ours, strict=False))
            figures = {
                "token_ms": statistics.median(each),
                "speed_up": statistics.median(ratios),
                "acceptance": found.rate,
                "tokens_per_pass": found.tokens_per_pass,
                "inspection": found.rest_ms / spent if spent else None,
                "same_ids": same,
            }
            results[name][one] = figures
            rate = "—" if found.rate is None else f"{found.rate:.0%}"
            rest = "—" if not spent else f"{found.rest_ms / spent:.1%}"
            print(
                f"  {one:<20} {figures['token_ms']:8.2f} ms a token  {figures['speed_up']:5.2f}x  "
                f"accepted {rate:>4}  inspection {rest:>5}  ids {'same' if same else 'differ'}"
            )
    about = {"model": backend.facts.name, "dtype": backend.facts.dtype, "cpus": os.cpu_count()}
    print(json.dumps({"unit": "ms", **about, "tokens": args.tokens, "results": results}))


if __name__ == "__main__":
    started = now_ms()
    main()
    print(f"{(now_ms() - started) / 1000:.0f} s", file=sys.stderr)
