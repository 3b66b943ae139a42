"""A step's chain run again over its whole logits, and the rungs that a view has to show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.records import KINDS, StepRecord, Token, TokenKind, Vocabulary
from engine.sampling.candidates import SamplingError
from engine.sampling.chain import DEFAULT_PRESET, Ladder, SpecError, build
from engine.sampling.stages import StageContext
from inspector.panes.bars import share
from inspector.panes.rungs import Recorded, Rungs, Whole
from inspector.view import View


def context_of(view: View, step: StepRecord) -> StageContext:
    """What the stages knew when the cursor's token was drawn."""
    return StageContext(
        prompt_ids=view.prompt.ids if view.prompt is not None else (),
        output_ids=tuple(one.token.id for one in view.path[:-1]),
        stop_ids=frozenset(view.facts.stop_ids if view.facts is not None else ()),
        seed=step.seed,
        vocabulary=view.log.vocabulary,
    )


def run_again(view: View, step: StepRecord, logits: NDArray[Any]) -> Ladder:
    """The step's own chain over its whole logits.

    Built from what each stage recorded of itself: a chain of one stage, written down, would be
    read as dials for a preset's order. Raises SpecError or SamplingError, also where the outcome
    is not the recorded one, such as after a stage whose state the record does not hold.
    """
    values = {name: value for stage in step.stages for name, value in stage.params.items()}
    preset = view.settings.preset if view.settings is not None else DEFAULT_PRESET
    chain = build([stage.name for stage in step.stages], values, preset)
    ladder = chain.run(logits, context_of(view, step))
    for ours, recorded in zip(ladder.traces, step.stages, strict=True):
        if ours.survivors != recorded.survivors:
            raise SamplingError(f"{ours.name} leaves {ours.survivors:,}, not as recorded")
    return ladder


def namer(step: StepRecord, vocabulary: Vocabulary | None) -> Callable[[int], Token | None]:
    """Names for ids: from the vocabulary, or for the few that the record holds."""
    if vocabulary is not None:
        return vocabulary.token
    return {token.id: token for token in step.top.tokens}.get


def padding_note(ladder: Ladder, vocabulary: Vocabulary | None) -> str:
    """How much of the model's mass lies on ids that the tokenizer does not have."""
    ids = ladder.model.vocab_size
    if vocabulary is None:
        return ""
    unused = np.flatnonzero(vocabulary.kinds == KINDS.index(TokenKind.UNUSED))
    if not unused.size:
        return ""
    mass = float(ladder.model.probs_of(unused).sum())
    return f"all {ids:,} ids; unused: {unused.size:,}, with {share(mass)} of the raw mass"


def rungs_of(view: View) -> Rungs | None:
    """The cursor's candidates: all of them where the whole logits are there; None at the root."""
    step = view.step
    if step is None:
        return None
    total, note = view.facts.vocab_size if view.facts is not None else None, ""
    if view.dense is not None:
        try:
            ladder = run_again(view, step, view.dense.logits)
        except (SamplingError, SpecError) as error:
            note = f"not to be run again here: {error}"
        else:
            vocabulary = view.log.vocabulary
            name = namer(step, vocabulary)
            return Whole(ladder, step.draw, name, padding_note(ladder, vocabulary))
    return Recorded(step, total, note)
