"""The engine's side of ``bench``: this machine's ceilings, and turns with a rival."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Protocol

from engine.backends.abilities import measurable
from engine.backends.base import BackendError
from engine.commands import Measure, Open
from engine.measure.ceilings import measure_ceilings, never
from engine.measure.rival_process import RivalError
from engine.measure.rivals import rival_of
from engine.models import resolve as models
from engine.progress import Progress
from engine.records.measured import MEASURING_CEILINGS, SERVERS_MACHINE, Ceilings, Contest, Measured
from engine.records.model import ModelFacts
from engine.run.stepper import Stepper
from engine.timing import now_ms

WARM_UP_TOKENS = 8


class Rival(Protocol):
    """Somebody else who decodes with the same model."""

    @property
    def dtype(self) -> str: ...

    def gaps(self, ids: Sequence[int], tokens: int) -> list[float]: ...


def measure(stepper: Stepper, asked: Measure, opened: Open, progress: Progress) -> Measured:
    """Carry out ``asked`` with the model that ``opened`` has loaded into ``stepper``.

    Raises BackendError, ModelError (for a rival that cannot be had) and StepperError.
    """
    facts = stepper.backend.facts
    if asked.rival and opened.backend != "hf":
        raise BackendError(f"{asked.rival} is for real models: backend {opened.backend} has none")
    ceilings = ceilings_of(facts, asked.seconds, progress)
    if not asked.rival:
        return Measured(ceilings, None)
    try:
        rival = rival_of(asked.rival, opened, facts, progress)
        try:
            return Measured(ceilings, contest(stepper, rival, asked, progress))
        finally:
            rival.close()
    except RivalError as error:
        raise BackendError(str(error)) from error


def contest(stepper: Stepper, rival: Rival, asked: Measure, progress: Progress) -> Contest:
    """Let both take turns, the first of a round being the last of the one before.

    So whatever else the machine does meets them alike. The first round is short and not counted.
    """
    ids = stepper.submit(asked.prompt).ids
    turns = [lambda count: our_gaps(stepper, ids, count), lambda count: rival.gaps(ids, count)]
    medians: list[list[float]] = [[], []]
    for round_ in range(asked.rounds + 1):
        for at in (0, 1) if round_ % 2 else (1, 0):
            progress("taking turns", round_ / (asked.rounds + 1), f"round {round_}")
            gaps = turns[at](asked.tokens if round_ else min(asked.tokens, WARM_UP_TOKENS))
            if round_:
                medians[at].append(statistics.median(gaps))
    ours, theirs = map(tuple, medians)
    return Contest(asked.rival or "", rival.dtype, asked.tokens, ours, theirs)


def our_gaps(stepper: Stepper, ids: Sequence[int], tokens: int) -> list[float]:
    """The Stepper's own: milliseconds of each step after the first token, every record kept.

    Like the rival, it finds nothing of an earlier turn.
    """
    measurable(stepper.backend).clear()
    stepper.submit_ids(ids)
    times = []
    for _ in range(tokens):
        stepper.step()
        times.append(now_ms())
    return [after - before for before, after in pairwise(times)]


def ceilings_of(
    facts: ModelFacts,
    seconds: float,
    progress: Progress,
    stop: Callable[[], bool] = never,
) -> Ceilings:
    """Ceilings of this machine for a model of these facts; takes thrice ``seconds``.

    Raises PutOff once ``stop`` is true, BackendError for a model behind a URL.
    """
    if facts.remote:
        raise BackendError(SERVERS_MACHINE)
    progress(MEASURING_CEILINGS, None, "memory bandwidth and matrix products")
    dtype = facts.dtype.split()[0]
    # Matrix products of a quantised model's integers are not what it computes with.
    found = measure_ceilings(
        facts.device,
        dtype if dtype in models.DTYPES else "float32",
        seconds=seconds,
        stop=stop,
    )
    return replace(found, device_name=facts.device_name)
