"""Cost of going back and forking, against reading the prompt again.

    python bench/timetravel.py [--model MODEL] [--dtype float16] [--length 4000] [--rounds 9]

At ``--length`` positions: taking the last position away, a fork (block tables are copied, nothing
else), what the fork's first pass does before the model runs (one block per layer is copied), going
to where another branch of the run parts, and finding a known prompt by its blocks. Against it:
reading the same prompt from nothing, which is what a tool without a shared cache does at each of
these. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch

from engine.backends.hf.upcast import Upcast
from engine.kv import attention
from engine.kv.cache import PooledCache
from engine.models import resolve as models
from tests.kv_probe import cache_argument, probe

CHUNK = 256
WAYS = {
    "back": "take the last position away",
    "fork": "fork at the end",
    "first_write": "the fork's first write",
    "switch": "go to a fork half way",
    "find_prompt": "find half of a prompt",
}


class Traveller:
    """A model whose pool holds one long branch."""

    def __init__(self, model: Any, length: int) -> None:
        attention.install(model)
        self.model = model
        self.argument = cache_argument(model)
        layout = probe(model)
        self.position_bytes = sum(layout.position_bytes(window) for window in layout.windows)
        self.pool = PooledCache(layout, budget=self.position_bytes * (3 * length + 4096))
        generator = torch.Generator().manual_seed(0)
        top = min(model.config.vocab_size, 40_000)
        self.ids = torch.randint(3, top, (length,), generator=generator).tolist()

    def read(self, ids: Sequence[int]) -> float:
        """One pass; milliseconds that the pool took before the model could begin."""
        began = time.perf_counter()
        with self.pool.reading(ids) as positions:
            opened = time.perf_counter()
            self.model(
                torch.tensor([ids]),
                position_ids=positions,
                use_cache=True,
                logits_to_keep=1,
                **{self.argument: self.pool},
            )
        return (opened - began) * 1000

    def read_again(self) -> float:
        """Milliseconds to read everything from nothing, in chunks."""
        self.pool.clear()
        began = time.perf_counter()
        with Upcast():
            for start in range(0, len(self.ids), CHUNK):
                self.read(self.ids[start : start + CHUNK])
        return (time.perf_counter() - began) * 1000

    def travel(self) -> dict[str, float]:
        """Milliseconds of each way, once; the long branch is as before afterwards."""
        ids, pool, length = self.ids, self.pool, len(self.ids)
        middle = length // 2 + 5  # in the middle of a block
        times = {"back": timed(lambda: pool.truncate(length - 1))}
        self.read(ids[-1:])
        trunk = pool.current
        times["fork"] = timed(lambda: pool.fork(length - 3))
        copied = pool.state().copied_blocks
        times["first_write"] = self.read([5])
        times["copied"] = pool.state().copied_blocks - copied
        times["switch"] = timed(lambda: pool.enter([*ids[:middle], 7]))
        times["find_prompt"] = timed(lambda: pool.enter_prompt([*ids[:middle], 7, 7]))
        pool.enter([*ids, 1])
        assert pool.current is trunk
        for branch in list(pool.pool.branches.values()):
            if branch is not trunk:
                pool.pool.close(branch)
        return times


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model")
    parser.add_argument("--dtype", default="float16")
    parser.add_argument("--length", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int)
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    resolved = models.resolve(args.model)
    model, _ = models.load(resolved, args.dtype)
    with torch.inference_mode():
        traveller = Traveller(model, args.length)
        again = traveller.read_again()
        rounds = [traveller.travel() for _ in range(args.rounds + 1)][1:]
    figures = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
    copied = max(one["copied"] for one in rounds)
    print(f"{resolved.label}, {args.dtype}, {args.length:,} positions, medians of {args.rounds}")
    print(f"  {'read it all again':<28} {again:>12,.1f} ms")
    for name, words in WAYS.items():
        ratio = again / figures[name]
        print(f"  {words:<28} {figures[name]:>12.4f} ms   {ratio:>12,.0f} times less")
    print(f"  blocks copied per layer by a fork, at most: {copied:.0f}")
    print(
        json.dumps(
            {
                "bench": "timetravel",
                "model": resolved.label,
                "dtype": args.dtype,
                "length": args.length,
                "unit": "ms",
                "read_again_ms": again,
                **{f"{name}_ms": figures[name] for name in WAYS},
                **{f"{name}_ratio": again / figures[name] for name in WAYS},
                "copied_blocks_per_layer": copied,
                "machine": f"{os.cpu_count()} cores, {torch.get_num_threads()} threads",
                "torch": torch.__version__,
            }
        )
    )


if __name__ == "__main__":
    main()
