"""A sweep over lengths as lines for people, as Markdown, and as one JSON object."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from textual.content import Content

from engine.records.measured import Contest
from engine.records.model import ModelFacts
from engine.text import visible
from engine.timing import percentile
from inspector.cli.bench_report import decode_ratio
from inspector.draw.numbers import (
    NOTHING,
    cut,
    derived,
    legend,
    measured,
    ms,
    muted,
    plural,
    right,
    three,
    wrapped,
)
from sessions.export.jsonl import number, plain

SCHEMA = 1
_LEAST = 40
_NO_GAP = "no step after the first counts"
_WIDTHS = (8, 7, 5)
_COLUMN = 11


@dataclass(frozen=True)
class Run:
    """One run of a cell: tokens of its prompt, TTFT, and the time of each pass after the first."""

    prompt: int
    ttft_ms: float | None
    gaps_ms: tuple[float, ...]
    rows: int = 1

    @property
    def tpot_ms(self) -> float | None:
        """Mean time between tokens of a row."""
        return statistics.fmean(self.gaps_ms) if self.gaps_ms else None

    @property
    def tps(self) -> float | None:
        """Tokens per second of all rows together."""
        tpot = self.tpot_ms
        return 1000 * self.rows / tpot if tpot else None


@dataclass(frozen=True)
class Cell:
    """All runs with one prompt length, output length and number of rows; or why there are none."""

    prompt: int
    output: int
    rows: int
    warm_up: Run | None = None
    runs: tuple[Run, ...] = ()
    contest: Contest | None = None
    error: str = ""

    def spread(self, of: Callable[[Run], float | None]) -> tuple[float, float, float] | None:
        """(median, least, most) over the runs; None where no run has the figure."""
        values = [value for value in map(of, self.runs) if value is not None]
        if not values:
            return None
        return statistics.median(values), min(values), max(values)

    def itl(self, share: float) -> float | None:
        """A percentile of the time between tokens, over all runs."""
        return percentile([gap for run in self.runs for gap in run.gaps_ms], share)


FIGURES: tuple[tuple[str, str, Callable[[Run], float | None]], ...] = (
    ("ttft", "ms", lambda run: run.ttft_ms),
    ("tpot", "ms", lambda run: run.tpot_ms),
    ("tps", "tok/s", lambda run: run.tps),
)
_PERCENTILES = (0.5, 0.95, 0.99)


# --- for people -----------------------------------------------------------------------------


def lines(facts: ModelFacts, cells: Sequence[Cell], load: float, width: int) -> Iterator[Content]:
    """A line a cell with its medians, and below it how far the runs lie apart."""
    width = max(_LEAST, width)
    yield from wrapped("", 0, width, visible(_about(facts, load)))
    yield Content("")
    heads = ("TTFT", "TPOT", "ITL p50", "p95", "p99", "tok/s")
    shown = max(1, min(len(heads), (width - sum(_WIDTHS)) // _COLUMN))
    line = Content("")
    for title, cell in zip(("prompt", "output", "rows"), _WIDTHS, strict=True):
        line += right(muted(title), cell)
    for title in heads[:shown]:
        line += right(muted(f"{title}  "), _COLUMN)
    yield cut(line, width)
    for one in cells:
        yield from _cell_lines(one, shown, width)
    yield legend(width)


def _about(facts: ModelFacts, load: float) -> str:
    return (
        f"{facts.name}, {facts.dtype} on {facts.device_name}, "
        f"{plural(facts.threads, 'thread')}, greedy; load average before {load:.1f}"
    )


def _cell_lines(one: Cell, shown: int, width: int) -> Iterator[Content]:
    prompt = one.runs[0].prompt if one.runs else one.prompt
    line = Content("")
    for value, cells in zip((prompt, one.output, one.rows), _WIDTHS, strict=True):
        line += right(Content(f"{value:,}"), cells)
    if not one.runs:
        yield cut(line + muted(f"  {NOTHING} {visible(one.error)}"), width)
        return
    ttft, tpot, tps = (one.spread(of) for _, _, of in FIGURES)
    figures = (
        derived(ms(ttft[0] if ttft else None)),
        derived(ms(tpot[0] if tpot else None)),
        *(measured(ms(one.itl(share))) for share in _PERCENTILES),
        derived(three(tps[0]) if tps else NOTHING),
    )
    for figure in figures[:shown]:
        line += right(figure, _COLUMN)
    yield cut(line, width)
    yield from wrapped("", sum(_WIDTHS), width, "; ".join(_remarks(one)))


def _remarks(one: Cell) -> Iterator[str]:
    """The spread over the runs, the run that warmed up, and the rival."""
    count = len(one.runs)
    parts = []
    for (name, unit, of), title in zip(FIGURES, ("TTFT", "TPOT", "tok/s"), strict=True):
        found = one.spread(of)
        if found is not None and name != "tpot":
            least, most = (ms(part) if unit == "ms" else three(part) for part in found[1:])
            parts.append(f"{title} {least} – {most} ƒ")
    yield f"medians of {count}: {', '.join(parts)}" if parts else f"{count} runs"
    if one.warm_up is not None:
        yield f"warm-up apart: TTFT {ms(one.warm_up.ttft_ms)}, TPOT {ms(one.warm_up.tpot_ms)} ƒ"
    if one.contest is not None:
        theirs = 1000 / statistics.median(one.contest.theirs_ms)
        yield (
            f"{one.contest.rival} ({one.contest.rival_dtype}) {three(theirs)} tok/s ƒ, "
            f"ours {decode_ratio(one.contest):.2f} × ƒ of it, taking turns"
        )


def markdown(facts: ModelFacts, cells: Sequence[Cell], now: datetime, load: float) -> Iterator[str]:
    """The same as a Markdown table, medians with the least and the most."""
    about = _about(facts, load).replace("|", "\\|")
    yield f"{visible(about)}, {now.isoformat(timespec='minutes')}."
    yield ""
    heads = ("prompt", "output", "rows", "runs", "TTFT, ms", "TPOT, ms", "tok/s")
    more = ("ITL p50, ms", "p95", "p99", "warm-up TTFT, ms", "note")
    yield f"| {' | '.join((*heads, *more))} |"
    yield f"|{'---|' * len((*heads, *more))}"
    for one in cells:
        prompt = one.runs[0].prompt if one.runs else one.prompt
        row = [f"{value:,}" for value in (prompt, one.output, one.rows, len(one.runs))]
        row += [_spread(one.spread(of)) for _, _, of in FIGURES]
        row += [_digits(one.itl(share)) for share in _PERCENTILES]
        row.append(_digits(one.warm_up.ttft_ms if one.warm_up is not None else None))
        note = one.error or "; ".join(list(_remarks(one))[2:])
        row.append(visible(note).replace("|", "\\|"))
        yield f"| {' | '.join(row)} |"


def _spread(found: tuple[float, float, float] | None) -> str:
    if found is None:
        return NOTHING
    median, least, most = map(_digits, found)
    return f"{median} ({least} – {most})"


def _digits(value: float | None) -> str:
    return NOTHING if value is None or not math.isfinite(value) else three(value)


# --- for programs ---------------------------------------------------------------------------


def report(facts: ModelFacts, cells: Sequence[Cell], now: datetime, load: float) -> dict[str, Any]:
    """Every run of every cell; null with a ``_reason`` where there is no figure."""
    return {
        "type": "bench_sweep",
        "schema": SCHEMA,
        "measured": now.isoformat(timespec="seconds"),
        "load_average": load,
        "model": plain(facts.name),
        "identity": plain(facts.identity),
        "dtype": plain(facts.dtype),
        "device": plain(facts.device),
        "device_name": plain(facts.device_name),
        "threads": facts.threads,
        "versions": dict(facts.versions),
        "cells": [_fields(one) for one in cells],
    }


def _fields(one: Cell) -> dict[str, Any]:
    line: dict[str, Any] = {
        "prompt": one.prompt,
        "prompt_tokens": one.runs[0].prompt if one.runs else None,
        "output": one.output,
        "rows": one.rows,
        "repeats": len(one.runs),
    }
    if one.error:
        line["error"] = plain(one.error)
    for name, unit, of in FIGURES:
        field = f"{name}_ms" if unit == "ms" else name
        found = one.spread(of)
        number(line, field, found[0] if found else None, _NO_GAP)
        line[f"{field}_range"] = None if found is None else [plain(part) for part in found[1:]]
    for share in _PERCENTILES:
        number(line, f"itl_p{share * 100:.0f}_ms", one.itl(share), _NO_GAP)
    line["warm_up"] = None if one.warm_up is None else _run(one.warm_up)
    line["runs"] = [_run(run) for run in one.runs]
    if one.contest is not None:
        line[f"vs_{one.contest.rival}"] = asdict(one.contest) | {
            "decode_ratio": decode_ratio(one.contest)
        }
    return line


def _run(run: Run) -> dict[str, Any]:
    return {
        "prompt_tokens": run.prompt,
        "ttft_ms": plain(run.ttft_ms),
        "gaps_ms": [plain(gap) for gap in run.gaps_ms],
    }
