"""The same logits in several stacks, side by side: what each keeps, and the tokens they part on."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial

from textual.binding import Binding
from textual.content import Content
from textual.geometry import Size

from engine.records.events import DenseLogits
from engine.records.step import Draw, StepRecord
from engine.sampling.candidates import SamplingError
from engine.sampling.chain import Chain, SpecError
from engine.sampling.stacks import StackColumn, StackComparison, compare_stacks
from engine.sampling.stages import Value, spelled
from engine.text import visible
from inspector.draw.numbers import cut, muted
from inspector.messages import NeedCheck
from inspector.panes.stacks.engine import engine_lines, own_stack
from inspector.panes.stacks.rows import (
    Compared,
    Namer,
    order_line,
    parting_line,
    parting_titles,
    reasons,
    stack_line,
    title_line,
)
from inspector.state.rerun import WAITING, choosing, context_of, logits_known, token_of
from inspector.state.view import RunLog, View
from inspector.state.whatif import hypothetical, recorded_chain, values_of
from inspector.widgets.line_view import Pane
from inspector.widgets.picture import DENSE, Picture

_MOST = 64
_REASONS = 4
"""Lines below for why the stacks did what they did to the selected token."""
_TALL = 16
_ALIKE = muted(" all keep the same tokens")


@lru_cache(maxsize=4)
def _compared(
    log: RunLog, step: StepRecord, dense: DenseLogits, dials: tuple[tuple[str, Value], ...]
) -> Compared:
    context, choose = context_of(View(log, step.node), step), choosing(log, step)
    known = logits_known(log)
    found = compare_stacks(dense.logits, dict(dials), context, limit=_MOST, scale_known=known)

    def drawn(one: StackColumn) -> Draw | None:
        if one.chain is None or one.ladder is None:
            return None
        with contextlib.suppress(SamplingError):  # a rejected draft of which q is not known
            return choose(one.chain, one.ladder, context)
        return None

    return Compared(found, tuple(map(drawn, found.columns)))


@dataclass(frozen=True, eq=False)
class _Parting:
    """A line for each token that they part on, made when it comes into sight."""

    found: StackComparison
    name: Namer
    width: int

    def __len__(self) -> int:
        shown = len(self.found.disagreements)
        return shown + (self.found.disagreeing > shown)

    def __getitem__(self, index: int) -> Content:
        found = self.found
        shown = len(found.disagreements)
        if index == shown:
            return muted(f" and {found.disagreeing - shown:,} less likely ones")
        row = found.disagreements[index]
        return parting_line(row, found.columns, self.name(row.token_id), self.width)


@dataclass(frozen=True)
class StacksUI:
    """State of the pane."""

    selected: int = 0
    own: bool = False
    """True for each stack's own defaults, instead of the same dials for all."""


def draw(view: View, size: Size, ui: StacksUI = StacksUI()) -> Picture:
    """The pane."""
    width = size.width
    dials = _dials(view, own=ui.own)
    subtitle = "each stack's own defaults" if ui.own else "the same dials for all"
    compared, step = _compare(view, dials), view.step
    if isinstance(compared, str) or step is None:
        return Picture([muted(f" {compared}")], subtitle=subtitle, wants=[DENSE])
    found, name = compared.found, partial(token_of, view)
    given = " ".join(f"{one}={spelled(value)}" for one, value in dials.items())
    given = visible(given) or "no dial is set: every stack has its own defaults"
    return Picture(
        _Parting(found, name, width) if found.disagreements else [_ALIKE],
        [
            cut(muted(f" {given}"), width),
            title_line(width),
            *(
                stack_line(column, draw, step.token.id, name, width)
                for column, draw in zip(found.columns, compared.draws, strict=True)
            ),
            *engine_lines(view, width),
            *parting_titles(found.columns, found.disagreeing, width),
        ],
        _below(found, ui.selected, width) if size.height >= _TALL else (),
        subtitle=subtitle,
        tries=hypothetical(view) and not ui.own,
        wants=[DENSE],
    )


def _below(found: StackComparison, selected: int, width: int) -> list[Content]:
    """Reasons for what the stacks did to the selected token; without one, their orders."""
    lines: list[Content] = []
    if selected < len(found.disagreements):
        lines = reasons(found.disagreements[selected], found.columns, width)
    elif found.columns:
        lines = [order_line(one, width) for one in found.columns]
    return [*lines[:_REASONS], *[Content("")] * (_REASONS - len(lines))]


def _dials(view: View, *, own: bool) -> Mapping[str, Value]:
    """The dials that all stacks are given."""
    chain: Chain | None = view.what_if or recorded_chain(view)
    return {} if own or chain is None else values_of(chain)


def _compare(view: View, dials: Mapping[str, Value]) -> Compared | str:
    """The comparison, or in words why there is none."""
    step = view.step
    if step is None:
        return "no token drawn yet: step to draw the first"
    if not view.settled:
        return WAITING
    if view.dense is None:
        state = view.log.not_stored or "the engine is asked for them"
        return f"this needs the whole logits of the step: {state}"
    try:
        return _compared(view.log, step, view.dense, tuple(dials.items()))
    except (SamplingError, SpecError) as error:
        return str(error)


class StacksPane(Pane):
    """The presets, and below them the tokens that some keep and others cut."""

    NAME = "Stacks"
    SELECTABLE = True
    HELP = """
The logits under the cursor, given to six samplers with the **same dial values and the same dice**.
They differ in the order of their stages and in their rules for ties, borders and temperature 0.
Below are the tokens that some keep and others cut; for the selected one it says why.

**v** gives each stack its own defaults instead, as somebody who sets nothing gets them. Where the
engine has a sampler of its own and tells what that leaves (llama.cpp), **O** holds our preset of it
against it, with these dials. **V** makes a column of each stack, which goes on from this token.
**p** goes back to the ladder.
"""
    BINDINGS = [
        Binding(
            "v",
            "own",
            "Own defaults",
            id="stacks.own-defaults",
            tooltip="The same dials in every stack, or each stack's own defaults",
        ),
        Binding(
            "O",
            "check",
            "Ask the engine",
            id="stacks.own-sampler",
            tooltip="Hold our preset of the engine's stack against its own sampler",
        ),
    ]

    _own = False

    def picture(self, view: View, size: Size) -> Picture:
        return draw(view, size, StacksUI(self.selected, self._own))

    def action_own(self) -> None:
        """The same dials in every stack, or each one's own defaults."""
        self._own = not self._own
        self.rebuild()

    def action_check(self) -> None:
        """Hold our preset of the engine's stack against its own sampler."""
        view, stack = self.view, own_stack(self.view)
        compared = _compare(view, _dials(view, own=self._own)) if stack else ""
        if isinstance(compared, str):
            self.notify(compared or "this engine has no sampler of its own to ask", markup=False)
            return
        column = next((one for one in compared.found.columns if one.preset == stack), None)
        if column is not None and column.chain is not None:
            self.post_message(NeedCheck(view.cursor, values_of(column.chain)))
