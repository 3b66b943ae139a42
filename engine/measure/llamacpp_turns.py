"""llama.cpp decoding in a process of its own, to measure ours against.

The process runs this file as a script that imports nothing of ours: llama.cpp's server with its own
defaults, asked through no socket, and told to go on past a stop token.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any


def _gaps(server: Any, ids: Sequence[int], tokens: int) -> list[float]:
    """Milliseconds between the tokens of a greedy completion that are text of their own."""
    times: list[float] = []
    errors: list[str] = []

    def came(chunk: bytes) -> None:
        at = time.perf_counter()
        told = json.loads(chunk)
        if "error" in told:
            errors.append(str(told["error"])[:200])
        elif any(one.get("text") for one in told.get("choices", ())):
            times.append(at)

    asked = {
        "prompt": list(ids),
        "n_predict": tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "cache_prompt": False,
    }
    server.handle_completions(json.dumps(asked).encode(), came)
    if errors or len(times) < 2:
        raise RuntimeError(errors[0] if errors else "llama.cpp gave fewer than two tokens")
    return [(after - before) * 1000 for before, after in pairwise(times)]


def main(file: str, socket: str, context: str) -> None:
    """Load the model, then answer each line on standard input with one turn."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is no answer
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = file
    params.n_ctx = int(context)
    params.n_parallel = 1
    # Its server cannot be had without something to listen on; nobody else enters this folder.
    params.hostnames = [socket]
    params.verbosity = 1
    server = xllamacpp.Server(params)
    print(json.dumps({"dtype": "its own"}), file=out, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        gaps = _gaps(server, asked["ids"], asked["tokens"])
        print(json.dumps({"gaps": gaps}), file=out, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
