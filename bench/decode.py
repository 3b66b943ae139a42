"""Speed of a decode step: transformers' generate(), a bare forward loop, and our Stepper.

    python bench/decode.py [--model MODEL] [--tokens 24] [--rounds 9] [--threads N]

They take short turns, so that whatever else the machine does meets them alike, and are compared
round by round; what is shown is the median of the rounds. Who takes turns: ``generate()`` as its
user runs it, in a process of its own with nothing of ours set (its own dtype, threads and greedy
loop), a bare loop of forward passes and argmax in the dtype that we chose, with transformers' own
layers, attention and cache, and the Stepper with every record kept: greedy like the others, and
with the default sampling chain. The bare loop and the Stepper run the same weights in the same
memory. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from engine.backends.base import Backend
from engine.backends.hf import load as hf_open
from engine.backends.hf import native_cache as hf_cache
from engine.measure.rivals import Generate
from engine.models import resolve as models
from engine.records.step import StepRecord
from engine.run.stepper import Stepper
from engine.sampling.chain import effective

if TYPE_CHECKING:
    from engine.backends.hf.backend import HFBackend

PROMPT = "Once upon a time, in a small village by the sea, there lived an old man who"


@dataclass
class Contender:
    """One way to decode: ``run(tokens)`` gives the milliseconds of each step after the first."""

    name: str
    dtype: str
    run: Callable[[int], list[float]]
    rounds: list[float] = field(default_factory=list)
    """The median step of each round, in milliseconds."""

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    def over(self, other: Contender) -> float:
        """This one's time over the other's: the median of the rounds' own ratios."""
        pairs = zip(self.rounds, other.rounds, strict=True)
        return statistics.median(ours / theirs for ours, theirs in pairs)


def bare(backend: HFBackend, ids: list[int]) -> Callable[[int], list[float]]:
    """Nothing but forward passes and argmax."""
    import torch

    model = backend.model
    name = hf_cache.argument_of(model) or "cache"

    def run(tokens: int) -> list[float]:
        times = []
        with backend.side_sequence(cached=False), torch.inference_mode():
            output = model(torch.tensor([ids]), use_cache=True, logits_to_keep=1)
            token, cache = output.logits[0, -1].argmax(), getattr(output, name)
            times.append(time.perf_counter())
            for _ in range(tokens - 1):
                output = model(token.view(1, 1), use_cache=True, **{name: cache})
                token = output.logits[0, -1].argmax()
                times.append(time.perf_counter())
        return [(b - a) * 1000 for a, b in pairwise(times)]

    return run


def stepper(
    backend: HFBackend, ids: list[int], dials: dict[str, float]
) -> Callable[..., list[float]]:
    """Our own, keeping every record: sampling, traces, figures and all.

    Like the others, it finds nothing of an earlier turn.
    """

    def run(tokens: int) -> list[float]:
        backend.clear()
        made = Stepper(backend, effective("guide", dials), max_tokens=tokens)
        made.submit_ids(ids)
        for _ in made.prefill():
            pass
        records: list[StepRecord] = [made.step()]
        times = [time.perf_counter()]
        for _ in range(tokens - 1):
            records.append(made.step())
            times.append(time.perf_counter())
        return [(b - a) * 1000 for a, b in pairwise(times)]

    return run


def measure(contenders: list[Contender], tokens: int, rounds: int) -> None:
    """Let them take turns, each round beginning with another one; the first round warms up."""
    for round_ in range(rounds + 1):
        for turn in range(len(contenders)):
            contender = contenders[(turn + round_) % len(contenders)]
            gaps = contender.run(tokens if round_ else min(tokens, 8))
            if round_:
                contender.rounds.append(statistics.median(gaps))


def machine(backend: Backend) -> dict[str, Any]:
    facts = backend.facts
    return {
        "cpu": facts.device_name,
        "cores": os.cpu_count(),
        "threads": facts.threads,
        "device": facts.device,
        **facts.versions,
    }


def report(backend: Backend, contenders: list[Contender], args: argparse.Namespace) -> None:
    by_name = {one.name: one for one in contenders}
    theirs, loop = by_name["generate"], by_name["bare loop"]
    print(f"{backend.facts.name} on {backend.facts.device_name}, {backend.facts.threads} threads")
    print(backend.facts.dtype_reason)
    print(f"{args.rounds} rounds of {args.tokens} tokens, after {len(PROMPT.split())} words")
    print(f"{'':22}{'dtype':10}{'ms a token':>11}{'tokens/s':>10}{'x generate':>12}{'x bare':>8}")
    figures: list[dict[str, Any]] = []
    for one in contenders:
        ratio, bare_ratio = theirs.over(one), one.over(loop)
        print(
            f"{one.name:22}{one.dtype:10}{one.median:11.2f}{1000 / one.median:10.1f}"
            f"{ratio:12.2f}{bare_ratio:8.3f}"
        )
        about = {"contender": one.name, "dtype": one.dtype, "rounds": len(one.rounds)}
        figures += [
            {**about, "figure": "step", "value": one.median, "unit": "ms"},
            {**about, "figure": "step, best round", "value": min(one.rounds), "unit": "ms"},
            {**about, "figure": "speed over generate", "value": ratio, "unit": "ratio"},
            {**about, "figure": "time over bare loop", "value": bare_ratio, "unit": "ratio"},
        ]
    summary = {
        "bench": "decode",
        "model": backend.facts.name,
        "tokens": args.tokens,
        "rounds": args.rounds,
        "figures": figures,
        "machine": machine(backend),
    }
    print(json.dumps(summary, allow_nan=False))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", help="hub id, folder or .gguf file (default: the default model)")
    parser.add_argument("--tokens", type=int, default=24, help="tokens a turn (default 24)")
    parser.add_argument("--rounds", type=int, default=9, help="turns each (default 9)")
    parser.add_argument("--dtype", default="auto", help="ours (default: as a session would)")
    parser.add_argument("--threads", type=int, help="CPU threads (default: torch's own choice)")
    args = parser.parse_args()
    backend = hf_open.open_backend(
        {"model": args.model, "device": "cpu", "dtype": args.dtype, "threads": args.threads},
        lambda *_: None,
    )
    ids = list(backend.tokenize(PROMPT, chat=False, system=None).ids)
    rival = Generate(models.resolve(args.model).path)
    dtype = backend.facts.dtype
    contenders = [
        Contender("generate", rival.dtype, lambda tokens: rival.gaps(ids, tokens)),
        Contender("bare loop", dtype, bare(backend, ids)),
        Contender("stepper, greedy", dtype, stepper(backend, ids, {"temperature": 0.0})),
        Contender("stepper, sampling", dtype, stepper(backend, ids, {})),
    ]
    try:
        measure(contenders, args.tokens, args.rounds)
    finally:
        rival.close()
    report(backend, contenders, args)


if __name__ == "__main__":
    main()
