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
            figures = _measured(url, given.steps)
    if given.record:
        with _server(given, MOST) as url, recording(given.record, given.model):
            talk(url)
    print(json.dumps(figures))


def _measured(url: str, steps: int) -> dict[str, object]:
    """Time steps with some numbers of log-probabilities, and print what the server can."""
    figures: dict[str, object] = {}
    for top in (20, 100, 1000):
        figures[f"step_ms_top_{top}"] = _timed(url, top, steps)
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
    for token_id in range(48, 80):
        backend.token(token_id)
    backend.close()
    return ids


def _timed(url: str, top: int, steps: int) -> float:
    """Milliseconds of a greedy step, the median."""
    backend = open_backend("vllm", {"url": url, "top": top})
    stepper = Stepper(backend, effective("guide", {"temperature": 0.0}), max_tokens=steps + 1)
    stepper.submit(PROMPT)
    found = [stepper.step().timing for _ in range(steps)]
    median = statistics.median(one.total_ms for one in found[1:])
    parsing = statistics.median(one.engine.parse_ms for one in found[1:] if one.engine)
    print(f"top {top:>5}: {median:6.1f} ms a step, of which {parsing:.2f} parsing")
    backend.close()
    return round(median, 2)


def _server(given: argparse.Namespace, most: str) -> AbstractContextManager[str]:
    told = ("--max-logprobs", most, "--enable-prompt-tokens-details")
    return serving(given.python, given.model, 8766, *told)


if __name__ == "__main__":
    main()
