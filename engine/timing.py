"""One monotonic clock, and the figures derived from it, by the definitions of the field.

Every figure is a sum of phases that were timed, or a ratio of such sums. So what lies between two
passes, the user's thinking time above all, is in none of them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from engine.records.prompt import PrefillRecord, PromptRecord
from engine.records.step import StepRecord
from engine.records.step_table import begins_burst, figures_of, steady


def now_ms() -> float:
    """Milliseconds on the one clock that every duration here is measured with."""
    return time.perf_counter_ns() / 1e6


class PhaseKind(StrEnum):
    """Phase on the way to the first token."""

    TEMPLATE = "template"
    TOKENIZE = "tokenize"
    LOOKUP = "lookup"
    """Looking for the prompt's beginning in the KV cache."""
    PREFILL = "prefill"
    HEAD = "head"
    """The output head, behind the layers of a prefill chunk."""
    SAMPLE = "sample"
    DETOKENIZE = "detokenize"


@dataclass(frozen=True, slots=True)
class Phase:
    """One timed stretch. ``chunk`` is the index of the prefill chunk it is, if it is one."""

    kind: PhaseKind
    ms: float
    chunk: int | None = None


def phases(
    prompt: PromptRecord | None, prefill: PrefillRecord | None, first: StepRecord | None
) -> tuple[Phase, ...]:
    """The stretches from submit to the first token's text, in order, as far as they are done.

    The first step's own ``forward_ms`` is not among them: its pass was the prefill. Template,
    lookup and head are there where they were timed.
    """
    found: list[Phase] = []
    if prompt is not None:
        rendered = prompt.template_ms
        if rendered is not None:
            found.append(Phase(PhaseKind.TEMPLATE, rendered))
        found.append(Phase(PhaseKind.TOKENIZE, max(0.0, prompt.tokenize_ms - (rendered or 0.0))))
    if prefill is not None:
        if prefill.lookup_ms is not None:
            found.append(Phase(PhaseKind.LOOKUP, prefill.lookup_ms))
        for index, chunk in enumerate(prefill.chunks):
            head = chunk.head_ms
            found.append(Phase(PhaseKind.PREFILL, max(0.0, chunk.ms - (head or 0.0)), index))
            if head is not None:
                found.append(Phase(PhaseKind.HEAD, min(head, chunk.ms), index))
    if first is not None:
        found.append(Phase(PhaseKind.SAMPLE, first.timing.sample_ms))
        found.append(Phase(PhaseKind.DETOKENIZE, first.timing.detokenize_ms))
    return tuple(found)


def ttft_ms(parts: Iterable[Phase]) -> float | None:
    """Submit to first token id: the sum of ``parts`` up to and with the first sample.

    The token's text comes after its id, so detokenizing is not in it. None before there is an id.
    """
    total, sampled = 0.0, False
    for part in parts:
        if part.kind is not PhaseKind.DETOKENIZE:
            total += part.ms
        sampled |= part.kind is PhaseKind.SAMPLE
    return total if sampled else None


@dataclass(frozen=True, slots=True)
class Speed:
    """A run's speed up to one node. ``None`` where the figure does not exist (yet)."""

    ttft_ms: float | None
    """Submit to first token id: template, tokenize, lookup, prefill and the first sample; loading
    is not in it."""
    itl_ms: float | None
    """Mean gap between tokens, over the steady steps after the first; the tokens of a speculative
    round come at once, so the gap is between rounds. Without rounds it is also called TPOT."""
    tps: float | None
    """Decode tokens per second: ``(n - 1) / time of the steps after the first``, the same steps."""
    end_to_end_tps: float | None
    """Output tokens / (TTFT + all steps after the first), warm-up included: what the wait was.
    None where a fork's step ran no pass, or its branch was read again: the wait was another's."""
    prefill_tps: float | None
    """Prompt tokens really computed per second of prefill."""
    warmup_steps: int
    """Steps after the first that were the first of their shape."""
    reused_steps: int
    """Steps after the first that ran no pass."""
    reread_steps: int
    """Steps after the first that had to read their branch again."""


def gaps_ms(path: Sequence[StepRecord]) -> NDArray[np.float64]:
    """Durations of the decode steps that count: the steady ones after the first token's.

    A speculative round is one step with several tokens.
    """
    later = figures_of(path)[1:]
    later = later[steady(later)]
    begins = begins_burst(later)
    begins[:1] = True
    burst = np.cumsum(begins) - 1
    return np.bincount(burst, weights=later["total_ms"]).astype(np.float64, copy=False)


def decode_ms(path: Sequence[StepRecord]) -> list[float]:
    """Milliseconds of the decode steps, as a list; see ``gaps_ms``."""
    found: list[float] = gaps_ms(path).tolist()
    return found


def percentile(values: Sequence[float] | NDArray[np.float64], share: float) -> float | None:
    """The value that ``share`` (0..1) of ``values`` do not exceed, by nearest rank.

    Always one of the values, never one in between. None of none.
    """
    if not len(values):
        return None
    rank = min(max(math.ceil(share * len(values)), 1), len(values)) - 1
    return float(np.partition(np.asarray(values, np.float64), rank)[rank])


def speed(
    prompt: PromptRecord | None, prefill: PrefillRecord | None, path: Sequence[StepRecord]
) -> Speed:
    """The figures of a path from the root, given its prompt and prefill."""
    ttft = None
    if prompt is not None and prefill is not None and path:
        ttft = ttft_ms(phases(prompt, prefill, path[0]))
    later = figures_of(path)[1:]
    reused, reread = (int(later[name].sum()) for name in ("reused", "reread"))
    gaps, tokens = gaps_ms(path), int(np.count_nonzero(steady(later)))
    decoding = float(gaps.sum())
    forked = reused or reread
    whole = None if ttft is None or forked else ttft + float(later["total_ms"].sum())
    return Speed(
        ttft_ms=ttft,
        itl_ms=decoding / len(gaps) if len(gaps) else None,
        tps=_per_second(tokens, decoding),
        end_to_end_tps=_per_second(len(path), whole),
        prefill_tps=_per_second(prefill.computed, prefill.total_ms) if prefill else None,
        warmup_steps=int(later["warmup"].sum()),
        reused_steps=reused,
        reread_steps=reread,
    )


def _per_second(count: int, ms: float | None) -> float | None:
    """``count`` in ``ms`` as a rate; None where it would be infinite, or of nothing."""
    return count / ms * 1000 if count and ms is not None and ms > 0 else None
