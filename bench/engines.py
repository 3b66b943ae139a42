"""Speed and memory of stepping through llama.cpp, against llama.cpp's own loop on the same file.

    python bench/engines.py [--model FILE.gguf] [--tokens 100] [--rounds 7] [--threads N]

They take turns. llama.cpp's loop runs in a process of its own as its user runs it: its defaults,
greedy, one request for all tokens. Ours is the Stepper with every record kept: greedy, which lets
the engine go on by itself, and drawing, a request a token; then drawing with other numbers of
log-probabilities, by which the default of --top was chosen. For five prompts the ids are compared
too. Times run from the first token to the last. Memory is the most that a process had resident,
with the part of it that is not the mapped file: of llama.cpp's loop, and of an engine of ours that
draws as many tokens once, in a process of its own too. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from engine.backends import open_backend
from engine.backends.base import Backend
from engine.models.bundled import DEFAULT, bundled_file
from engine.progress import silent
from engine.run.stepper import Stepper
from engine.sampling.chain import effective

PROMPTS = (
    "Once upon a time, in a small village by the sea, there lived an old man who",
    "The capital of France is",
    "def add(a, b):\n    return a + b\n\ndef sub(a, b):\n    return",
    'Q: Who wrote "Hamlet"?\nA: Shakespeare.\n\nQ: Who wrote "Emma"?\nA:',
    "1, 2, 3, 5, 8, 13,",
)
TOPS = (10, 20, 64, 100, 1000)
LOOP = """
import json, sys, time
import xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.verbosity = sys.argv[1], 1
if int(sys.argv[2]):
    params.cpuparams.n_threads = int(sys.argv[2])
server = xllamacpp.Server(params)
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    started = time.perf_counter()
    found = server.handle_completions(asked)
    passed = (time.perf_counter() - started) * 1000
    status = dict(one.split(":", 1) for one in open("/proc/self/status") if ":" in one)
    memory = [status["VmHWM"], status["RssAnon"]]
    print(json.dumps({"ms": passed, "found": found, "memory": memory}), flush=True)
"""
OURS = """
import json, sys
from engine.backends import open_backend
from engine.run.stepper import Stepper
from engine.sampling.chain import effective
wanted, text = json.loads(sys.argv[1]), sys.argv[2]
made = Stepper(open_backend("llamacpp", wanted), effective("llamacpp", {"temperature": 0.8}))
made.max_tokens = wanted["max_tokens"]
made.submit(text)
for _ in range(made.max_tokens):
    made.step()
status = dict(one.split(":", 1) for one in open("/proc/self/status") if ":" in one)
print(json.dumps([int(status[name].split()[0]) / 1024 for name in ("VmHWM", "RssAnon")]))
"""


class OwnLoop:
    """llama.cpp by itself, in its own process."""

    def __init__(self, path: Path, threads: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", LOOP, str(path), str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.memory = (0.0, 0.0)
        self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found

    def ask(self, **asked: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        answer = self._read()
        most, anonymous = (int(one.split()[0]) / 1024 for one in answer["memory"])
        self.memory = (max(self.memory[0], most), max(self.memory[1], anonymous))
        return answer

    def step_ms(self, ids: list[int], tokens: int) -> float:
        """Milliseconds a token, measured here, less those of the prompt, as it says them."""
        answer = self.ask(
            prompt=ids, n_predict=tokens, temperature=0.0, ignore_eos=True, cache_prompt=False
        )
        timings = answer["found"]["timings"]
        return float((answer["ms"] - timings["prompt_ms"]) / (timings["predicted_n"] - 1))

    def ids(self, ids: list[int], tokens: int) -> list[int]:
        """The ids that it chooses, greedily."""
        found = self.ask(
            prompt=ids, n_predict=tokens, temperature=0.0, n_probs=1, cache_prompt=False
        )
        content = found["found"]["choices"][0]["logprobs"]["content"]
        return [one["id"] for one in content]

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


@dataclass
class Contender:
    """One way to decode: ``run(tokens)`` gives milliseconds a token."""

    name: str
    run: Callable[[int], float]
    rounds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    def speed_over(self, other: Contender) -> float:
        """This one's speed over the other's: the median of the rounds' own ratios."""
        pairs = zip(self.rounds, other.rounds, strict=True)
        return statistics.median(theirs / ours for ours, theirs in pairs)


def steps(backend: Backend, ids: list[int], dials: dict[str, float]) -> Callable[[int], float]:
    """Our own stepping, from nothing that an earlier turn has left."""

    def run(tokens: int) -> float:
        made = Stepper(backend, effective("llamacpp", dials), max_tokens=tokens)
        made.submit_ids(ids)
        for _ in made.prefill():
            pass
        times = []
        for _ in range(tokens):
            made.step()
            times.append(time.perf_counter())
        return statistics.mean((b - a) * 1000 for a, b in pairwise(times))

    return run


def same_ids(backend: Backend, loop: OwnLoop, tokens: int) -> list[bool]:
    """For each prompt: the greedy ids through us are those that llama.cpp gives itself."""
    found = []
    for prompt in PROMPTS:
        made = Stepper(backend, effective("llamacpp", {"temperature": 0.0}), max_tokens=tokens)
        ids = made.submit(prompt).ids
        ours = [step.token.id for step in made.run()]
        theirs = loop.ids(list(ids), tokens)
        found.append(ours[: len(theirs)] == theirs and len(ours) - len(theirs) in (0, 1))
    return found


def memory(wanted: dict[str, Any]) -> tuple[float, float]:
    """(most ever resident, not backed by a file at the end) of an engine that draws, MiB."""
    told = subprocess.run(
        [sys.executable, "-c", OURS, json.dumps(wanted), PROMPTS[0]],
        cwd=Path(__file__).resolve().parent.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    most, anonymous = json.loads(told.stdout)
    return most, anonymous


def measure(contenders: list[Contender], tokens: int, rounds: int) -> None:
    """Let them take turns, each round beginning with another one; the first round warms up."""
    for round_ in range(rounds + 1):
        for turn in range(len(contenders)):
            contender = contenders[(turn + round_) % len(contenders)]
            ms = contender.run(tokens if round_ else 8)
            if round_:
                contender.rounds.append(ms)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", help=".gguf file (default: the default model's own)")
    parser.add_argument("--tokens", type=int, default=100, help="tokens a turn (default 100)")
    parser.add_argument("--rounds", type=int, default=7, help="turns each (default 7)")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads of both")
    parser.add_argument("--context", type=int, help="--context of ours")
    parser.add_argument(
        "--tops",
        action="store_true",
        help="also with other --top; each is an engine more in this process, in the others' way",
    )
    args = parser.parse_args()
    path = Path(args.model) if args.model else bundled_file(DEFAULT, silent, offline=False)
    wanted = {
        "model": str(path.resolve()),
        "threads": args.threads or None,
        "context": args.context,
        "max_tokens": args.tokens,
    }
    own = memory(wanted)
    backend, loop = open_backend("llamacpp", wanted), OwnLoop(path, args.threads)
    ids = list(backend.tokenize(PROMPTS[0], chat=False, system=None).ids)
    others = {
        top: open_backend("llamacpp", {**wanted, "top": top}) for top in (TOPS if args.tops else ())
    }
    drawing = {"temperature": 0.8}
    contenders = [
        Contender("llama.cpp's own loop", lambda tokens: loop.step_ms(ids, tokens)),
        Contender("ours, greedy", steps(backend, ids, {"temperature": 0.0})),
        Contender("ours, drawing", steps(backend, ids, drawing)),
        *(
            Contender(f"ours, drawing, --top {top}", steps(one, ids, drawing))
            for top, one in others.items()
        ),
    ]
    try:
        same = same_ids(backend, loop, args.tokens)
        measure(contenders, args.tokens, args.rounds)
    finally:
        loop.close()
    report(contenders, same, own, loop.memory, path, args)
    os._exit(0)


def report(
    contenders: list[Contender],
    same: list[bool],
    own: tuple[float, float],
    theirs: tuple[float, float],
    path: Path,
    args: argparse.Namespace,
) -> None:
    size = path.stat().st_size / 2**20
    print(f"{path.name}, {size:.1f} MiB; {args.rounds} rounds of {args.tokens} tokens")
    print(f"{'':26}{'ms a token':>11}{'tokens/s':>10}{'x its own loop':>16}")
    figures: list[dict[str, Any]] = []
    for one in contenders:
        ratio = one.speed_over(contenders[0])
        print(f"{one.name:26}{one.median:11.2f}{1000 / one.median:10.1f}{ratio:16.3f}")
        figures.append({"contender": one.name, "ms": one.median, "speed over its own loop": ratio})
    print(f"greedy ids are its own for {sum(same)} of {len(same)} prompts")
    for name, (most, anonymous) in (("ours", own), ("its own loop", theirs)):
        print(
            f"memory, {name}: {most:.0f} MiB at the most, {most / size:.2f} x the file; "
            f"{anonymous:.0f} MiB of it are not the file's"
        )
        figures.append({"contender": name, "peak_mib": most, "anonymous_mib": anonymous})
    summary = {
        "bench": "engines",
        "file": path.name,
        "file_mib": size,
        "tokens": args.tokens,
        "rounds": args.rounds,
        "same_ids": same,
        "figures": figures,
        "machine": {"cores": os.cpu_count()},
    }
    print(json.dumps(summary, allow_nan=False))


if __name__ == "__main__":
    main()
