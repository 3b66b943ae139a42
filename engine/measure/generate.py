"""transformers' own ``generate()`` in a process of its own, to measure ours against.

The process runs this file as a script that imports nothing of ours.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any


class _Clock:
    """A transformers streamer that only notes when each token came."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def put(self, value: Any) -> None:
        self.times.append(time.perf_counter())

    def end(self) -> None:
        pass


def _gaps(model: Any, ids: Sequence[int], tokens: int) -> list[float]:
    """Milliseconds between the tokens of a greedy ``generate()``: ``tokens - 1`` of them."""
    import torch

    prompt, clock = torch.tensor([list(ids)], device=model.device), _Clock()
    model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        do_sample=False,
        max_new_tokens=tokens,
        streamer=clock,
    )
    # The first call is the prompt; the gap after it is prefill.
    return [(after - before) * 1000 for before, after in pairwise(clock.times[1:])]


def main(folder: str, device: str, trust: str) -> None:
    """Load the model, say its dtype, then answer each line on standard input with one turn."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is no answer
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(
        folder, local_files_only=True, trust_remote_code=trust == "1"
    )
    model = model.to(device).eval()
    # It goes on past a stop token, so that whoever it is compared with does the same work.
    model.generation_config.eos_token_id = None
    dtype = str(next(model.parameters()).dtype).removeprefix("torch.")
    print(json.dumps({"dtype": dtype}), file=out, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        print(
            json.dumps({"gaps": _gaps(model, asked["ids"], asked["tokens"])}), file=out, flush=True
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
