"""A measurement that somebody asked for beside a run: one command in, one record out."""

from __future__ import annotations

from collections.abc import Callable

from engine.commands import (
    Measure,
    MeasureCeilings,
    MeasureCurves,
    MeasureDrift,
    MeasureLossless,
    Measurement,
    Open,
)
from engine.measure.cache_curves import measure_curves
from engine.measure.contest import ceilings_of, measure
from engine.measure.drift import measure_drift
from engine.measure.lossless import measure_lossless
from engine.progress import Progress
from engine.records.events import Record
from engine.records.measured import Measured
from engine.run.stepper import Stepper


def answer(
    command: Measurement,
    stepper: Stepper,
    opened: Open,
    progress: Progress,
    called: Callable[[], bool],
) -> Record:
    """Carry ``command`` out. ``called`` is true once it should make way for another one.

    ``opened`` loaded the stepper's model. Raises BackendError, ModelError and StepperError.
    """
    match command:
        case Measure():
            return measure(stepper, command, opened, progress)
        case MeasureCeilings(seconds):
            return Measured(ceilings_of(stepper.backend.facts, seconds, progress), None)
        case MeasureDrift(node):
            return measure_drift(stepper, node, progress)
        case MeasureCurves(node):
            return measure_curves(stepper, node, progress, called)
        case MeasureLossless(draws):
            return measure_lossless(stepper, draws, progress)
