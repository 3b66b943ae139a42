"""The shape of the distribution at the cursor: how many tokens, how sure, and after which stage."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

from textual.content import Content
from textual.geometry import Size

from engine.records.step import StepRecord
from engine.sampling.candidates import SamplingError
from engine.sampling.chain import Candidates
from engine.sampling.partial import Partial
from engine.sampling.repeat import repeat_draw
from engine.sampling.shape import census
from inspector.draw.numbers import ALL_DERIVED, beside, cut, heading, muted
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
)
from inspector.panes.shape.histogram import histogram
from inspector.panes.waiting import about
from inspector.state.loops import in_words, loop_at
from inspector.state.rerun import Run, rerun, token_of, what_if
from inspector.state.view import View
from inspector.widgets.line_view import Pane
from inspector.widgets.picture import DENSE, Picture

_TITLE = "Funnel: tokens left, and the model's mass on them"
_SHORT_TITLE = "Funnel: tokens left, mass"
_GAP, _FUNNEL, _ROOMY_FUNNEL, _NOTES = 2, 36, 56, 38
"""Cells between the figures and the funnel, of the funnel at least and at best, and of the notes
on the figures."""


@dataclass(frozen=True, eq=False)
class ShapeUI:
    """State of the pane: how many times to draw, and the step from whose distribution."""

    draws: int = 0
    step: StepRecord | None = None


def draw(view: View, size: Size, ui: ShapeUI = ShapeUI()) -> Picture:
    """The pane."""
    step = view.step
    if step is None:
        none = muted("no token drawn yet: step to draw the first")
        text = "The shape of its distribution will be here, of the model and after the sampler."
        lines = [none, *about(text, size.width)]
        return Picture(lines, wants=[DENSE] if view.what_if is not None else [])
    shape, found = recorded_shape(step, None), what_if(view)
    word = f"{shape.mark} · " if shape.mark else ""
    lacks = view.what_if is not None or recorded_final(step) is None
    tried = found if isinstance(found, Run) else None
    return Picture(
        _lines(view, step, tried, size.width, ui),
        subtitle=f"{word}as wide as {shape.effective:.1f} tokens · {ALL_DERIVED}",
        tries=tried is not None,
        wants=[DENSE] if lacks else [],
    )


def _lines(
    view: View, step: StepRecord, tried: Run | None, width: int, ui: ShapeUI
) -> list[Content]:
    columns = _columns(view, step, tried)
    first = table_width(columns)
    if width - first - _GAP >= _FUNNEL:
        first += max(0, min(_NOTES, width - first - _GAP - _ROOMY_FUNNEL))
        second = width - first - _GAP
        figures = [marks(columns, first), *table(columns, first)]
        right = [*_histogram(view, step, tried, second, ui), *_funnel(view, step, tried, second)]
        lines = beside(figures, right, first, _GAP)
    else:
        # The most telling figures, then where they come from, then the others.
        lines = [
            *_histogram(view, step, tried, width, ui),
            marks(columns, width),
            *table(columns, width, MAIN),
            *_funnel(view, step, tried, width),
            *table(columns, width, OTHERS),
        ]
    loop = loop_at(view)
    said = [Content.styled(in_words(loop), "$warning bold")] if loop is not None else []
    return [*(cut(line, width) for line in said), *lines, *history(view.path, width)]


def _columns(view: View, step: StepRecord, tried: Run | None) -> list[Column]:
    columns = [
        Column("model", recorded_shape(step, view.vocab_size)),
        Column("drawn of", final_shape(_final(view, step)), "bold"),
    ]
    if tried is not None:
        columns.append(Column("what if", final_shape(tried.ladder.final), f"{TRIED} bold"))
    return columns


def _funnel(view: View, step: StepRecord, tried: Run | None, width: int) -> list[Content]:
    recorded = recorded_census(step, view.vocab_size)
    title = heading(_TITLE if len(_TITLE) < width else _SHORT_TITLE, width)
    if tried is not None:
        return [title, *funnel(census(tried.ladder), recorded, width)]
    unknown = any(row is None or math.isnan(row.mass) for row in recorded)
    if unknown and (found := _rerun(view)) is not None:
        recorded = list(census(found.ladder))
    return [title, *funnel(recorded, None, width)]


def _histogram(
    view: View, step: StepRecord, tried: Run | None, width: int, ui: ShapeUI
) -> list[Content]:
    if ui.step is not step:
        return []
    final = tried.ladder.final if tried is not None else _final(view, step)
    if final is None or isinstance(final, Partial):
        asked = view.log.not_stored or "the engine is asked"
        return [muted(f"drawing many times needs the whole logits: {asked}")]
    found = repeat_draw(final, ui.draws, step.seed, step.position)
    return histogram(found, partial(token_of, view), width, tried=tried is not None)


def _final(view: View, step: StepRecord) -> Candidates | None:
    """The final distribution, from the record or from its chain run again."""
    known = recorded_final(step)
    if known is not None:
        return known
    found = _rerun(view)
    return None if found is None else found.ladder.final


def _rerun(view: View) -> Run | None:
    if not view.settled:
        return None
    try:
        return rerun(view)
    except SamplingError:
        return None


class ShapePane(Pane):
    """The census. ``repeat`` is for the screen, whose keys work from any pane."""

    NAME = "Shape"
    HELP = """
How sure the model was, before and after the sampler. **as wide as**: so many equally likely tokens
would be as uncertain, exp(entropy). **near-forced**: one token has 95% or more. **open**: as wide
as 20 tokens or more. The funnel shows how many tokens each stage left, and how much of the model's
mass is on them.

**x** draws 100 times from the final distribution, **X** 10,000 times, and holds the counts against
what was to be expected. The chi-square test says how often a fair draw is at least as far off.
"""

    _ui = ShapeUI()

    def picture(self, view: View, size: Size) -> Picture:
        return draw(view, size, self._ui)

    def repeat(self, count: int, view: View) -> None:
        """Draw ``count`` times at the cursor; the counts stay until the cursor moves on."""
        if view.step is not None:
            self._ui = ShapeUI(count, view.step)
            self.scroll_to(y=0, animate=False)
            self.show(view)
