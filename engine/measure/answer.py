"""A measurement that somebody asked for beside a run: one command in, one record out."""

from __future__ import annotations

from collections.abc import Callable

from engine.commands import (
    CheckSampler,
    Measure,
    MeasureAlone,
    MeasureCeilings,
    MeasureCurves,
    MeasureDrift,
    MeasureLossless,
    Measurement,
    MeasureModules,
    Open,
)
from engine.measure.alone import measure_alone
from engine.measure.cache_curves import measure_curves
from engine.measure.ceilings import PutOff, never
from engine.measure.contest import ceilings_of, measure
from engine.measure.drift import measure_drift
from engine.measure.lossless import measure_lossless
from engine.measure.modules import measure_modules
from engine.measure.own_sampler import check_sampler
from engine.progress import Progress
from engine.records.events import LoadProgress, Record
from engine.records.measured import MEASURING_CEILINGS, Measured
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
        case MeasureCeilings(seconds, gives_way):
            stop = called if gives_way else never
            try:
                return Measured(ceilings_of(stepper.backend.facts, seconds, progress, stop), None)
            except PutOff:
                pass
            except (MemoryError, RuntimeError):
                if not gives_way:
                    raise
                # Nobody asked for it.
            return LoadProgress(MEASURING_CEILINGS, 1.0, "put off")
        case MeasureDrift(node):
            return measure_drift(stepper, node, progress)
        case MeasureAlone(columns):
            return measure_alone(stepper, columns, progress, called)
        case MeasureCurves(node):
            return measure_curves(stepper, node, progress, called)
        case MeasureModules(node):
            return measure_modules(stepper, node, progress, called)
        case MeasureLossless(draws):
            return measure_lossless(stepper, draws, progress)
        case CheckSampler(node, dials):
            return check_sampler(stepper, node, dials)
