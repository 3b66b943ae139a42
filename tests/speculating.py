"""Runs with and without speculative decoding on small models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from engine.backends.base import Backend
from engine.backends.scripted import ScriptedBackend
from engine.drafts.early_exit import EarlyExit
from engine.drafts.model import DraftModel
from engine.drafts.ngram import PromptLookup
from engine.records.round import Accept
from engine.run.draft import DraftSource
from engine.run.speculation import Speculation
from engine.run.stepper import Stepper
from engine.sampling.chain import effective
from tests import tiny_models

PROMPT = "abcabcabcab"
Source = Callable[[Backend], DraftSource]

tiny = cache(tiny_models.backend)
"""A tiny model, loaded once; what it read before does not matter to another run."""

SOURCES: dict[str, Source] = {
    "ngram": lambda target: PromptLookup(3),
    "self": lambda target: EarlyExit(1, target),
    "same model": lambda target: DraftModel("same", tiny("llama"), target),
    "other model": lambda target: DraftModel("other", tiny("gpt2"), target),
}
"""Draft sources for the tiny models."""


def stepper(
    backend: Backend,
    source: Source | None = None,
    *,
    tokens: int = 4,
    accept: Accept = Accept.EXACT,
    dials: dict[str, Any] | None = None,
    spec: str = "",
    preset: str = "guide",
    prompt: str = PROMPT,
    **more: Any,
) -> Stepper:
    """A run of ``backend``, with its prompt, that drafts from ``source``."""
    settings = effective(preset, dials or {"temperature": 0.0}, spec=spec)
    made = Stepper(backend, settings, **more)
    if source is not None:
        made.speculation = Speculation(source(backend), tokens, accept)
    made.submit(prompt)
    return made


def ids_of(run: Stepper) -> list[int]:
    """All ids of a run to its end."""
    return [record.token.id for record in run.run()]


def fixed(probabilities: Sequence[float], **more: Any) -> ScriptedBackend:
    """The same distribution after every text; a probability of 0 is a logit of minus infinity."""
    with np.errstate(divide="ignore"):
        logits = np.log(np.array(probabilities, np.float64))
    return ScriptedBackend(lambda ids: logits, "abcde"[: len(logits)], **more)


def by_last(rows: Sequence[Sequence[float]], **more: Any) -> ScriptedBackend:
    """A distribution that depends on the last id: its row of probabilities."""
    with np.errstate(divide="ignore"):
        table = np.log(np.array(rows, np.float64))
    return ScriptedBackend(lambda ids: table[ids[-1]], "abcde"[: len(table)], **more)
