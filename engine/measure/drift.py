"""Drift of a run's logits, padded batches and other dtypes against one pass without a cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from engine.backends.abilities import MeasurableBackend, measurable
from engine.backends.base import BackendError, whole
from engine.measure.compare_logits import compare_logits
from engine.models.resolve import FLOAT_DTYPES
from engine.progress import Progress, silent
from engine.records.arrays import FloatArray, IntArray
from engine.records.measured import MEASURING_DRIFT, DriftMeasured, DriftRow
from engine.records.model import ModelFacts
from engine.run.checks import StepperError
from engine.run.stepper import Stepper
from engine.run.tree import ROOT


def measure_drift(
    stepper: Stepper, node: int | None = None, progress: Progress = silent
) -> DriftMeasured:
    """Compare the logits that ``node`` was drawn from with those of one pass without a cache.

    And those of padded batches and other dtypes too. Without a ``node`` it is the cursor; at the
    prompt (node 0), the logits after it. The run stays as it is. Raises StepperError where there
    are no such logits yet, and BackendError where the text cannot be read at once.
    """
    node = stepper.cursor if node is None else node
    backend, facts = measurable(stepper.backend), stepper.backend.facts
    ours = _of_the_run(stepper, node)
    ids = list(stepper.path_ids(ROOT if node == ROOT else stepper.tree.parents[node]))
    ways: dict[str, Callable[[], FloatArray]] = {
        run_label(facts): lambda: ours,
        "beside a shorter text, padded": partial(backend.reference_logits, ids, rows=2),
    }
    for name in FLOAT_DTYPES:
        if name != facts.dtype.split()[0]:
            ways[f"weights in {name}"] = partial(backend.reference_logits, ids, dtype=name)
    progress(MEASURING_DRIFT, 0.0, "a fresh read")
    reference = backend.reference_logits(ids)
    rows = []
    for done, (label, read) in enumerate(ways.items(), start=1):
        progress(MEASURING_DRIFT, done / (len(ways) + 1), label)
        rows.append(_row(stepper, label, reference, read))
    return DriftMeasured(
        node=node,
        positions=len(ids),
        reference=f"one pass without a cache, {facts.dtype}",
        top=backend.token(int(reference.argmax())),
        rows=tuple(rows),
    )


def rounding(
    backend: MeasurableBackend,
    ids: Sequence[int],
    logits: FloatArray,
    among: IntArray | None = None,
) -> float:
    """Largest difference of a logit after ``ids`` between reads of them in the model's own dtype.

    They are ``logits`` and a padded batch, against one pass without a cache; ``among``: of these
    ids alone. Raises BackendError where nothing can be read so, ValueError where none is finite.
    """
    reference = backend.reference_logits(ids)
    reads = [logits]
    with suppress(BackendError):  # a text of one token has no shorter beginning
        reads.append(backend.reference_logits(ids, rows=2))
    wanted = slice(None) if among is None else among
    return max(compare_logits(reference[wanted], one[wanted]).max_abs for one in reads)


def run_label(facts: ModelFacts) -> str:
    """The source of the run's own logits, in words."""
    kept = facts.kv_storage
    if kept is None or (kept.cached and kept.block_size is None):
        return "this run, its own cache"
    return f"this run, K and V in {kept.dtype}" if kept.cached else "this run, no cache"


def _of_the_run(stepper: Stepper, node: int) -> FloatArray:
    if node != ROOT:
        return stepper.dense(node)
    read = stepper.prefill_record
    if read is None or not read.done:
        raise StepperError("the prompt has not been read yet: n reads it")
    return whole(stepper.reading.after(ROOT, stepper.path_ids(ROOT), first=True).logits)


def _row(
    stepper: Stepper, label: str, reference: FloatArray, read: Callable[[], FloatArray]
) -> DriftRow:
    try:
        found = compare_logits(reference, read())
    except (BackendError, ValueError) as error:
        return DriftRow(label, obstacle=str(error))
    return DriftRow(label, found, stepper.backend.token(found.other_top))
