"""The ladder's rows: one candidate each, its fate at every stage, and in a what-if what it was."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from textual.content import Content

from engine.records.step import CUT_BY_MODEL, SURVIVES
from inspector.draw.bars import FIGURE, about, share
from inspector.draw.block_chars import bar
from inspector.draw.cells import left, right, token_parts
from inspector.draw.numbers import NOTHING
from inspector.panes.ladder.draw_line import signed
from inspector.panes.ladder.head import short_name
from inspector.panes.ladder.plan import CHANGE, FINAL, Plan, StageColumn
from inspector.state.candidates import Rung, Rungs

CUT, DRAWN, WOULD = "✂", "●", "○"
KEPT, LOST, MORE, LESS = "+", "−", "▲", "▼"
"""How a what-if differs from the record: now kept, now cut, more likely, less likely."""

_CUT = "$cut $cut-style"
_DRAWN = "$bar-drawn $bar-drawn-style"
_WOULD = "$estimated bold"
_MUTED = "$text-muted"

Parts = list[tuple[str, str]]


@dataclass(frozen=True, eq=False)
class LadderRows:
    """One line a candidate, made when it is asked for, and a last line about the rest.

    ``was`` is the record, where ``rungs`` are what another chain makes of it.
    """

    rungs: Rungs
    plan: Plan
    tail: str
    was: Rungs | None = None

    def __len__(self) -> int:
        return len(self.rungs) + 1

    def __getitem__(self, row: int) -> Content:
        if row == len(self.rungs):
            return Content.styled(f" {self.tail}", _MUTED)
        made = self._made.get(row)
        if made is None:
            made = self._made[row] = self.line(self.rungs[row])
        return made

    @cached_property
    def _made(self) -> dict[int, Content]:
        """The lines that were asked for: a repaint compares each with the one before it."""
        return {}

    def line(self, rung: Rung) -> Content:
        """The row of one candidate."""
        made, drawn = self.plan, rung.token_id == self.rungs.draw.token_id
        numbers = (
            (f"{rung.rank}", made.rank),
            (f"{rung.token_id}", made.id),
            (signed(rung.raw_logprob, 2), made.logprob),
        )
        words = "".join(f"{right(text, cells)} " for text, cells in numbers if cells)
        parts: Parts = [(f" {words}", _MUTED)]
        if made.model:
            parts += self._model(rung, drawn)
        for column in made.stages:
            parts += self._stage(rung, column, drawn)
        parts.append(self._final(rung, drawn))
        if self.was is not None:
            parts += self._was(rung, self.was)
        style = "" if rung.cut_by == SURVIVES else _CUT
        line = Content.assemble(*parts, *token_parts(rung.token, self._mine if drawn else style))
        return line.stylize_before("bold") if drawn else line

    @property
    def _mine(self) -> str:
        """The style of the row that was drawn, or would be."""
        return _DRAWN if self.was is None else _WOULD

    def _model(self, rung: Rung, drawn: bool) -> Parts:
        if rung.cut_by == CUT_BY_MODEL:
            return [(left(f"{CUT} model", self.plan.model) + " ", _CUT)]
        return self._bar(rung, 0, self.plan.model, drawn)

    def _stage(self, rung: Rung, column: StageColumn, drawn: bool) -> Parts:
        stage = self.rungs.stages[column.index]
        if rung.cut_by == column.index:
            name = short_name(stage.name, column.cells - 2)
            return [(left(f"{CUT} {name}", column.cells) + " ", _CUT)]
        if rung.cut_by != SURVIVES and rung.cut_by < column.index:
            return [(" " * (column.cells + 1), "")]
        if stage.off:
            return [(left("·", column.cells) + " ", _MUTED)]
        return self._bar(rung, column.index + 1, column.cells, drawn)

    def _bar(self, rung: Rung, level: int, cells: int, drawn: bool) -> Parts:
        """Figure and bar. Every column's bars have the same length, so that they compare."""
        largest, length = self.rungs.largest, self.plan.bar
        probability = rung.probs[level]
        slack = rung.slack[level] if rung.slack else 0.0
        figure = about(probability, slack)
        known = 0.0 if figure == NOTHING else probability
        drawing = bar(known / largest if largest > 0 else 0.0, length).ljust(cells - FIGURE)
        if self.plan.gap:
            drawing = f" {drawing[:-1]}"
        mine = "$bar-drawn" if self.was is None else "$estimated"
        return [
            (figure.rjust(FIGURE), mine if drawn else ""),
            (f"{drawing} ", mine if drawn else "$bar"),
        ]

    def _final(self, rung: Rung, drawn: bool) -> tuple[str, str]:
        figure = share(rung.probs[-1]).rjust(FIGURE)
        if drawn:
            return f"{DRAWN if self.was is None else WOULD} {figure} ", self._mine
        if rung.cut_by == SURVIVES:
            return f"  {figure} ", ""
        shown = [column.index for column in self.plan.stages]
        if rung.cut_by in shown or (rung.cut_by == CUT_BY_MODEL and self.plan.model):
            return " " * (FINAL + 1), ""
        return _cut_in(self.rungs, rung) + " ", _CUT

    def _was(self, rung: Rung, was: Rungs) -> Parts:
        """How the candidate differs from the record, and what the record has."""
        old = _the_same(was, rung)
        if old is None:
            return [(" " * self.plan.was, "")]
        sign, style = _change(rung, old)
        parts: Parts = [(sign.ljust(CHANGE), style)]
        figure = share(old.probs[-1]).rjust(FIGURE)
        if rung.token_id == was.draw.token_id:
            return [*parts, (f"{DRAWN} {figure} ", _DRAWN)]
        if old.cut_by == SURVIVES:
            return [*parts, (f"  {figure} ", _MUTED)]
        return [*parts, (_cut_in(was, old) + " ", _CUT)]


def _the_same(rungs: Rungs, rung: Rung) -> Rung | None:
    """The candidate in other rungs; mostly it stands in the same row."""
    row: int | None = rung.rank - 1
    if not (0 <= rung.rank - 1 < len(rungs) and rungs[rung.rank - 1].token_id == rung.token_id):
        row = rungs.row_of(rung.token_id)
    return None if row is None else rungs[row]


def _change(now: Rung, then: Rung) -> tuple[str, str]:
    """The sign of what changed, and its style."""
    lives, lived = now.cut_by == SURVIVES, then.cut_by == SURVIVES
    if lives != lived:
        return (KEPT, "$accept bold") if lives else (LOST, "$reject bold")
    new, old = now.probs[-1], then.probs[-1]
    if not lives or share(new) == share(old):
        return " ", ""
    return (MORE, "$estimated") if new > old else (LESS, "$estimated")


def _cut_in(rungs: Rungs, rung: Rung) -> str:
    """The stage that cut a candidate, in the last column's cells."""
    name = "model" if rung.cut_by == CUT_BY_MODEL else rungs.stages[rung.cut_by].name
    return left(f"{CUT} {short_name(name, FINAL - 2)}", FINAL)


def tail(rungs: Rungs, loading: bool) -> str:
    """The line after the last row: what is not shown, or that all is."""
    if rungs.total is not None and rungs.total <= len(rungs):
        return rungs.note or f"all {len(rungs):,} ids"
    more = "" if rungs.total is None else f"{rungs.total - len(rungs):,} "
    # A sum of all probabilities misses 1 by rounding alone.
    raw, final = (share(1.0 - held if held < 1.0 - 1e-12 else 0.0) for held in rungs.shown)
    state = rungs.note or ("loading the rest…" if loading else "↓ loads them")
    return f"{more}more tokens: {raw} raw mass, {final} final mass · {state}"
