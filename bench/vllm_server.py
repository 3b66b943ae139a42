"""Step a real vLLM server, and write down a talk with it for the tests.

    python bench/vllm_server.py V/bin/python MODEL_FOLDER [--record tests/data/vllm_talk.json.gz]

``V`` is an environment with vLLM, made as bench/record_vllm.py says. The server is started twice:
with any number of log-probabilities, to be timed, and with 50 at most, as its default is to limit
them, for the talk. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from contextlib import AbstractContextManager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.vllm_process import serving
from engine.backends import open_backend
from engine.backends.http.client import Client
from engine.run.stepper import Stepper
from engine.sampling.chain import effective
from tests.talks import recording

PROMPT = "The capital of France is"
STEPS = 6
MOST = "50"


def main() -> None:
    """Start it, time it, record it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("python")
    parser.add_argument("model")
    parser.add_argument("--record", type=Path)
    parser.add_argument("--steps", type=int, default=24, help="0: no timing")
    given = parser.parse_args()
    figures: dict[str, object] = {}
    if given.steps:
        with _server(given, "-1") as url:
            figures = _measured(url, given.steps, given.model)
    if given.record:
        with _server(given, MOST) as url, recording(given.record, given.model):
            talk(url)
    print(json.dumps(figures))


def _measured(url: str, steps: int, tokenizer: str) -> dict[str, object]:
    """Time steps with some numbers of log-probabilities, and print what the server can."""
    figures: dict[str, object] = {}
    for top in (20, 100, 1000):
        figures |= _timed(url, top, steps)
    figures |= _timed(url, 100, steps, tokenizer=tokenizer)
    backend = open_backend("vllm", {"url": url})
    for one in backend.facts.probed:
        print(f"{one.name:<26} {one.value or 'n/a'} ({one.note})")
    figures["attach_ms"] = round(backend.facts.load_ms, 1)
    figures["versions"] = backend.facts.versions
    backend.close()
    return figures


def talk(url: str) -> list[int]:
    """Ask for all that the tests ask for again; the ids of a greedy run."""
    backend = open_backend("vllm", {"url": url, "top": int(MOST)})
    stepper = Stepper(backend, effective("guide", {"temperature": 0.0}))
    stepper.submit(PROMPT)
    ids = [stepper.step().token.id for _ in range(STEPS)]
    stepper.extend(stepper.path()[2].node, force=stepper.path()[3].top.ids[1].item())
    stepper.submit("Hello", chat=True, system="Be brief.")
    backend.forward((([], stepper.path_ids(0)),), all_positions=True)
    backend.forward([([504, 3575], [282]), ([504], [3575])])
    for token_id in range(48, 80):
        backend.token(token_id)
    backend.close()
    return ids


def _timed(url: str, top: int, steps: int, **more: str) -> dict[str, float]:
    """Medians of greedy steps, each after vLLM's own greedy token without log-probabilities."""
    backend = open_backend("vllm", {"url": url, "top": top, **more})
    stepper = Stepper(backend, effective("guide", {"temperature": 0.0}), max_tokens=steps + 1)
    stepper.submit(PROMPT)
    plain, client = {"model": "m", "max_tokens": 1, "temperature": 0}, Client(url)
    own, found = [], []
    for _ in range(steps):
        ids = stepper.path_ids(stepper.cursor)
        own.append(client.post("/v1/completions", {**plain, "prompt": ids}).network_ms)
        found.append(stepper.step().timing)
    backend.close()
    figures = {
        "step_ms": statistics.median(one.total_ms for one in found[1:]),
        "pass_ms": statistics.median(one.forward_ms for one in found[1:]),
        "vllm_ms": statistics.median(own[1:]),
    }
    name = f"top {top:,}{' with a tokenizer' if more else ''}"
    print(
        f"{name:<26}{figures['step_ms']:7.1f} ms a step, of which {figures['pass_ms']:.1f} the "
        f"request; vLLM's own token {figures['vllm_ms']:.1f}"
    )
    key = f"top_{top}{'_tokenizer' if more else ''}"
    return {f"{part}_{key}": round(value, 2) for part, value in figures.items()}


def _server(given: argparse.Namespace, most: str) -> AbstractContextManager[str]:
    told = ("--max-logprobs", most, "--enable-prompt-tokens-details")
    return serving(given.python, given.model, 8766, *told)


if __name__ == "__main__":
    main()
