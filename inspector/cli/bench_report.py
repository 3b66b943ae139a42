"""The report of ``bench``, as one JSON object and as lines for people."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from textual.content import Content

from engine.records.measured import Contest, Measured
from engine.records.step import StepRecord
from engine.roofline import reached
from engine.text import visible
from engine.timing import decode_ms, percentile
from inspector.cli.bench_chart import chart
from inspector.draw.numbers import bandwidth, derived, legend, measured, plural, row, three, wrapped
from inspector.panes.gauges.figures import gauges
from inspector.state.view import View
from sessions.export.jsonl import kv_storage, number, plain

SCHEMA = 1
BUSY = 0.25
"""Share of the processors in use, before the benchmark began, from which it says so."""
_FACTS = ("identity", "backend", "device", "device_name", "threads", "dtype")
_CEILINGS = ("read_bytes_per_second", "flops_per_second", "dtype", "threads", "method")
_LABEL = 10
_LEAST = 24
_NO_GAP = "no step after the first counts"
_NOT_HERE = ("this step", "steps", "cache")
"""Gauges about the cursor, which a benchmark has not, and about what a key measures."""


@dataclass(frozen=True)
class Circumstances:
    """Time of the measurement, load of the machine before it, and the file of the ceilings.

    ``load`` is the load average of the minute before; ``file`` is None where they could not be
    kept, and ``why`` says why.
    """

    when: datetime
    load: float
    cpus: int
    file: Path | None
    why: str = ""

    @property
    def busy(self) -> bool:
        """True if others took so much of the machine that the figures are too low."""
        return self.load > BUSY * self.cpus


def decode_ratio(contest: Contest) -> float:
    """Our tokens per second over the rival's: the median of the rounds' own ratios."""
    pairs = zip(contest.ours_ms, contest.theirs_ms, strict=True)
    return statistics.median(theirs / ours for ours, theirs in pairs)


def report(view: View, found: Measured, about: Circumstances) -> dict[str, Any]:
    """Every figure under a name that says its unit; null with a ``_reason`` where there is none."""
    facts, prompt, prefill, speed = view.facts, view.prompt, view.prefill, view.speed
    if facts is None or prompt is None or prefill is None:
        raise ValueError("a benchmark's report needs a model, a prompt and its prefill")
    line: dict[str, Any] = {
        "type": "bench",
        "schema": SCHEMA,
        "measured": about.when.isoformat(timespec="seconds"),
        "load_average": about.load,
        "cpus": about.cpus,
        "model": facts.name,
        **{name: getattr(facts, name) for name in _FACTS},
        "kv_cache": kv_storage(facts.kv_storage),
        "parameters": facts.parameters,
        "weight_bytes": facts.weight_bytes,
        "versions": dict(facts.versions),
        "chain": view.settings.chain_spec if view.settings else None,
        "prompt_tokens": len(prompt.tokens),
        "prompt_computed": prefill.computed,
        "tokens": len(view.path),
    }
    steps = [step for step in view.path[1:] if step.timing.steady]
    number(line, "ttft_ms", speed.ttft_ms, "no token was drawn")
    number(line, "prefill_ms", prefill.total_ms, "not measured")
    number(line, "prefill_tps", speed.prefill_tps, "nothing was read")
    line["prefill_warmup"] = any(chunk.warmup for chunk in prefill.chunks)
    number(line, "itl_ms", speed.itl_ms, _NO_GAP)
    gaps = decode_ms(view.path)
    number(line, "itl_p50_ms", percentile(gaps, 0.5), _NO_GAP)
    number(line, "itl_p95_ms", percentile(gaps, 0.95), _NO_GAP)
    number(line, "tps", speed.tps, _NO_GAP)
    _use(line, view, steps, found)
    line["step_ms"] = [plain(gap) for gap in gaps]
    line["ceilings"] = {name: getattr(found.ceilings, name) for name in _CEILINGS}
    number(line["ceilings"], "cpu_share", found.ceilings.cpu_share, "not a CPU's")
    line["ceilings"]["file"] = None if about.file is None else str(about.file)
    if about.file is None:
        line["ceilings"]["file_reason"] = about.why
    if found.contest is not None:
        line[f"vs_{found.contest.rival}"] = _contest(found.contest, facts.dtype)
    return line


def _use(line: dict[str, Any], view: View, steps: list[StepRecord], found: Measured) -> None:
    facts = view.facts
    use = reached(facts, steps, found.ceilings) if facts is not None else None
    why = "the cache's size is not known" if steps else _NO_GAP
    nbytes, mbu, floor = (use.nbytes, use.mbu, use.floor_ms) if use else (None, None, None)
    number(line, "step_bytes", nbytes, why)
    number(line, "mbu", mbu, "the model has no size" if use else why)
    number(line, "floor_ms", floor, why)


def _contest(contest: Contest, dtype: str) -> dict[str, Any]:
    ours, theirs = statistics.median(contest.ours_ms), statistics.median(contest.theirs_ms)
    return {
        "decode_ratio": decode_ratio(contest),
        "ours_tps": 1000 / ours,
        "theirs_tps": 1000 / theirs,
        "ours_dtype": dtype,
        "theirs_dtype": contest.rival_dtype,
        "ours_ms": list(contest.ours_ms),
        "theirs_ms": list(contest.theirs_ms),
        "tokens": contest.tokens,
        "rounds": len(contest.ours_ms),
    }


def markdown(line: Mapping[str, Any]) -> Iterator[str]:
    """The report's figures as a Markdown table; lists and what has no figure are left out."""
    yield "| figure | value |"
    yield "|---|---|"
    for name, value in _flat(line):
        text = f"{value:,.3f}" if isinstance(value, float) else str(value)
        yield f"| {name} | {visible(text).replace('|', chr(92) + '|')} |"


def _flat(line: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in line.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        elif value is not None and not isinstance(value, list):
            yield f"{before}{name}", value


# --- for people -----------------------------------------------------------------------------


def lines(view: View, found: Measured, about: Circumstances, width: int) -> Iterator[Content]:
    """The figures of the gauges pane, the ceilings they are held against, and the latency."""
    facts, width = view.facts, max(_LEAST, width)
    if facts is not None:
        what = (
            f"{facts.name}, {facts.dtype} on {facts.device_name}, {plural(facts.threads, 'thread')}"
        )
        if facts.kv_storage is not None and facts.kv_storage.unusual:
            what += f", {facts.kv_storage.unusual}"
        yield from wrapped("model", _LABEL, width, visible(what))
    run = f"{plural(len(view.path), 'token')} after a prompt of {view.prompt_length:,}, greedy"
    yield from wrapped("run", _LABEL, width, run)
    for gauge in gauges(view, found.ceilings):
        if gauge.label not in _NOT_HERE:
            yield row(gauge.label, _LABEL, width, gauge.figure, *gauge.notes)
    yield from _ceiling_lines(found, width)
    if found.contest is not None:
        yield from _contest_lines(found.contest, facts.dtype if facts else "", width)
    yield legend(width)
    yield Content("")
    yield from map(Content, chart(latencies(view), width))
    yield Content("")
    if about.busy:
        busy = (
            f"The machine was busy (load average {about.load:.1f} on {about.cpus} CPUs) before "
            "this began: its ceilings and the speed are higher than these figures."
        )
        yield from wrapped("", 0, width, busy)
    kept = f"The ceilings are kept in {about.file}: the inspector shows MBU from now on."
    lost = f"The ceilings could not be kept: {about.why}"
    yield from wrapped("", 0, width, visible(kept if about.file else lost))


def latencies(view: View) -> list[tuple[int, float]]:
    """(number of the step, its ms) of the steps that count."""
    later = enumerate(view.path[1:], 2)
    return [(at, step.timing.total_ms) for at, step in later if step.timing.steady]


def _ceiling_lines(found: Measured, width: int) -> Iterator[Content]:
    reading, _, product = found.ceilings.method.partition("; ")
    read = measured(bandwidth(found.ceilings.read_bytes_per_second))
    computed = measured(f"{three(found.ceilings.flops_per_second / 1e9)} GFLOP/s")
    yield row("memory", _LABEL, width, read, f"ceiling: {reading}", "ceiling")
    yield row("matrices", _LABEL, width, computed, f"ceiling: {product}", "ceiling")


def _contest_lines(contest: Contest, dtype: str, width: int) -> Iterator[Content]:
    ours = three(1000 / statistics.median(contest.ours_ms))
    theirs = three(1000 / statistics.median(contest.theirs_ms))
    speeds = f"ours {ours} tok/s in {dtype}, theirs {theirs} in {contest.rival_dtype} ƒ"
    rounds = plural(len(contest.ours_ms), "round")
    yield row(
        contest.rival,
        _LABEL,
        width,
        derived(f"{decode_ratio(contest):.2f} ×"),
        f"{speeds}; medians of {rounds} of {contest.tokens} tokens",
        speeds,
        "ours over theirs",
    )
