"""Cost of inspecting the sampler: whole ladders with every trace, the draw and the table.

    python bench/sampling.py [--rounds 40] [--model MODEL | --no-model]

Chains take turns on the same vectors in one process; shown are the median and the fastest turn,
because other programs can only make a turn slower. Vectors are synthetic: ``model`` is shaped like
a language model's logits (a few likely tokens, a long tail), ``wide`` has thousands of likely ones.
With a model (the default one, unless ``--no-model``), its own logits at its own vocabulary and the
time of its forward pass are measured too, and ladders are given as a share of the pass. The last
line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from engine.records.arrays import FloatArray
from engine.records.vocabulary import Token
from engine.sampling.chain import effective
from engine.sampling.explain import dial_flips, explain, with_dial
from engine.sampling.ladder import Chain, Ladder
from engine.sampling.loops import find_loop
from engine.sampling.repeat import repeat_draw
from engine.sampling.stages import StageContext

SIZES = (49_152, 151_936)
PROMPT = "Once upon a time, in a small village by the sea, there lived an old man who"
ROWS = 64
CONTEXT = StageContext(tuple(range(40)), tuple(range(100)), seed=1)
CHAINS = {
    "guide (default)": effective("guide", {}).chain,
    "hf": effective("hf", {}).chain,
    "llamacpp": effective("llamacpp", {}).chain,
    "vllm, top_p=0.95": effective("vllm", {"top_p": 0.95}).chain,
    "sglang, all four": effective("sglang", {"top_k": 40, "top_p": 0.95, "min_p": 0.05}).chain,
    "top_p=0.95 alone": effective("guide", {}, spec="temperature=1 > top_p=0.95").chain,
    "min_p=0.05 alone": effective("guide", {}, spec="temperature=1 > min_p=0.05").chain,
    "typical, epsilon, eta": effective(
        "guide", {"typical_p": 0.9, "epsilon_cutoff": 1e-3, "eta_cutoff": 1e-3}
    ).chain,
    "penalties and DRY": effective(
        "guide", {"repetition_penalty": 1.1, "frequency_penalty": 0.1, "dry_multiplier": 0.8}
    ).chain,
}


@dataclass
class Timed:
    """One thing that is done again and again, and how long each time took, in milliseconds."""

    about: dict[str, Any]
    run: Callable[[], object]
    times: list[float] = field(default_factory=list)

    def turn(self) -> None:
        start = time.perf_counter_ns()
        self.run()
        self.times.append((time.perf_counter_ns() - start) / 1e6)

    @property
    def median(self) -> float:
        return statistics.median(self.times)

    @property
    def best(self) -> float:
        return min(self.times)


def synthetic(size: int, kind: str) -> FloatArray:
    rng = np.random.default_rng(size)
    values = rng.standard_normal(size)
    if kind == "model":
        values = values * 2.5 - 8
        values[rng.choice(size, 25, replace=False)] += rng.uniform(8, 18, 25)
    return values.astype(np.float32)


def step(chain: Chain, logits: FloatArray) -> tuple[Ladder, object, object]:
    """All that the Stepper does with one step's logits."""
    ladder = chain.run(logits, CONTEXT)
    drawn = chain.choose(ladder, CONTEXT)
    return ladder, drawn, ladder.table(ROWS, lambda i: Token(i, b""), also=(drawn.token_id,))


def ladders(vectors: dict[tuple[str, int], FloatArray]) -> list[Timed]:
    return [
        Timed(
            {"figure": "ladder", "chain": name, "vocabulary": size, "logits": kind},
            partial(step, chain, logits),
        )
        for (kind, size), logits in vectors.items()
        for name, chain in CHAINS.items()
    ]


def others(logits: FloatArray) -> list[Timed]:
    """The screen's requests at one cursor."""
    chain = CHAINS["guide (default)"]
    ladder = chain.run(logits, CONTEXT)
    drawn = chain.choose(ladder, CONTEXT)
    rows = ladder.model.ids[ladder.model.order(ROWS)[:ROWS]].tolist()
    warmer = with_dial(chain, 0, "temperature", 0.9)
    ids = (list(range(300)) + [7, 8, 9] * 400)[:1400]
    about = {"chain": "guide (default)", "vocabulary": logits.size, "logits": "model"}
    todo: dict[str, Callable[[], object]] = {
        "a dial moved": lambda: step(warmer, logits),
        "explain 64 tokens": lambda: [
            explain(chain, ladder, CONTEXT, token, saving=False) for token in rows
        ],
        "smallest saving change": lambda: explain(chain, ladder, CONTEXT, rows[50]),
        "flips of all dials": lambda: dial_flips(chain, ladder, CONTEXT, drawn),
        "draw x100": lambda: repeat_draw(ladder.final, 100, 1, 1),
        "draw x10,000": lambda: repeat_draw(ladder.final, 10_000, 1, 1),
        "loop watch": lambda: find_loop(ids),
    }
    return [Timed({"figure": name, **about}, run) for name, run in todo.items()]


def take_turns(timed: list[Timed], rounds: int) -> None:
    for one in timed:
        one.run()
    for _ in range(rounds):
        for one in timed:
            one.turn()


def forward(model: str | None, rounds: int) -> tuple[dict[str, Any], FloatArray]:
    """(the model's decode pass, its logits after a prompt)."""
    from engine.backends import open_backend

    backend = open_backend("hf", {"model": model, "device": "cpu"}, lambda *_: None)
    ids = backend.tokenize(PROMPT, chat=False, system=None).ids
    backend.seek(ids)
    logits = backend.forward([(backend.sequence, ids)]).logits
    times = [backend.forward([(backend.sequence, ids[-1:])]).ms for _ in range(4 + rounds)][4:]
    facts = backend.facts
    backend.close()
    pass_ = {
        "model": facts.name,
        "dtype": facts.dtype,
        "cpu": facts.device_name,
        "median": statistics.median(times),
        "best": min(times),
    }
    return pass_, logits


def report(timed: list[Timed], pass_: dict[str, Any] | None, rounds: int) -> None:
    figures: list[dict[str, Any]] = []
    print(f"{'':34}{'logits':>8}{'tokens':>10}{'median ms':>11}{'best ms':>9}{'of a pass':>11}")
    for one in timed:
        about = one.about
        share = ""
        if pass_ is not None and about["vocabulary"] == SIZES[0]:
            share = f"{one.median / pass_['median']:.1%}"
        name = about["chain"] if about["figure"] == "ladder" else about["figure"]
        print(
            f"{name:34}{about['logits']:>8}{about['vocabulary']:>10,}"
            f"{one.median:11.3f}{one.best:9.3f}{share:>11}"
        )
        figures.append({**about, "value": one.median, "best": one.best, "unit": "ms"})
    if pass_ is not None:
        name = f"forward pass of {pass_['model']}, {pass_['dtype']}"
        print(f"{name:52}{pass_['median']:11.3f}{pass_['best']:9.3f}")
        value, best = pass_.pop("median"), pass_.pop("best")
        figures.append({"figure": "forward", **pass_, "value": value, "best": best, "unit": "ms"})
    machine = {
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    summary = {"bench": "sampling", "rounds": rounds, "figures": figures, "machine": machine}
    print(json.dumps(summary, allow_nan=False))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=40, help="turns each (default 40)")
    parser.add_argument("--model", help="hub id, folder or .gguf file (default: the default model)")
    parser.add_argument("--no-model", action="store_true", help="synthetic logits only, no torch")
    args = parser.parse_args()
    kinds = [(kind, size) for size in SIZES for kind in ("model", "wide")]
    vectors = {(kind, size): synthetic(size, kind) for kind, size in kinds}
    pass_ = None
    if not args.no_model:
        pass_, logits = forward(args.model, args.rounds)
        vectors = {("real", logits.size): logits, **vectors}
    timed = ladders(vectors) + others(vectors["model", SIZES[0]])
    take_turns(timed, args.rounds)
    report(timed, pass_, args.rounds)


if __name__ == "__main__":
    main()
