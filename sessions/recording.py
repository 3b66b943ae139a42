"""Records a whole run of a Stepper into a session file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from engine.records.events import BreakpointsSet, DenseLogits, Record, SettingsChanged
from engine.records.round import DraftSettings
from engine.run.stepper import Stepper
from sessions.writer import SessionWriter


def record(
    stepper: Stepper,
    path: str | Path,
    prompt: str,
    *,
    chat: bool = False,
    steps: int | None = None,
    title: str = "",
    full_logits: bool = False,
    overwrite: bool = False,
) -> None:
    """Run ``prompt`` to its end, or for ``steps`` tokens, into a new session at ``path``.

    The stepper keeps its tree, so that more can be done with it and added by a SessionWriter.
    Raises SessionError, and what the stepper and its backend raise.
    """
    with SessionWriter(path, title=title, full_logits=full_logits, overwrite=overwrite) as writer:
        for one in first_records(stepper, prompt, chat=chat):
            writer.add(one)
        if full_logits:
            writer.add(stepper.backend.vocabulary())
        for count, step in enumerate(stepper.run(), start=1):
            if step.round == step.node:
                writer.add(stepper.rounds[step.node])
            writer.add(step)
            if full_logits:
                writer.add(DenseLogits(step.node, stepper.dense(step.node)))
            if count == steps:
                break
        writer.add_all(last_records(stepper))


def first_records(stepper: Stepper, prompt: str, *, chat: bool = False) -> Iterator[Record]:
    """The first records of a session: the model's facts, settings, the prompt and its prefill."""
    settings = stepper.settings
    yield stepper.backend.facts
    preset, draft = settings.chain.preset, stepper.speculation
    told = DraftSettings() if draft is None else draft.settings
    yield SettingsChanged(preset, settings.spec, stepper.seed, settings.dials, draft=told)
    yield stepper.submit(prompt, chat=chat)
    yield from stepper.prefill()


def last_records(stepper: Stepper) -> Iterator[Record]:
    """The last records of a session: the pool's state and the breakpoints."""
    pool = stepper.pool_state()
    if pool is not None:
        yield pool
    if stepper.breakpoints:
        yield BreakpointsSet(tuple(stepper.breakpoints))
