"""Cost of a token with a KV cache and without, measured along one branch of a run.

The text is read beside the run, in a cache of its own, so that neither the run's tree, nor its
cache, nor its times know of it.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from engine.backends.abilities import MeasurableBackend, Pooled, measurable
from engine.backends.base import Backend, BackendError
from engine.progress import Progress, silent
from engine.records.measured import MEASURING_CURVES, CacheCurves
from engine.run.checks import StepperError
from engine.run.stepper import Stepper

SHORTEST = 16
TURNS, FEWEST = 5, 3
ENOUGH_MS = 2000.0
"""Full reads of one length are to take so long in all; one that takes longer has one turn."""
_SHORT_TEXT = 256


@dataclass
class _Points:
    """Points measured so far, by length."""

    lengths: list[int] = field(default_factory=list)
    with_ms: list[float] = field(default_factory=list)
    without_ms: list[float] = field(default_factory=list)
    reps: list[int] = field(default_factory=list)


def lengths_along(count: int) -> list[int]:
    """Powers of two from ``SHORTEST`` on, and ``count`` itself, which is the last.

    In a short text also halfway between them; nothing lies close to the last one.
    """
    found, at = [], SHORTEST
    while at * 1.25 <= count:
        found.append(at)
        if count <= _SHORT_TEXT and at * 1.5 * 1.25 <= count:
            found.append(at * 3 // 2)
        at *= 2
    return [*found, count]


def turns_for(expected_ms: float | None) -> int:
    """Number of turns for a length whose full read is expected to take so long."""
    if not expected_ms:
        return TURNS
    least = FEWEST if expected_ms < ENOUGH_MS else 1
    return max(least, min(TURNS, int(ENOUGH_MS / expected_ms)))


def measure_curves(
    stepper: Stepper,
    node: int,
    progress: Progress = silent,
    stop: Callable[[], bool] = lambda: False,
) -> CacheCurves:
    """Time passes at several lengths of the text that ends with ``node``; the run stays as it is.

    ``stop`` is asked between two lengths. Raises StepperError for a text of one token, and
    BackendError where not even the shortest length can be read.
    """
    if node not in stepper.tree:
        raise StepperError(f"there is no node {node}")
    ids = list(stepper.path_ids(node))
    if len(ids) < 2:
        raise StepperError("a cache makes no difference to one token: go on first")
    backend, points, note = measurable(stepper.backend), _Points(), ""
    wanted = lengths_along(len(ids))
    with backend.side_sequence(cached=True, positions=len(ids)):
        cache = _cache_in_words(backend)
        for done, length in enumerate(wanted):
            if done and stop():
                note = f"stopped before {length:,} tokens"
                break
            progress(MEASURING_CURVES, done / len(wanted), f"{length:,} tokens")
            try:
                _measure(backend, ids, length, stepper.reading.chunk, points)
            except BackendError as error:
                if not done:
                    raise
                note = f"not at {length:,} tokens: {error}"
                break
    return CacheCurves(
        node=node,
        lengths=tuple(points.lengths),
        with_ms=tuple(points.with_ms),
        without_ms=tuple(points.without_ms),
        reps=tuple(points.reps),
        cache=cache,
        note=note,
    )


def _cache_in_words(backend: Backend) -> str:
    pool = backend.pool_state() if isinstance(backend, Pooled) else None
    if pool is None:
        return "the model's own cache"
    return f"blocks of {pool.block_size}" + (", int8" if pool.quantized else "")


def _measure(
    backend: MeasurableBackend, ids: Sequence[int], length: int, chunk: int, points: _Points
) -> None:
    """Add the point at ``length``: turns at the lengths up to it, after one to warm up."""
    expected = points.without_ms[-1] * length / points.lengths[-1] if points.lengths else None
    # Text that was read already is not gone back over: not every cache can be taken back.
    turns = min(turns_for(expected), length - backend.length)
    # A long pass is hardly slower the first time, and costs too much to be thrown away.
    spare = 1 if turns > 1 and turns < length - backend.length else 0
    start = length - turns - spare
    while backend.length < start:
        _pass_ms(backend, ids[backend.length : min(start, backend.length + chunk)])
    times: list[tuple[float, float]] = []
    for turn in range(turns + spare):
        text = ids[: start + turn + 1]
        if turn % 2:
            without = _full(backend, text)
            times.append((_pass_ms(backend, text[-1:]), without))
        else:
            times.append((_pass_ms(backend, text[-1:]), _full(backend, text)))
    with_ms, without_ms = zip(*times[spare:], strict=True)
    points.lengths.append(length)
    points.with_ms.append(statistics.median(with_ms))
    points.without_ms.append(statistics.median(without_ms))
    points.reps.append(turns)


def _full(backend: MeasurableBackend, text: Sequence[int]) -> float:
    """Milliseconds of one pass over all of ``text``, without a cache."""
    with backend.side_sequence(cached=False):
        return _pass_ms(backend, text)


def _pass_ms(backend: Backend, ids: Sequence[int]) -> float:
    return backend.forward(((backend.sequence, ids),)).ms
