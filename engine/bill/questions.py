"""Four questions about a bill, answered out of the run's own rates.

Each answer is words and figures in a row; a figure carries its unit and where it comes from.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.bill.bill import Shares
from engine.records.figure import Figure, Source
from engine.records.model import ModelFacts
from engine.records.prompt import PrefillRecord
from engine.records.step_table import Figures, begins_burst, steady
from engine.timing import Speed

Part = str | Figure
NO_PREFILL = "nothing was read in this run, so that there is no rate"
NO_DECODE = "two tokens that count are needed for a rate"


@dataclass(frozen=True, slots=True)
class Answer:
    """A question and its answer; ``parts`` are empty where ``reason`` says why there is none."""

    question: str
    parts: tuple[Part, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class Rates:
    """A run's own rates, which the answers are made of; None where there is none."""

    prompt_ms: float | None
    """For a prompt token that was computed."""
    output_ms: float | None
    """For a token of the steady steps after the first."""
    chunk: float
    """Prompt tokens of a pass, on average."""
    per_pass: float
    """Output tokens of a pass, on average."""
    each: float | None
    """Bytes of K and V for a position."""
    bytes_per_ms: float | None
    """Rate at which the steady steps moved bytes."""


def rates(
    facts: ModelFacts | None,
    prefill: PrefillRecord | None,
    speed: Speed,
    figures: Figures,
    split: Shares,
) -> Rates:
    """The rates of a path."""
    later = figures[1:]
    counts = steady(later)
    passes = int(np.count_nonzero(begins_burst(later)[counts]))
    known = facts is not None and not np.isnan(later["kv_bytes"][counts]).any()
    moved = float(split.nbytes[1:][counts].sum()) if known and len(later) else 0.0
    # Time of the same tokens: a round's includes what was thrown away, bytes and time alike.
    spent = float(split.ms[1:][counts].sum())
    kv = prefill.kv if prefill is not None else None
    each = kv.nbytes / kv.stored if kv is not None and kv.nbytes and kv.stored else None
    return Rates(
        prompt_ms=1000 / speed.prefill_tps if speed.prefill_tps else None,
        output_ms=1000 / speed.tps if speed.tps else None,
        chunk=prefill.computed / len(prefill.chunks) if prefill and prefill.chunks else 0.0,
        per_pass=int(np.count_nonzero(counts)) / passes if passes else 0.0,
        each=each,
        bytes_per_ms=moved / spent if moved and spent else None,
    )


def answers(
    facts: ModelFacts | None,
    prefill: PrefillRecord | None,
    figures: Figures,
    split: Shares,
    thinking: NDArray[np.bool_],
    found: Rates,
) -> tuple[Answer, ...]:
    """The four answers."""
    return (
        _output(facts, found),
        _cached(prefill, found),
        _context(facts, figures, found),
        _thinking(figures, split, thinking),
    )


def _derived(value: float, unit: str, formula: str) -> Figure:
    return Figure("", value, unit, Source.DERIVED, formula)


def _measured(value: float, unit: str) -> Figure:
    return Figure("", value, unit, Source.MEASURED, "of the real tensors")


def _output(facts: ModelFacts | None, found: Rates) -> Answer:
    question = "Why does output cost more than prompt?"
    if found.prompt_ms is None or found.output_ms is None:
        return Answer(question, reason=NO_PREFILL if found.prompt_ms is None else NO_DECODE)
    parts: list[Part] = [
        "An output token took ",
        _derived(found.output_ms, "ms", "1 / TPS"),
        ", a prompt token ",
        _derived(found.prompt_ms, "ms", "prefill / tokens computed"),
        ": ",
        _derived(found.output_ms / found.prompt_ms, "×", "the one / the other"),
        ". A pass reads all weights",
    ]
    if facts is not None and facts.weight_bytes:
        parts += [", ", _measured(facts.weight_bytes, "B")]
    tokens = "token" if found.per_pass == 1 else "tokens"
    parts += [
        ": for ",
        _derived(found.per_pass, f"output {tokens}", "tokens / passes"),
        ", or for ",
        _derived(found.chunk, "prompt tokens", "tokens computed / chunks"),
        " at once.",
    ]
    return Answer(question, tuple(parts))


def _cached(prefill: PrefillRecord | None, found: Rates) -> Answer:
    question = "Why is cached input cheap?"
    if prefill is None:
        return Answer(question, reason=NO_PREFILL)
    if not prefill.cached:
        if found.prompt_ms is None:
            return Answer(question, reason=NO_PREFILL)
        parts: list[Part] = [
            "Nothing of this prompt was in the cache. A token that is saves ",
            _derived(found.prompt_ms, "ms", "prefill / tokens computed"),
            " of reading",
        ]
        if found.each is not None:
            parts += [", for ", _derived(found.each, "B", "K/V / positions"), " of K and V kept"]
        return Answer(question, (*parts, "."))
    parts = [f"{prefill.cached:,} tokens took no pass: their K and V were there"]
    if found.each is not None:
        parts += [", ", _derived(found.each * prefill.cached, "B", "K/V / positions x tokens")]
    if found.prompt_ms is not None:
        parts += [
            ". To compute them would have taken ",
            _derived(found.prompt_ms * prefill.cached, "ms", "tokens x this run's own rate"),
        ]
    return Answer(question, (*parts, "."))


def _context(facts: ModelFacts | None, figures: Figures, found: Rates) -> Answer:
    question = "Why does a long context hurt twice?"
    held = float(figures["kv_bytes"][-1]) if len(figures) else float("nan")
    if found.each is None or not np.isfinite(held) or facts is None:
        return Answer(question, reason="the cache's size is not known")
    more = 1000 * found.each
    parts: list[Part] = [
        "Once in memory: a position keeps ",
        _derived(found.each, "B", "K/V / positions"),
        " of K and V, so far ",
        _measured(held, "B"),
        ". And in every step, which reads all of it: ",
        _derived(held / (held + facts.weight_bytes), "share", "K/V / (weights + K/V)"),
        " of the bytes now; 1,000 positions more add ",
        _derived(more, "B", "1,000 x K/V of a position"),
    ]
    if found.bytes_per_ms is not None:
        parts += [
            ", ",
            _derived(more / found.bytes_per_ms, "ms", "bytes / this run's own bytes a second"),
        ]
    return Answer(question, (*parts, " to each token."))


def _thinking(figures: Figures, split: Shares, thinking: NDArray[np.bool_]) -> Answer:
    question = "Why does thinking bill like output?"
    if not thinking.any():
        return Answer(question, reason="there is no thinking span in this branch")
    counts = steady(figures)
    counts[:1] = False
    parts: list[Part] = []
    for mask, name in ((thinking, "A thinking token took "), (~thinking, ", one of the answer ")):
        times = split.ms[mask & counts]
        if len(times):
            parts += [name, _derived(float(times.mean()), "ms", "mean of the steps that count")]
    share = float(split.ms[thinking].sum()) / max(float(split.ms.sum()), 1e-12)
    parts += [
        ": the same pass over the same weights and cache. " if len(parts) > 2 else ". ",
        f"{int(thinking.sum()):,} of {len(thinking):,} tokens were thinking, ",
        _derived(share, "share", "time of these tokens / of all"),
        " of the decoding time.",
    ]
    return Answer(question, tuple(parts))
