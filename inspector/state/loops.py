"""Loop watch: whether the text up to the cursor has fallen into a repeated cycle."""

from __future__ import annotations

from functools import lru_cache

from engine.records.step import StepRecord
from engine.sampling.loops import WINDOW, Loop, find_loop
from inspector.state.view import RunLog, View

SIGN = "↻"


def loop_at(view: View) -> Loop | None:
    """The loop that the text ends in at the cursor; positions are counted from the prompt on.

    None at the prompt: what it repeats is its author's business.
    """
    return _loop(view.log, view.step) if view.step is not None else None


@lru_cache(maxsize=32)
def _loop(log: RunLog, step: StepRecord) -> Loop | None:
    path = log.path(step.node)
    ids = path[-WINDOW:].token_ids
    prompt = log.prompt.ids if log.prompt is not None else ()
    before = len(prompt) + len(path) - len(ids)
    if len(ids) < WINDOW:
        head = prompt[len(prompt) - min(len(prompt), WINDOW - len(ids)) :]
        ids, before = [*head, *ids], len(prompt) - len(head)
    found = find_loop(ids)
    return None if found is None else Loop(found.length, before + found.start, found.repeats)


def in_words(loop: Loop) -> str:
    """A loop in words, such as ``↻ loop of 7 tokens ×4 since position 23``."""
    what = "token" if loop.length == 1 else "tokens"
    return f"{SIGN} loop of {loop.length} {what} ×{loop.repeats} since position {loop.start:,}"


def briefly(loop: Loop) -> str:
    """A loop in few cells, such as ``↻ loop 7×4``."""
    return f"{SIGN} loop {loop.length}×{loop.repeats}"
