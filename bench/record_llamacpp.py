"""Record what llama.cpp's own server keeps of real distributions, to hold the preset against.

    python -m venv V && V/bin/pip install xllamacpp numpy
    V/bin/python bench/record_llamacpp.py MODEL.gguf tests/data/llamacpp.npz

The server runs in this process with its own defaults; each request sets only the dials of its
case, and sends and takes token ids. It gives log-probabilities and not logits: a repetition penalty
depends on the unknown offset between the two, which is solved here from one penalised token, and
kept as ``offset``; that penalty is then a check of every other token and factor.
"""

from __future__ import annotations

import json
import math
import sys
import urllib.request
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import xllamacpp

from bench import sampler_recording

PROMPTS = (
    "The capital of France is",
    "def add(a, b):\n    return a + b\n\ndef sub(a, b):\n    return",
    "The cat sat on the mat. The dog sat on the mat. The cat sat on the",
    'Q: Who wrote "Hamlet"?\nA: Shakespeare.\n\nQ: Who wrote "Emma"?\nA:',
    "Once upon a time, in a small village by the sea,",
)

SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"top_k": 1},
    {"top_k": 5},
    {"top_k": -1},
    {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "temperature": 1.0},
    {"temperature": 0.3},
    {"temperature": 1.5, "top_k": 100},
    {"temperature": 0.0},
    {"top_p": 0.5},
    {"top_p": 0.9, "top_k": 0, "min_p": 0.0},
    {"top_p": 0.0},
    {"top_p": 0.8, "min_p": 0.0, "temperature": 1.0},
    {"min_p": 0.2},
    {"min_p": 0.01, "top_k": 0, "top_p": 1.0},
    {"min_p": 0.001, "top_k": 0, "top_p": 1.0},
    {"min_p": 0.9},
    {"min_keep": 3, "top_p": 0.1},
    {"min_keep": 5, "min_p": 0.9},
    {"min_keep": 8, "top_p": 0.1, "min_p": 0.5, "typical_p": 0.2},
    {"min_keep": 4, "xtc_probability": 1.0, "xtc_threshold": 0.05, "top_k": 6},
    {"typical_p": 0.2},
    {"typical_p": 0.5, "top_k": 0},
    {"typical_p": 0.95, "min_p": 0.0},
    {"typical_p": 0.7, "top_p": 1.0, "min_p": 0.0, "top_k": 200},
    {"xtc_probability": 1.0, "xtc_threshold": 0.1},
    {"xtc_probability": 1.0, "xtc_threshold": 0.02, "min_p": 0.0},
    {"xtc_probability": 1.0, "xtc_threshold": 0.6},
    {"xtc_probability": 1.0, "xtc_threshold": 0.0, "top_k": 20},
    {"top_n_sigma": 1.0},
    {"top_n_sigma": 0.5, "top_k": 0},
    {"top_n_sigma": 3.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0},
    {"dynatemp_range": 0.5},
    {"dynatemp_range": 0.5, "dynatemp_exponent": 2.0, "temperature": 1.0},
    {"dynatemp_range": 2.0, "temperature": 1.0, "min_p": 0.0},
    {"frequency_penalty": 0.5},
    {"presence_penalty": 1.0},
    {"frequency_penalty": 0.3, "presence_penalty": 0.3, "penalty_last_n": 4},
    {"repetition_penalty": 1.1},
    {"repetition_penalty": 1.5, "penalty_last_n": 8, "min_p": 0.0},
    {"dry_multiplier": 0.8},
    {"dry_multiplier": 2.0, "dry_allowed_length": 1, "top_k": 0, "min_p": 0.01},
    {"dry_multiplier": 0.8, "dry_base": 1.2, "dry_last_n": 12, "dry_breakers": "'mat. The'"},
    {"mirostat_version": 2, "mirostat_tau": 3.0, "mirostat_eta": 0.1},
    {"mirostat_version": 1, "mirostat_tau": 3.0, "mirostat_eta": 0.1, "temperature": 1.0},
)

_NAMES = {
    "penalty_last_n": "repeat_last_n",
    "repetition_penalty": "repeat_penalty",
    "dry_last_n": "dry_penalty_last_n",
    "mirostat_version": "mirostat",
}
_BREAKERS = {"'mat. The'": ["mat. The"]}
_SOLVING = 2.0
"""The repetition penalty from whose effect the offset is solved."""


def main(model: str, target: str) -> None:
    """Record every setting on every prompt."""
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.n_ctx = 1024
    params.n_parallel = 1
    server = xllamacpp.Server(params)
    prompts = [_tokenize(server, text) for text in PROMPTS]
    raws = [_ask(server, ids, {}, 1 << 20, after=False) for ids in prompts]
    offsets = [_offset(server, ids, raw) for ids, raw in zip(prompts, raws, strict=True)]
    cases, kept = [], []
    for at, ids in enumerate(prompts):
        for dials in SETTINGS:
            cases.append({"context": at, "dials": dials})
            kept.append(_ask(server, ids, dials, sampler_recording.MOST_KEPT, after=True))
    about: dict[str, Any] = {
        "engine": "llama.cpp (llama-server)",
        "version": f"xllamacpp {version('xllamacpp')}",
        "raw": "log-probabilities",
        "vocab_size": max(map(len, raws)),
        "most_kept": sampler_recording.MOST_KEPT,
        "contexts": [
            {"prompt_ids": ids, "output_ids": [], "text": text, "offset": offset}
            for text, ids, offset in zip(PROMPTS, prompts, offsets, strict=True)
        ],
        "cases": cases,
    }
    sampler_recording.write(Path(target), about, raws, kept, about["vocab_size"])


def _ask(
    server: Any, ids: list[int], dials: dict[str, Any], count: int, *, after: bool
) -> dict[int, float]:
    """The ``count`` likeliest ids: probability after the chain, or log-probability before it."""
    asked = {_NAMES.get(name, name): value for name, value in dials.items()}
    written = asked.pop("dry_breakers", None)
    if written is not None:
        asked["dry_sequence_breakers"] = _BREAKERS[written]
    request = {"prompt": ids, "n_predict": 1, "n_probs": count, "seed": 1, **asked}
    answer = server.handle_completions({**request, "post_sampling_probs": after})
    if "choices" not in answer:
        raise SystemExit(f"{dials}: {answer}")
    token = answer["choices"][0]["logprobs"]["content"][0]
    if after:
        return {one["id"]: one["prob"] for one in token["top_probs"] if one["prob"] > 0}
    return {one["id"]: one["logprob"] for one in token["top_logprobs"]}


def _offset(server: Any, ids: list[int], raw: dict[int, float]) -> float:
    """The constant to add to the log-probabilities to have the logits.

    A seen token's logit l becomes l / r where it is positive and l * r where it is not: in relation
    to a token that was not seen it moves by ``l * (1 - 1 / r)`` or ``l * (1 - r)``. Each seen token
    allows two offsets; the one that most of them agree on is right.
    """
    dials = {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "temperature": 1.0, "penalty_last_n": 64}
    count = sampler_recording.MOST_KEPT
    changed = _ask(server, ids, {**dials, "repetition_penalty": _SOLVING}, count, after=True)
    unseen = next(one for one in changed if one not in ids)
    possible: list[float] = []
    for token in {one for one in ids if one in changed}:
        moved = (raw[token] - raw[unseen]) - math.log(changed[token] / changed[unseen])
        if moved < 0:
            continue  # penalised logits only fall; this is the rounding of one near 0
        possible += [moved / (1 - 1 / _SOLVING) - raw[token], moved / (1 - _SOLVING) - raw[token]]
    if not possible:
        raise SystemExit("no seen token is likely enough to solve the offset from")
    close = [sum(abs(one - other) < 0.02 for other in possible) for one in possible]
    print(f"an offset that {max(close)} of {len(possible) // 2} tokens agree on")
    return possible[close.index(max(close))]


def _tokenize(server: Any, text: str) -> list[int]:
    request = urllib.request.Request(
        f"{server.listening_address}/tokenize",
        json.dumps({"content": text, "add_special": False}).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        tokens: list[int] = json.load(answer)["tokens"]
    return tokens


if __name__ == "__main__":
    main(*sys.argv[1:])
