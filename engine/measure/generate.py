"""transformers' own ``generate()`` in a process of its own, to measure ours against.

The process runs this file as a script that imports nothing of ours, in the environment that we
were started with. A benchmark without a screen has set nothing in it for itself.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

LOAD_SECONDS = 600.0
"""Seconds that the model may take to load there."""
TURN_SECONDS = 600.0
"""Seconds that one turn may take."""


class GenerateError(RuntimeError):
    """The other process could not do it; one line says why."""


class Generate:
    """A second copy of a model, as it comes: in its own dtype, with its own loop and threads."""

    def __init__(
        self, folder: Path, device: str = "cpu", *, trust_remote_code: bool = False
    ) -> None:
        """Start the process and load the model ``folder`` there. Raises GenerateError."""
        self._errors: IO[str] = tempfile.TemporaryFile(  # noqa: SIM115 - closed by close()
            "w+", encoding="utf-8", errors="replace"
        )
        self._process = subprocess.Popen(
            # -P: the folder of this file is no place to import from.
            [sys.executable, "-P", __file__, str(folder), device, str(int(trust_remote_code))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        self.dtype = str(self._answer(LOAD_SECONDS)["dtype"])

    def gaps(self, ids: Sequence[int], tokens: int) -> list[float]:
        stdin = self._process.stdin
        assert stdin is not None, "it was opened with a pipe"
        try:
            stdin.write((json.dumps({"ids": list(ids), "tokens": tokens}) + "\n").encode())
            stdin.flush()
        except OSError:
            raise self._ended() from None
        return [float(gap) for gap in self._answer(TURN_SECONDS)["gaps"]]

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def _answer(self, seconds: float) -> dict[str, Any]:
        stdout = self._process.stdout
        assert stdout is not None, "it was opened with a pipe"
        ready, _, _ = select.select([stdout], [], [], seconds)
        if not ready:
            self.close()
            raise GenerateError(f"generate() gave no answer in {seconds:,.0f} s")
        line = stdout.readline()
        if not line:
            raise self._ended()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _ended(self) -> GenerateError:
        self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().strip().splitlines()
        self.close()
        return GenerateError(f"generate() ended: {lines[-1] if lines else 'it says no reason'}")


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
