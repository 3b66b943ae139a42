"""Time of a pass, module by module, and the cost of finding it out.

Hooks on every module slow a pass down, and a decode step that is run in fewer operations has no
modules to hang them on. So nothing of this is in a run's own passes: the text is read beside it,
by turns with the modules timed and without.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from engine.backends.abilities import (
    MeasurableBackend,
    Profiled,
    measurable,
    missing,
)
from engine.backends.base import BackendError, ForwardPass
from engine.progress import Progress, silent
from engine.records.measured import MEASURING_MODULES, ModulesTimed, TimedPass
from engine.records.prompt import LayerTime
from engine.run.checks import StepperError
from engine.run.stepper import Stepper

TURNS = 7
READS = 3
"""Turns of a step, and of a reading; each after one to warm up."""


def measure_modules(
    stepper: Stepper,
    node: int,
    progress: Progress = silent,
    stop: Callable[[], bool] = lambda: False,
) -> ModulesTimed:
    """Time passes at the end of ``node``'s text by module; the run stays as it is.

    Raises StepperError for an unknown node, and BackendError where nothing can be timed.
    """
    if node not in stepper.tree:
        raise StepperError(f"there is no node {node}")
    backend = measurable(stepper.backend)
    if not isinstance(backend, Profiled):
        raise BackendError(missing(backend.facts, Profiled))
    ids = list(stepper.path_ids(node))
    chunk = ids[: stepper.reading.chunk]
    step = reading = None
    with backend.side_sequence(cached=True, positions=2 * len(ids)):
        progress(MEASURING_MODULES, 0.0, f"a reading of {len(chunk):,} tokens")
        reading, note = _timed(backend, chunk, 0, READS, stop)
        progress(MEASURING_MODULES, 0.5, f"a step at {len(ids):,} tokens")
        if len(ids) > 1 and not stop():
            _read(backend, ids[:-1], stepper.reading.chunk)
            step, note = _timed(backend, ids, len(ids) - 1, TURNS, stop)
    if step is None:
        note = note or "a step comes after another token: go on first"
    return ModulesTimed(node, step, reading, note)


def _read(backend: MeasurableBackend, ids: Sequence[int], chunk: int) -> None:
    """Bring the cache to hold ``ids``, as far as it does not."""
    backend.seek([*ids, ids[-1]])
    while backend.length < len(ids):
        at = backend.length
        backend.forward(((backend.sequence, ids[at : at + chunk]),))


def _timed(
    backend: MeasurableBackend,
    ids: Sequence[int],
    start: int,
    turns: int,
    stop: Callable[[], bool],
) -> tuple[TimedPass | None, str]:
    """Passes over ``ids[start:]`` behind the rest; or why they could not be timed."""
    assert isinstance(backend, Profiled)
    plain: list[float] = []
    timed: list[ForwardPass] = []
    piece = ids[start:]
    for turn in range(turns + 1):
        for profile in (False, True) if turn % 2 else (True, False):
            # Its own last position, which a cache that cannot be cut reads again with the rest.
            backend.seek(ids[: start + 1])
            if backend.length < start:
                _read(backend, ids[:start], len(ids))
            result = (
                backend.prefill(piece, modules=True)
                if profile
                else backend.forward(((backend.sequence, piece),))
            )
            if not turn:
                continue
            if profile:
                timed.append(result)
            else:
                plain.append(result.ms)
        if turn and stop():
            break
    if not timed or not timed[-1].layers:
        return None, timed[-1].layers_note if timed else "it made way for something else"
    return (
        TimedPass(
            tokens=len(piece),
            context=len(ids),
            plain_ms=statistics.median(plain),
            timed_ms=statistics.median(one.ms for one in timed),
            reps=len(timed),
            layers=_median_layers([one.layers for one in timed]),
            outside=_median_outside(timed),
        ),
        "",
    )


def _median_layers(passes: Sequence[tuple[LayerTime, ...]]) -> tuple[LayerTime, ...]:
    return tuple(
        LayerTime(
            _median([one.attention_ms for one in same]),
            _median([one.mlp_ms for one in same]),
            statistics.median(one.total_ms for one in same),
            _median([one.norm_ms for one in same]),
        )
        for same in zip(*passes, strict=True)
    )


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if len(known) == len(values) else None


def _median_outside(passes: Sequence[ForwardPass]) -> dict[str, float]:
    times = [
        {**one.outside, **({} if one.head_ms is None else {"output head": one.head_ms})}
        for one in passes
    ]
    return {
        name: statistics.median(one[name] for one in times)
        for name in times[0]
        if all(name in one for one in times)
    }
