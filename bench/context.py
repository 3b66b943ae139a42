"""Slow-down of a decode step as the context grows: our pool against transformers' cache.

    python bench/context.py [--model MODEL] [--dtypes float16,float32] [--lengths 16,256,...]
                            [--steps 9] [--forked] [--threads N]

Both read the same tokens with the same weights in one process and take turns step by step:
``DynamicCache`` with transformers' own sdpa attention, and the pool with the attention that reads
its blocks as they lie. Compared pair by pair; shown are the medians and, because other programs
can only make a step slower, the fastest. Beside them the slope in milliseconds per 1,000
positions, and what the bytes of K and V predict at this machine's measured read bandwidth.
``--forked`` puts the second half of the pool's branch elsewhere, so that it must be gathered. The
last line is one JSON object.
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
from transformers import DynamicCache

from engine.backends.hf.upcast import Upcast
from engine.kv import attention
from engine.kv.cache import PooledCache
from engine.measure.ceilings import measure_ceilings
from engine.models import resolve as models
from tests.kv_probe import cache_argument, probe

LENGTHS = (16, 64, 256, 512, 1000, 2000, 3000, 4000)
CHUNK = 256
Read = Callable[[Sequence[int]], torch.Tensor]


class Contest:
    """One model in one dtype, with a cache of each kind that has read the same tokens."""

    def __init__(self, model: Any, longest: int, *, forked: bool) -> None:
        self.model = model
        self.argument = cache_argument(model)
        layout = probe(model)
        self.position_bytes = sum(layout.position_bytes(window) for window in layout.windows)
        # Room for the branch and what is left behind by forking it.
        self.pool = PooledCache(layout, budget=self.position_bytes * (4 * longest + 4096))
        self.theirs = DynamicCache(config=model.config)
        self.forked = forked
        generator = torch.Generator().manual_seed(0)
        top = min(model.config.vocab_size, 40_000)
        self.ids = torch.randint(3, top, (longest + 64,), generator=generator).tolist()
        self.length = 0

    def read_ours(self, ids: Sequence[int]) -> torch.Tensor:
        with self.pool.reading(ids) as positions:
            output = self.model(
                torch.tensor([ids]),
                position_ids=positions,
                use_cache=True,
                logits_to_keep=1,
                **{self.argument: self.pool},
            )
        logits: torch.Tensor = output.logits[0, -1]
        return logits

    def read_theirs(self, ids: Sequence[int]) -> torch.Tensor:
        output = self.model(
            torch.tensor([ids]), use_cache=True, logits_to_keep=1, **{self.argument: self.theirs}
        )
        logits: torch.Tensor = output.logits[0, -1]
        return logits

    def reader(self, who: str) -> Read:
        """The way of one of the two, with the model's attention set for it."""
        if who == "ours":
            attention.install(self.model)
            return self.read_ours
        attention.uninstall(self.model)
        return self.read_theirs

    def grow(self, length: int) -> None:
        """Bring both caches to ``length`` positions."""
        with Upcast():
            for start in range(self.length, length, CHUNK):
                piece = self.ids[start : min(start + CHUNK, length)]
                self.reader("theirs")(piece)
                self.reader("ours")(piece)
                if self.forked and start <= length // 2 < start + len(piece):
                    self.pool.fork(self.pool.length)
        self.length = length

    def race(self, steps: int) -> dict[str, Any]:
        """Steps by turns from the present length on, the one that begins changing."""
        times: dict[str, list[float]] = {"theirs": [], "ours": []}
        worst, agree = 0.0, 0
        for step in range(steps + 1):
            ids = [self.ids[self.length]]
            order = ("theirs", "ours") if step % 2 else ("ours", "theirs")
            logits = {}
            for who in order:
                read = self.reader(who)
                before = time.perf_counter()
                logits[who] = read(ids)
                if step:  # the first of its kind warms up
                    times[who].append((time.perf_counter() - before) * 1000)
            delta = (logits["ours"].float() - logits["theirs"].float()).abs().max()
            worst = max(worst, float(delta / logits["theirs"].float().abs().max()))
            agree += int(logits["ours"].argmax() == logits["theirs"].argmax())
            self.length += 1
        pairs = zip(times["theirs"], times["ours"], strict=True)
        return {
            "context": self.length - steps,
            "theirs_ms": statistics.median(times["theirs"]),
            "ours_ms": statistics.median(times["ours"]),
            "theirs_best_ms": min(times["theirs"]),
            "ours_best_ms": min(times["ours"]),
            "speedup": statistics.median(theirs / ours for theirs, ours in pairs),
            "best_speedup": min(times["theirs"]) / min(times["ours"]),
            "logits_delta": worst,
            "top_token_agrees": agree / (steps + 1),
        }


def slope(rows: Sequence[dict[str, Any]], who: str) -> float:
    """Least-squares milliseconds per 1,000 positions of the fastest steps."""
    lengths = [row["context"] for row in rows]
    fastest = [row[f"{who}_best_ms"] for row in rows]
    return statistics.linear_regression(lengths, fastest).slope * 1000


def run(model: Any, dtype: str, args: argparse.Namespace, bandwidth: float) -> dict[str, Any]:
    lengths = [int(length) for length in args.lengths.split(",")]
    contest = Contest(model.to(getattr(torch, dtype)), max(lengths), forked=args.forked)
    rows = []
    print(f"\n{dtype}: {contest.position_bytes:,} bytes a position")
    print(" context  theirs ms   ours ms  speed-up |   best: theirs    ours  speed-up   Δlogits")
    for length in lengths:
        contest.grow(length)
        row = contest.race(args.steps)
        rows.append(row)
        print(
            f"{row['context']:>8,} {row['theirs_ms']:>10.1f} {row['ours_ms']:>9.1f} "
            f"{row['speedup']:>8.2f}x | {row['theirs_best_ms']:>14.1f} {row['ours_best_ms']:>7.1f} "
            f"{row['best_speedup']:>8.2f}x {row['logits_delta']:>9.1e}",
            flush=True,
        )
    result = {
        "dtype": dtype,
        "bytes_per_position": contest.position_bytes,
        "steps": args.steps,
        "pieces": contest.pool.state().pieces,
        "rows": rows,
    }
    if len(rows) > 1:
        slopes = {
            "theirs": slope(rows, "theirs"),
            "ours": slope(rows, "ours"),
            "bytes": contest.position_bytes * 1000 / bandwidth * 1000,
        }
        result["ms_per_1000_positions"] = slopes
        print("  ms per 1,000 positions: " + ", ".join(f"{k} {v:.2f}" for k, v in slopes.items()))
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model")
    parser.add_argument("--dtypes", default="float16,bfloat16,float32")
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)))
    parser.add_argument("--steps", type=int, default=9)
    parser.add_argument("--forked", action="store_true")
    parser.add_argument("--threads", type=int)
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    ceilings = measure_ceilings()
    bandwidth = ceilings.read_bytes_per_second
    print(f"{ceilings.device_name}, {ceilings.threads} threads, {bandwidth / 1e9:.1f} GB/s")
    resolved = models.resolve(args.model)
    results = []
    with torch.inference_mode(False):
        model, _ = models.load(resolved, "float32")
    for dtype in args.dtypes.split(","):
        with torch.inference_mode():
            results.append(run(model, dtype, args, bandwidth))
    print(
        json.dumps(
            {
                "bench": "context",
                "model": resolved.label,
                "unit": "ms a step",
                "forked": args.forked,
                "machine": f"{ceilings.device_name}, {os.cpu_count()} cores, "
                f"{ceilings.threads} threads",
                "read_gb_per_s": bandwidth / 1e9,
                "torch": torch.__version__,
                "results": results,
            }
        )
    )


if __name__ == "__main__":
    main()
