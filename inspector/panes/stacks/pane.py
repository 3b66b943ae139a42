"""The same logits in several stacks, side by side: what each keeps, and the tokens they part on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from engine.records.events import DenseLogits
from engine.records.step import StepRecord
from engine.sampling.candidates import SamplingError
from engine.sampling.chain import Chain, SpecError
from engine.sampling.stacks import StackComparison, compare_stacks
from engine.sampling.stages import Value, spelled
from engine.text import visible
from inspector.draw.numbers import cut, muted
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
from inspector.state.rerun import WAITING, context_of, token_of
from inspector.state.view import RunLog, View
from inspector.state.whatif import hypothetical, recorded_chain, values_of
from inspector.widgets.line_view import Pane, Rows

_MOST = 64
_REASONS = 4
"""Lines below for why the stacks did what they did to the selected token."""
_TALL = 16


@lru_cache(maxsize=4)
def _compared(
    log: RunLog, step: StepRecord, dense: DenseLogits, dials: tuple[tuple[str, Value], ...]
) -> Compared:
    context = context_of(View(log, step.node), step)
    found = compare_stacks(dense.logits, dict(dials), context, limit=_MOST)
    draws = tuple(
        one.chain.choose(one.ladder, context)
        if one.chain is not None and one.ladder is not None
        else None
        for one in found.columns
    )
    return Compared(found, draws)


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


class StacksPane(Pane):
    """The presets, and below them the tokens that some keep and others cut."""

    NAME: ClassVar[str] = "Stacks"
    TRIES: ClassVar[bool] = True
    SELECTABLE: ClassVar[bool] = True
    HELP = """
The logits under the cursor, given to six samplers with the **same dial values and the same dice**.
They differ in the order of their stages and in their rules for ties, borders and temperature 0.
Below are the tokens that some keep and others cut; for the selected one it says why.

**v** gives each stack its own defaults instead, as somebody who sets nothing gets them. **p** goes
back to the ladder.
"""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "v",
            "own",
            "Own defaults",
            id="stacks.own-defaults",
            tooltip="The same dials in every stack, or each stack's own defaults",
        ),
    ]

    def __init__(self, *, id: str | None = None, number: int | str | None = None) -> None:
        super().__init__(id=id, number=number)
        self._own = False
        self._compared: Compared | str = ""

    # --- lines --------------------------------------------------------------------------------

    def header(self, view: View, width: int) -> Sequence[Content]:
        self._compared, step = self._compare(view), view.step
        if isinstance(self._compared, str) or step is None:
            return ()
        found, draws = self._compared.found, self._compared.draws
        name = partial(token_of, view)
        lines = [cut(muted(f" {self._given(view)}"), width), title_line(width)]
        for column, draw in zip(found.columns, draws, strict=True):
            lines.append(stack_line(column, draw, step.token.id, name, width))
        return [*lines, *parting_titles(found.columns, found.disagreeing, width)]

    def rows(self, view: View, width: int, height: int) -> Rows:
        if isinstance(self._compared, str):
            return [muted(f" {self._compared}")]
        found = self._compared.found
        if not found.disagreements:
            return [muted(" all keep the same tokens")]
        return _Parting(found, partial(token_of, view), width)

    def footer(self, view: View, width: int) -> Sequence[Content]:
        if isinstance(self._compared, str) or self.scrollable_content_region.height < _TALL:
            return ()
        found = self._compared.found
        lines: list[Content] = []
        if self.selected < len(found.disagreements):
            lines = reasons(found.disagreements[self.selected], found.columns, width)
        elif found.columns:
            lines = [order_line(one, width) for one in found.columns]
        return [*lines[:_REASONS], *[Content("")] * (_REASONS - len(lines))]

    def subtitle(self, view: View) -> Content:
        return Content("each stack's own defaults" if self._own else "the same dials for all")

    def tries(self, view: View) -> bool:
        return hypothetical(view) and not self._own and not isinstance(self._compared, str)

    def needs_dense(self, view: View) -> bool:
        return True

    def _given(self, view: View) -> str:
        """The dials that all stacks were given."""
        dials = self._dials(view)
        if not dials:
            return "no dial is set: every stack has its own defaults"
        return visible(" ".join(f"{name}={spelled(value)}" for name, value in dials.items()))

    def _dials(self, view: View) -> Mapping[str, Value]:
        chain: Chain | None = view.what_if or recorded_chain(view)
        return {} if self._own or chain is None else values_of(chain)

    def _compare(self, view: View) -> Compared | str:
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
            dials = tuple(self._dials(view).items())
            return _compared(view.log, step, view.dense, dials)
        except (SamplingError, SpecError) as error:
            return str(error)

    # --- keys ---------------------------------------------------------------------------------

    def action_own(self) -> None:
        """The same dials in every stack, or each one's own defaults."""
        self._own = not self._own
        self.rebuild()
