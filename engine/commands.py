"""What can be asked of an engine. Small frozen values that cross the pipe to its process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.records import PrefillRecord, PromptRecord, StepRecord


@dataclass(frozen=True, slots=True)
class Open:
    """Load a model through a backend of the registry; ``options`` are that backend's own."""

    backend: str = "hf"
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Configure:
    """Sampler settings as the user gave them; the engine resolves the rest and answers with all.

    ``None`` leaves a limit as it is.
    """

    preset: str = "guide"
    dials: Mapping[str, Any] = field(default_factory=dict)
    spec: str = ""
    seed: int = 0
    max_tokens: int | None = None
    chunk: int | None = None


@dataclass(frozen=True, slots=True)
class Submit:
    """A new prompt; the tree before it is gone."""

    text: str
    chat: bool = False
    system: str | None = None


@dataclass(frozen=True, eq=False)
class Restore:
    """Take over a recorded tree (after an engine died, or from a file)."""

    prompt: PromptRecord
    prefill: PrefillRecord | None
    records: Mapping[int, StepRecord]
    cursor: int


@dataclass(frozen=True, slots=True)
class Step:
    """One new child of ``parent``, reading the prompt first where that is still to do."""

    parent: int
    force: int | None = None
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """Step from ``parent`` on until the run stops, ``count`` steps are done, or a pause."""

    parent: int
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """Stop between two passes."""


@dataclass(frozen=True, slots=True)
class SendLogits:
    """Answer with the whole logit vector that ``node`` was drawn from."""

    node: int


@dataclass(frozen=True, slots=True)
class SendVocabulary:
    """Answer with every token of the model."""


@dataclass(frozen=True, slots=True)
class Close:
    """End the engine."""


Command = (
    Open | Configure | Submit | Restore | Step | Run | Pause | SendLogits | SendVocabulary | Close
)
