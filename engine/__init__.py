"""The debugger's engine: it runs a model one forward pass at a time and records what happened.

``from engine import Stepper, effective, open_model`` is the way in for scripts and notebooks; see
docs/python-api.md. The names are fetched when first used, so that importing a part of the engine
stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.api import open_model
    from engine.conditions.condition import ConditionError, Unavailable
    from engine.measure.drift import measure_drift
    from engine.run.checks import StepperError
    from engine.run.stepper import Stepper
    from engine.sampling.chain import effective

__all__ = [
    "ConditionError",
    "Stepper",
    "StepperError",
    "Unavailable",
    "effective",
    "measure_drift",
    "open_model",
]

_HOME = {
    "ConditionError": "engine.conditions.condition",
    "Stepper": "engine.run.stepper",
    "StepperError": "engine.run.checks",
    "Unavailable": "engine.conditions.condition",
    "effective": "engine.sampling.chain",
    "measure_drift": "engine.measure.drift",
    "open_model": "engine.api",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
