"""Speculative decoding: one round, draft by draft, and what the rounds of the branch bring."""

from __future__ import annotations

from dataclasses import dataclass

from textual.content import Content
from textual.geometry import Size

from engine.records.round import RoundRecord
from engine.records.step import StepRecord
from inspector.draw.numbers import PERCENT, Mark, cut, ms, muted
from inspector.panes.speculation.figures import lines, rounds_of
from inspector.panes.speculation.near_tie import near_tie_lines
from inspector.panes.speculation.rows import (
    residual_lines,
    round_rows,
    row_of,
    summary,
    title_line,
)
from inspector.state.view import View
from inspector.widgets.line_view import Pane
from inspector.widgets.picture import Picture

_NO_DRAFTS = "nothing is drafted here: --draft ngram, --draft self:LAYERS or --draft MODEL"
_LEAST_ROWS = 6
_TALL = 16


@dataclass(frozen=True)
class SpeculationUI:
    """State of the pane."""

    before: StepRecord | None = None
    """The step that was shown last."""


def draw(view: View, size: Size, ui: SpeculationUI = SpeculationUI()) -> Picture:
    """The pane."""
    width, height = size.width, size.height
    found = rounds_of(view)
    figures = lines(found, width) if height >= _TALL else lines(found, width)[1:2]
    step = view.step
    record = view.log.rounds.get(step.round) if step is not None and step.round else None
    if step is None or record is None:
        return Picture([cut(muted(f" {_why_none(view)}"), width)], footer=figures)
    last = view.log.nodes.get(record.nodes[-1])
    header = [
        cut(summary(record, len(found.rounds), len(view.log.rounds)), width),
        title_line(width),
    ]
    rows = round_rows(record, last, width)
    figures = [*near_tie_lines(view, width), *figures]
    room = height - len(header) - len(figures) - max(min(len(rows), _LEAST_ROWS), 1)
    rest = _rejection(record, last, width, room)
    place = row_of(record, step.node)
    times = record.draft_ms, record.verify_ms, record.rest_ms
    return Picture(
        rows,
        header,
        [*rest, *figures],
        remark="NOT LOSSLESS" if record.accept.lossy else "",
        subtitle=" + ".join(map(ms, times)) + f" {Mark.MEASURED} · {PERCENT}",
        select=place if step is not ui.before else None,
        follow=place,
        top=ui.before is None or ui.before.round != step.round,
    )


def _rejection(
    record: RoundRecord, last: StepRecord | None, width: int, room: int
) -> list[Content]:
    """The residual of the round's rejection, as far as there is room."""
    if record.residual is None or last is None:
        return []
    return residual_lines(record.residual, last.token.id, width, min(room, 7))


def _why_none(view: View) -> str:
    """A reason for which no round is shown."""
    step, settings = view.step, view.settings
    if step is not None and step.round:
        return "the round that this token came in was not kept"
    if view.facts is not None and view.facts.top is not None:
        return (
            f"n/a: a draft is verified by whole distributions, and engine {view.facts.backend} "
            f"tells the {view.facts.top:,} likeliest tokens"
        )
    if not view.log.rounds and (settings is None or not settings.draft.source):
        return _NO_DRAFTS
    if step is None:
        return "at the prompt: the first round follows the first token"
    return "this token came without a draft: a plain step"


class SpeculationPane(Pane):
    """The round at the cursor, and the figures of the branch's rounds."""

    NAME = "Speculation"
    SHORT = "Spec"
    SELECTABLE = True
    HELP = """
A **round** drafts some tokens with a cheap source, and the model verifies all in **one pass**. A
draft of probability **q** is accepted with probability **min(1, p/q)**, p being what the model
gives it after the sampler's stages: where the dice lie below. At the first rejection the token is
drawn from what is left of p, **max(0, p − q)** (the residual); behind drafts that were all accepted
comes a **bonus** from p. So the text is distributed as without drafts, whatever drafts.

`match` keeps a draft while it is the model's own draw, as llama.cpp does. `typical` accepts what is
plausible enough: it is **not lossless**.

The rate is **accepted / drafted**; corrections, bonuses and what follows a rejection never count.
By position: of all rounds, and of those that reached it. Tokens a pass: 1 + accepted / rounds. *By
p and q*: what these very distributions let expect, and its deviation. The speed-up is against the
median plain step of this branch (or the run's, or what was timed at load); *pays from* is the
acceptance, alike at each draft, at which a round costs as much a token as that. *Where it pays*:
along the text, tokens of the rounds × a plain step ÷ their time; **·** is where drafting was
slower. First passes of a new shape are left out of times.
"""

    _before: StepRecord | None = None

    def picture(self, view: View, size: Size) -> Picture:
        found = draw(view, size, SpeculationUI(self._before))
        self._before = view.step
        return found
