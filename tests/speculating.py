"""Runs with and without speculative decoding on small models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import Any

import numpy as np

from engine.backends.base import Backend
from engine.backends.scripted import ScriptedBackend
from engine.drafts.early_exit import EarlyExit
from engine.drafts.model import DraftModel
from engine.drafts.ngram import PromptLookup
from engine.records.round import Accept
from engine.run.draft import DraftSource, Drawer, Proposal
from engine.run.speculation import Speculation
from engine.run.stepper import Stepper
from engine.sampling.chain import effective
from engine.sampling.verification import Probs
from inspector.state.view import RunLog
from tests import tiny_models
from tests.fakes import timing

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


class Listed:
    """Drafts what a list says, one entry a round; certain of each token unless told otherwise."""

    name = "listed"

    def __init__(self, *drafts: list[int], q: Sequence[float] | None = None) -> None:
        self.drafts = list(drafts)
        self.asked: list[int] = []
        self._q = q

    def propose(self, ids: Any, count: int, drawer: Drawer) -> Proposal:
        self.asked.append(count)
        found = tuple((self.drafts.pop(0) if self.drafts else [])[:count])
        if self._q is None:
            return Proposal(found, tuple(map(Probs.one, found)), (None,) * len(found))
        q = Probs(np.arange(len(self._q), dtype=np.int32), np.array(self._q))
        return Proposal(found, (q,) * len(found), (0.5,) * len(found))

    def keep(self, ids: Any) -> int:
        return 0

    def close(self) -> None:
        pass


def log_of(run: Stepper, *, steps: int | None = None) -> RunLog:
    """The log of a run to its end, with times that can be added up in the head.

    A round takes 2 ms to draft, 10 to verify and 1 for the rest, a plain step 8.
    """
    log = RunLog()
    log.add(run.backend.facts)
    assert run.prompt is not None
    log.add(run.prompt)
    for record in run.prefill():
        log.add(record)
    for step in islice(run.run(), steps):
        total = 0.0 if step.round else 8.0
        if step.round == step.node:
            found = run.rounds[step.round]
            log.add(replace(found, draft_ms=2.0, verify_ms=10.0, rest_ms=1.0))
            total = 13.0
        log.add(replace(step, timing=timing(total)))
    return log
