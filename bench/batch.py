"""Tokens a second of 1 to 8 columns that share their passes, in each dtype, turn by turn.

    python bench/batch.py [--model MODEL] [--dtypes float32,float16] [--tokens 24] [--rounds 5]

Columns of one prompt with seeds of their own decode together, every record kept. A turn is a few
tokens of one number of columns in one dtype; turns alternate, so that whatever else the machine
does meets all alike. Shown are the medians of the rounds: the pass alone, the whole step with
sampling, tokens a second, and how many times those of one column in the dtype that is best for
one. ``roofline`` is what the weights' bytes alone would take at the measured bandwidth, once a
pass. Each column is held against its run alone: the same ids, or the margin of the first draw that
differs. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from engine.api import open_model
from engine.backends.abilities import MeasurableBackend, measurable
from engine.measure.ceilings import measure_ceilings
from engine.records.columns import PassRecord
from engine.records.step import StepRecord
from engine.run.step_many import ColumnStep, step_many
from engine.run.stepper import Stepper
from engine.sampling.chain import effective
from sessions.compare.divergence import first_difference, ids_of, margin_of

PROMPT = (
    "Once upon a time, in a small village by the sea, there lived an old man who had seen more "
    "of the world than anybody else there. Every evening he sat at the harbour and told"
)
Key = tuple[str, int]
"""A dtype and a number of columns."""


class Turn:
    """Some columns on one model, decoded from the prompt on; of one, with its seed, by itself."""

    def __init__(self, backend: MeasurableBackend, seeds: Sequence[int], tokens: int) -> None:
        backend.clear()  # or it would go on from what an earlier turn has read
        self.run = Stepper(backend, effective("guide", {"temperature": 0.8}), max_tokens=1 << 20)
        self.run.submit(PROMPT)
        for _ in self.run.prefill():
            pass
        going = [ColumnStep(one, 0, seed=one) for one in seeds]
        self.passes: list[PassRecord] = []
        for _ in range(tokens):
            found = step_many(self.run, going).record
            self.passes.append(found)
            going = [
                replace(column, parent=told.nodes[-1])
                for column, told in zip(going, found.columns, strict=True)
            ]
        self.tips = [column.parent for column in going]

    @property
    def steady(self) -> list[PassRecord]:
        """The passes that count: no warm-up, and a row of its own for every column."""
        read = [one for one in self.passes if one.passes and not one.warmup]
        return [one for one in read if one.rows == len(one.columns)] or read

    def path(self, column: int) -> Sequence[StepRecord]:
        return self.run.path(self.tips[column])


def differing(turn: Turn, alone: Sequence[Turn]) -> Iterator[dict[str, Any]]:
    """The first draw of each column that is not its run's alone, and how close the race was."""
    for column in range(len(turn.tips)):
        ours, theirs = turn.path(column), alone[column].path(0)
        index = first_difference(ids_of(ours), ids_of(theirs))
        if index is not None:
            yield {"column": column, "index": index, "margin": margin_of(theirs[index])}


class Times:
    """Milliseconds of all rounds: of a pass, and of a step of all columns."""

    def __init__(self) -> None:
        self.of_pass: dict[Key, list[float]] = {}
        self.of_step: dict[Key, list[float]] = {}
        self.last: dict[Key, Turn] = {}

    def take(self, key: Key, turn: Turn) -> None:
        steady = turn.steady
        forward = statistics.median(one.forward_ms for one in steady)
        self.of_pass.setdefault(key, []).append(forward)
        step = statistics.median(one.total_ms for one in steady)
        self.of_step.setdefault(key, []).append(step)
        self.last[key] = turn

    def forward(self, key: Key) -> float:
        return statistics.median(self.of_pass[key])

    def step(self, key: Key) -> float:
        return statistics.median(self.of_step[key])


def measure(
    backends: Mapping[str, MeasurableBackend], rows: Sequence[int], tokens: int, rounds: int
) -> Times:
    """Take turns: every number of columns in every dtype, round by round."""
    times = Times()
    for round_ in range(rounds + 1):
        for dtype, backend in backends.items():
            for count in rows:
                turn = Turn(backend, range(count), tokens if round_ else 4)
                if round_:  # the first warms up
                    times.take((dtype, count), turn)
    return times


def report(
    dtype: str, backend: MeasurableBackend, rows: Sequence[int], times: Times
) -> dict[str, Any]:
    """Print the table of one dtype; its figures."""
    facts, dtypes = backend.facts, {name for name, _ in times.of_step}
    ceilings = measure_ceilings(facts.device, facts.dtype, seconds=0.3)
    floor = facts.weight_bytes / ceilings.read_bytes_per_second * 1000
    size = f"{facts.weight_bytes / 1e6:,.0f} MB"
    print(f"{facts.name} in {dtype}: {size}, {facts.threads} threads")
    print(f"  roofline: {floor:.1f} ms a pass for the weights alone (measured bandwidth)")
    print("  columns  pass ms  step ms  tokens/s  times one  sampling")
    tokens = len(times.last[dtype, rows[0]].passes)
    alone = [Turn(backend, [seed], tokens) for seed in range(max(rows))]
    one = min(times.step((name, rows[0])) for name in dtypes) / rows[0]
    found: dict[str, Any] = {"floor_ms": floor, "columns": {}}
    for count in rows:
        forward, step = times.forward((dtype, count)), times.step((dtype, count))
        best = min(dtypes, key=lambda name: times.step((name, count)))
        differs = list(differing(times.last[dtype, count], alone))
        found["columns"][count] = {
            "pass_ms": forward,
            "step_ms": step,
            "tokens_per_second": count * 1000 / step,
            "times_one": count * one / step,
            "best_dtype": best == dtype,
            "differs": differs,
        }
        print(
            f"  {count:>7}  {forward:>7.1f}  {step:>7.1f}  {count * 1000 / step:>8.1f}  "
            f"{count * one / step:>8.2f}x  {1 - forward / step:>8.0%}"
            f"{'  best' if best == dtype else ''}"
        )
        for each in differs:
            margin = "—" if each["margin"] is None else f"{each['margin']:.2g}"
            where = f"column {each['column']} differs from its run alone at token {each['index']}"
            print(f"           {where}: margin {margin}")
    return found


def main() -> None:
    """Take turns, print a table a dtype, and the figures as one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model")
    parser.add_argument("--dtypes", default="float32,float16,bfloat16")
    parser.add_argument("--columns", default="1,2,3,4,5,6,7,8")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    rows = [int(one) for one in args.columns.split(",")]
    backends = {
        dtype: measurable(open_model(args.model, dtype=dtype, threads=args.threads))
        for dtype in args.dtypes.split(",")
    }
    times = measure(backends, rows, args.tokens, args.rounds)
    results = {dtype: report(dtype, one, rows, times) for dtype, one in backends.items()}
    facts = next(iter(backends.values())).facts
    machine = {"device": facts.device_name, "threads": facts.threads}
    print(json.dumps({"model": facts.name, **machine, "dtypes": results}))


if __name__ == "__main__":
    main()
