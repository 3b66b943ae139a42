"""The sampler ladder: the distribution before and after each stage, and where the draw landed.

One column a stage, one row a candidate, in the model's own order. A token that a stage cuts has
``✂`` and the stage's name in that stage's column, and nothing after it. The drawn token has ``●``
in the last column; its row is pinned below the others when it is not among the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from engine.records import CUT_BY_MODEL, SURVIVES, DenseLogits, StepRecord, Vocabulary
from inspector.messages import NeedDense
from inspector.panes.bars import FIGURE, share
from inspector.panes.base import Pane, Rows
from inspector.panes.cells import left, right, token_parts
from inspector.panes.ladder_draw import detail, draw_lines, signed
from inspector.panes.ladder_plan import (
    FINAL,
    FULL,
    SHORT,
    Plan,
    StageColumn,
    head,
    head_height,
    plan,
    short_name,
)
from inspector.panes.rerun import rungs_of
from inspector.panes.rungs import Recorded, Rung, Rungs
from inspector.panes.sparks import bar
from inspector.view import View

CUT, DRAWN = "✂", "●"
_CUT = "$cut $cut-style"
_DRAWN = "$bar-drawn $bar-drawn-style"
_MUTED = "$text-muted"
_BARE = 5
"""The pane's height from which the selected row's figures are below."""


# --- rows -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LadderRows:
    """One line a candidate, made when it is asked for, and a last line about the rest."""

    rungs: Rungs
    plan: Plan
    tail: str

    def __len__(self) -> int:
        return len(self.rungs) + 1

    def __getitem__(self, row: int) -> Content:
        if row == len(self.rungs):
            return Content.styled(f" {self.tail}", _MUTED)
        return self.line(self.rungs[row])

    def line(self, rung: Rung) -> Content:
        """The row of one candidate."""
        made, drawn = self.plan, rung.token_id == self.rungs.draw.token_id
        numbers = (
            (f"{rung.rank}", made.rank),
            (f"{rung.token_id}", made.id),
            (signed(rung.raw_logprob, 2), made.logprob),
        )
        words = "".join(f"{right(text, cells)} " for text, cells in numbers if cells)
        parts = [(f" {words}", _MUTED)]
        if made.model:
            parts += self._model(rung, drawn)
        for column in made.stages:
            parts += self._stage(rung, column, drawn)
        parts.append(self._final(rung, drawn))
        alive = rung.cut_by == SURVIVES
        parts += token_parts(rung.token, _DRAWN if drawn else "" if alive else _CUT)
        line = Content.assemble(*parts)
        return line.stylize_before("bold") if drawn else line

    def _model(self, rung: Rung, drawn: bool) -> list[tuple[str, str]]:
        if rung.cut_by == CUT_BY_MODEL:
            return [(left(f"{CUT} model", self.plan.model) + " ", _CUT)]
        return self._bar(rung.probs[0], self.plan.model, drawn)

    def _stage(self, rung: Rung, column: StageColumn, drawn: bool) -> list[tuple[str, str]]:
        stage = self.rungs.stages[column.index]
        if rung.cut_by == column.index:
            name = short_name(stage.name, column.cells - 2)
            return [(left(f"{CUT} {name}", column.cells) + " ", _CUT)]
        if rung.cut_by != SURVIVES and rung.cut_by < column.index:
            return [(" " * (column.cells + 1), "")]
        if stage.off:
            return [(left("·", column.cells) + " ", _MUTED)]
        return self._bar(rung.probs[column.index + 1], column.cells, drawn)

    def _bar(self, probability: float, cells: int, drawn: bool) -> list[tuple[str, str]]:
        """Figure and bar. Every column's bars have the same length, so that they compare."""
        largest = self.rungs.largest
        length = self.plan.bar
        drawing = bar(probability / largest if largest > 0 else 0.0, length).ljust(cells - FIGURE)
        if self.plan.gap:
            drawing = f" {drawing[:-1]}"
        figure = share(probability).rjust(FIGURE)
        return [
            (figure, "$bar-drawn" if drawn else ""),
            (f"{drawing} ", "$bar-drawn" if drawn else "$bar"),
        ]

    def _final(self, rung: Rung, drawn: bool) -> tuple[str, str]:
        figure = share(rung.probs[-1]).rjust(FIGURE)
        if drawn:
            return f"{DRAWN} {figure} ", _DRAWN
        if rung.cut_by == SURVIVES:
            return f"  {figure} ", ""
        shown = [column.index for column in self.plan.stages]
        if rung.cut_by in shown or (rung.cut_by == CUT_BY_MODEL and self.plan.model):
            return " " * (FINAL + 1), ""
        name = "model" if rung.cut_by == CUT_BY_MODEL else self.rungs.stages[rung.cut_by].name
        return left(f"{CUT} {short_name(name, FINAL - 2)}", FINAL) + " ", _CUT


# --- the pane -------------------------------------------------------------------------------


def tail(rungs: Rungs, loading: bool) -> str:
    """The line after the last row: what is not shown, or that all is."""
    if rungs.total is not None and rungs.total <= len(rungs):
        return rungs.note or f"all {len(rungs):,} ids"
    more = "" if rungs.total is None else f"{rungs.total - len(rungs):,} "
    # A sum of all probabilities misses 1 by rounding alone.
    raw, final = (share(1.0 - held if held < 1.0 - 1e-12 else 0.0) for held in rungs.shown)
    state = rungs.note or ("loading the rest…" if loading else "↓ loads them")
    return f"{more}more tokens: {raw} raw mass, {final} final mass · {state}"


def footer_height(height: int) -> int:
    """Lines below the rows in a pane of this height, without the pinned row."""
    return 4 if height >= FULL else 2 if height >= SHORT else 1 if height >= _BARE else 0


class LadderPane(Pane):
    """The ladder at the cursor. ``Chosen`` names a row; ``token_id_of`` tells its token.

    Posts ``NeedDense`` when the user comes to the end of what the record holds.
    """

    NAME: ClassVar[str] = "Ladder"
    SELECTABLE: ClassVar[bool] = True

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "left_square_bracket",
            "stages(-1)",
            "Stages to the left",
            show=False,
            key_display="[",
            id="ladder.stages-left",
        ),
        Binding(
            "right_square_bracket",
            "stages(1)",
            "Stages to the right",
            show=False,
            key_display="]",
            id="ladder.stages-right",
        ),
    ]

    def __init__(self, *, id: str | None = None, number: int | None = None) -> None:
        super().__init__(id=id, number=number)
        self._lines: LadderRows | None = None
        self._source: tuple[StepRecord | None, DenseLogits | None, Vocabulary | None] | None = None
        self._first_stage = 0
        self._asked: int | None = None

    # --- lines --------------------------------------------------------------------------------

    def header(self, view: View, width: int) -> Sequence[Content]:
        self._lines = self._look(view, width)
        if self._lines is None:
            return ()
        return head(self._lines.rungs, self._lines.plan, self._height)

    def rows(self, view: View, width: int, height: int) -> Rows:
        if self._lines is None:
            return [Content.styled("no token drawn yet: step to draw the first", _MUTED)]
        return self._lines

    def footer(self, view: View, width: int) -> Sequence[Content]:
        if self._lines is None or self._height < _BARE:
            return ()
        rungs = self._lines.rungs
        lines = []
        drawn = rungs.row_of(rungs.draw.token_id)
        if drawn is not None and drawn >= self._page:
            lines.append(self._lines.line(rungs[drawn]))
        full = self._height >= FULL
        if self._height >= SHORT:
            lines += draw_lines(rungs, width, roomy=full)
        return [*lines, *detail(rungs, self.selected, width, roomy=full)]

    def subtitle(self, view: View) -> Content:
        if self._lines is None:
            return Content("")
        rungs = self._lines.rungs
        final = rungs.stages[-1].entropy if rungs.stages else rungs.entropy
        entropy = f"entropy {rungs.entropy:.2f} → {final:.2f} nats"
        return Content(f"{entropy} · full bar {share(rungs.largest)}")

    @property
    def _height(self) -> int:
        return self.scrollable_content_region.height

    @property
    def _page(self) -> int:
        """Rows in sight before any scrolling, when no row is pinned."""
        return max(1, self._height - head_height(self._height) - footer_height(self._height))

    def _look(self, view: View, width: int) -> LadderRows | None:
        """The lines for this view; the ladder over all logits is run once, not at every paint."""
        step, dense = view.step, view.dense
        source = (step, dense, view.log.vocabulary if dense is not None else None)
        if source == self._source and self._lines is not None:
            rungs: Rungs | None = self._lines.rungs
        else:
            rungs = rungs_of(view)
        if rungs is None or step is None:
            self._source = None
            return None
        if self._source is None or self._source[0] is not step:
            drawn = rungs.row_of(rungs.draw.token_id)
            self.selected = drawn if drawn is not None and drawn < self._page else 0
            self.scroll_to(y=0, animate=False)
        self._source = source
        made = plan(width, rungs.stages, rungs.total, self._first_stage)
        self._first_stage = made.before
        return LadderRows(rungs, made, tail(rungs, loading=self._asked == step.node))

    # --- moving -------------------------------------------------------------------------------

    def token_id_of(self, row: int) -> int | None:
        """The token of a row; None for the line after the last one."""
        rungs = self._lines.rungs if self._lines is not None else ()
        return rungs[row].token_id if 0 <= row < len(rungs) else None

    def action_choose(self) -> None:
        if self.token_id_of(self.selected) is not None:
            super().action_choose()

    def action_stages(self, by: int) -> None:
        """Show the stages that did not fit."""
        self._first_stage = max(0, self._first_stage + by)
        self.rebuild()

    def select(self, row: int) -> None:
        super().select(row)
        if self._lines is not None and self.selected >= len(self._lines) - 1:
            self._need_rest()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if old_value < new_value and new_value >= self.max_scroll_y:
            self._need_rest()

    def _need_rest(self) -> None:
        step = self.view.step
        rungs = self._lines.rungs if self._lines is not None else None
        if step is None or not isinstance(rungs, Recorded) or rungs.note:
            return
        if self._asked != step.node and (rungs.total is None or rungs.total > len(rungs)):
            self._asked = step.node
            self.post_message(NeedDense(step.node))
            self.rebuild()
