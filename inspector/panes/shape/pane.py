"""The shape of the distribution at the cursor: how many tokens, how sure, and after which stage."""

from __future__ import annotations

import math
from functools import partial
from typing import ClassVar

from textual.content import Content

from engine.records.step import StepRecord
from engine.sampling.candidates import SamplingError
from engine.sampling.chain import Candidates
from engine.sampling.partial import Partial
from engine.sampling.repeat import Repeats, repeat_draw
from inspector.draw.numbers import beside, cut, heading, muted
from inspector.panes.shape.figures import (
    MAIN,
    OTHERS,
    TRIED,
    Column,
    final_shape,
    funnel,
    history,
    marks,
    recorded_census,
    recorded_final,
    recorded_shape,
    table,
    table_width,
    whole_census,
)
from inspector.panes.shape.histogram import histogram
from inspector.state.loops import in_words, loop_at
from inspector.state.rerun import Run, rerun, token_of, what_if
from inspector.state.view import View
from inspector.widgets.line_view import Pane, Rows

_TITLE = "Funnel: tokens left, and the model's mass on them"
_SHORT_TITLE = "Funnel: tokens left, mass"
_GAP, _FUNNEL, _ROOMY_FUNNEL, _NOTES = 2, 36, 56, 38
"""Cells between the figures and the funnel, of the funnel at least and at best, and of the notes
on the figures."""


class ShapePane(Pane):
    """The census. ``draw`` is for the screen, whose keys work from any pane."""

    NAME: ClassVar[str] = "Shape"
    TRIES: ClassVar[bool] = True
    HELP = """
How sure the model was, before and after the sampler. **as wide as**: so many equally likely tokens
would be as uncertain, exp(entropy). **near-forced**: one token has 95% or more. **open**: as wide
as 20 tokens or more. The funnel shows how many tokens each stage left, and how much of the model's
mass is on them.

**x** draws 100 times from the final distribution, **X** 10,000 times, and holds the counts against
what was to be expected. The chi-square test says how often a fair draw is at least as far off.
"""

    def __init__(self, *, id: str | None = None, number: int | str | None = None) -> None:
        super().__init__(id=id, number=number)
        self._draws: tuple[int, StepRecord] | None = None

    def draw(self, count: int, view: View) -> None:
        """Draw ``count`` times at the cursor; the counts stay until the cursor moves on."""
        if view.step is not None:
            self._draws = count, view.step
            self.scroll_to(y=0, animate=False)
            self.show(view)

    # --- lines --------------------------------------------------------------------------------

    def rows(self, view: View, width: int, height: int) -> Rows:
        step = view.step
        if step is None:
            return [muted("no token drawn yet: step to draw the first")]
        tried = self._tried(view)
        columns = self._columns(view, step, tried)
        first = table_width(columns)
        if width - first - _GAP >= _FUNNEL:
            first += max(0, min(_NOTES, width - first - _GAP - _ROOMY_FUNNEL))
            second = width - first - _GAP
            figures = [marks(columns, first), *table(columns, first)]
            right_side = self._right(view, step, tried, second)
            lines = beside(figures, right_side, first, _GAP)
        else:
            # The most telling figures, then where they come from, then the others.
            lines = [
                *self._histogram(view, step, tried, width),
                marks(columns, width),
                *table(columns, width, MAIN),
                *self._funnel(view, step, tried, width),
                *table(columns, width, OTHERS),
            ]
        loop = loop_at(view)
        said = [Content.styled(in_words(loop), "$warning bold")] if loop is not None else []
        return [*(cut(line, width) for line in said), *lines, *history(view.path, width)]

    def _tried(self, view: View) -> Run | None:
        found = what_if(view)
        return found if isinstance(found, Run) else None

    def _right(self, view: View, step: StepRecord, tried: Run | None, width: int) -> list[Content]:
        return [
            *self._histogram(view, step, tried, width),
            *self._funnel(view, step, tried, width),
        ]

    def _columns(self, view: View, step: StepRecord, tried: Run | None) -> list[Column]:
        total = view.facts.vocab_size if view.facts is not None else None
        columns = [
            Column("model", recorded_shape(step, total)),
            Column("drawn of", final_shape(self._final(view, step)), "bold"),
        ]
        if tried is not None:
            columns.append(Column("what if", final_shape(tried.ladder.final), f"{TRIED} bold"))
        return columns

    def _funnel(self, view: View, step: StepRecord, tried: Run | None, width: int) -> list[Content]:
        total = view.facts.vocab_size if view.facts is not None else None
        recorded = recorded_census(step, total)
        title = heading(_TITLE if len(_TITLE) < width else _SHORT_TITLE, width)
        if tried is not None:
            return [title, *funnel(whole_census(tried.ladder), recorded, width)]
        unknown = any(row is None or math.isnan(row.mass) for row in recorded)
        if unknown and (found := self._rerun(view)) is not None:
            recorded = whole_census(found.ladder)
        return [title, *funnel(recorded, None, width)]

    def _histogram(
        self, view: View, step: StepRecord, tried: Run | None, width: int
    ) -> list[Content]:
        if self._draws is None or self._draws[1] is not step:
            return []
        final = tried.ladder.final if tried is not None else self._final(view, step)
        if final is None or isinstance(final, Partial):
            asked = view.log.not_stored or "the engine is asked"
            return [muted(f"drawing many times needs the whole logits: {asked}")]
        found = _repeats(final, self._draws[0], step)
        return histogram(found, partial(token_of, view), width, tried=tried is not None)

    def _final(self, view: View, step: StepRecord) -> Candidates | None:
        """The final distribution, from the record or from its chain run again."""
        known = recorded_final(step)
        if known is not None:
            return known
        found = self._rerun(view)
        return None if found is None else found.ladder.final

    def _rerun(self, view: View) -> Run | None:
        if not view.settled:
            return None
        try:
            return rerun(view)
        except SamplingError:
            return None

    def subtitle(self, view: View) -> Content:
        step = view.step
        if step is None:
            return Content("")
        shape = recorded_shape(step, None)
        word = f"{shape.mark} · " if shape.mark else ""
        return Content(f"{word}as wide as {shape.effective:.1f} tokens")

    def tries(self, view: View) -> bool:
        return self._tried(view) is not None

    def needs_dense(self, view: View) -> bool:
        step = view.step
        return view.what_if is not None or (step is not None and recorded_final(step) is None)


def _repeats(final: Candidates, draws: int, step: StepRecord) -> Repeats:
    return repeat_draw(final, draws, step.seed, step.position)
