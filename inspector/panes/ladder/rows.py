"""The ladder's rows: one candidate each, its fate at every stage, and in a what-if what it was."""

from __future__ import annotations

from dataclasses import dataclass

from textual.content import Content

from engine.records.step import CUT_BY_MODEL, SURVIVES
from inspector.draw.bars import FIGURE, about, share
from inspector.draw.block_chars import bar
from inspector.draw.cells import left, right, token_parts
from inspector.draw.numbers import NOTHING
from inspector.panes.ladder.draw_line import signed
from inspector.panes.ladder.head import short_name
from inspector.panes.ladder.plan import CHANGE, FINAL, LIVE, Plan, StageColumn
from inspector.state.candidates import CandidateRow, CandidateRows

CUT, DRAWN, WOULD = "✂", "●", "○"
KEPT, LOST, MORE, LESS = "+", "−", "▲", "▼"
"""Signs of a what-if beside the record: now kept, now cut, more likely, less likely."""

_CUT = "$cut $cut-style"
_DRAWN = "$bar-drawn $bar-drawn-style"
_WOULD = "$estimated bold"
_MUTED = "$text-muted"

Parts = list[tuple[str, str]]


@dataclass(frozen=True, eq=False)
class LadderRows:
    """One line a candidate, made when it is asked for, and a last line about the rest.

    ``was`` is the record, where ``candidates`` are what another chain makes of it.
    """

    candidates: CandidateRows
    plan: Plan
    tail: str
    was: CandidateRows | None = None

    def __len__(self) -> int:
        return len(self.candidates) + 1

    def __getitem__(self, row: int) -> Content:
        if row == len(self.candidates):
            return Content.styled(f" {self.tail}", _MUTED)
        return self.line(self.candidates[row])

    def line(self, candidate: CandidateRow) -> Content:
        made, drawn = self.plan, candidate.token_id == self.candidates.draw.token_id
        numbers = (
            (f"{candidate.rank}", made.rank),
            (f"{candidate.token_id}", made.id),
            (signed(candidate.raw_logprob, 2), made.logprob),
        )
        words = "".join(f"{right(text, cells)} " for text, cells in numbers if cells)
        parts: Parts = [(f" {words}", _MUTED)]
        if made.model:
            parts += self._model(candidate, drawn)
        for column in made.stages:
            parts += self._stage(candidate, column, drawn)
        parts.append(self._final(candidate, drawn))
        if self.was is not None:
            parts += self._was(candidate, self.was)
        style = "" if candidate.cut_by == SURVIVES else _CUT
        line = Content.assemble(
            *parts, *token_parts(candidate.token, self._mine if drawn else style)
        )
        return line.stylize_before("bold") if drawn else line

    @property
    def _mine(self) -> str:
        return _DRAWN if self.was is None else _WOULD

    def _model(self, candidate: CandidateRow, drawn: bool) -> Parts:
        if candidate.cut_by == CUT_BY_MODEL:
            return [(left(f"{CUT} model", self.plan.model) + " ", _CUT)]
        return self._bar(candidate, 0, self.plan.model, drawn)

    def _stage(self, candidate: CandidateRow, column: StageColumn, drawn: bool) -> Parts:
        stage = self.candidates.stages[column.index]
        if candidate.cut_by == column.index:
            name = short_name(stage.name, column.cells - 2)
            return [(left(f"{CUT} {name}", column.cells) + " ", _CUT)]
        if candidate.cut_by != SURVIVES and candidate.cut_by < column.index:
            return [(" " * (column.cells + 1), "")]
        if stage.off:
            return [(left("·", column.cells) + " ", _MUTED)]
        return self._bar(candidate, column.index + 1, column.cells, drawn)

    def _bar(self, candidate: CandidateRow, level: int, cells: int, drawn: bool) -> Parts:
        """Figure and bar; a bar that would be less than half an eighth of a cell is left out."""
        largest, gap = self.candidates.largest, " " * (cells > LIVE)
        probability, length = candidate.probs[level], cells - FIGURE - len(gap)
        figure = about(probability)
        share_of = 0.0 if figure == NOTHING or largest <= 0 else probability / largest
        drawing = gap + bar(share_of if share_of * length * 8 >= 0.5 else 0.0, length)
        mine = "$bar-drawn" if self.was is None else "$estimated"
        return [
            (figure.rjust(FIGURE), mine if drawn else ""),
            (f"{drawing} ", mine if drawn else "$bar"),
        ]

    def _final(self, candidate: CandidateRow, drawn: bool) -> tuple[str, str]:
        figure = about(candidate.probs[-1]).rjust(FIGURE)
        if drawn:
            return f"{DRAWN if self.was is None else WOULD} {figure} ", self._mine
        if candidate.cut_by == SURVIVES:
            return f"  {figure} ", ""
        shown = [column.index for column in self.plan.stages]
        if candidate.cut_by in shown or (candidate.cut_by == CUT_BY_MODEL and self.plan.model):
            return " " * (FINAL + 1), ""
        return _cut_in(self.candidates, candidate) + " ", _CUT

    def _was(self, candidate: CandidateRow, was: CandidateRows) -> Parts:
        """Difference of the candidate from the record, and the record's own figure."""
        old = _the_same(was, candidate)
        if old is None:
            return [(" " * self.plan.was, "")]
        sign, style = _change(candidate, old)
        parts: Parts = [(sign.ljust(CHANGE), style)]
        figure = about(old.probs[-1]).rjust(FIGURE)
        if candidate.token_id == was.draw.token_id:
            return [*parts, (f"{DRAWN} {figure} ", _DRAWN)]
        if old.cut_by == SURVIVES:
            return [*parts, (f"  {figure} ", _MUTED)]
        return [*parts, (_cut_in(was, old) + " ", _CUT)]


def _the_same(candidates: CandidateRows, candidate: CandidateRow) -> CandidateRow | None:
    """The candidate in other candidates; mostly it stands in the same row."""
    at = int(candidate.rank) - 1
    row: int | None = at
    if not (0 <= at < len(candidates) and candidates[at].token_id == candidate.token_id):
        row = candidates.row_of(candidate.token_id)
    return None if row is None else candidates[row]


def _change(now: CandidateRow, then: CandidateRow) -> tuple[str, str]:
    """The sign of what changed, and its style."""
    lives, lived = now.cut_by == SURVIVES, then.cut_by == SURVIVES
    if lives != lived:
        return (KEPT, "$accept bold") if lives else (LOST, "$reject bold")
    new, old = now.probs[-1], then.probs[-1]
    if not lives or share(new) == share(old):
        return " ", ""
    return (MORE, "$estimated") if new > old else (LESS, "$estimated")


def _cut_in(candidates: CandidateRows, candidate: CandidateRow) -> str:
    """The stage that cut a candidate, in the last column's cells."""
    name = "model" if candidate.cut_by == CUT_BY_MODEL else candidates.stages[candidate.cut_by].name
    return left(f"{CUT} {short_name(name, FINAL - 2)}", FINAL)


def tail(candidates: CandidateRows, loading: bool) -> str:
    """The line after the last row: what is not shown, or that all is."""
    if candidates.total is not None and candidates.total <= len(candidates):
        return candidates.note or f"all {len(candidates):,} ids"
    more = "" if candidates.total is None else f"{candidates.total - len(candidates):,} "
    # A sum of all probabilities misses 1 by rounding alone.
    raw, final = (share(1.0 - held if held < 1.0 - 1e-12 else 0.0) for held in candidates.shown)
    state = candidates.note or ("loading the rest…" if loading else "↓ loads them")
    return f"{more}more tokens: {raw} raw mass, {final} final mass · {state}"
