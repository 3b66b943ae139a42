"""The batch pane: a row a pass, and below what passes of one to eight rows cost here."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from textual.content import Content
from textual.geometry import Size

from engine.records.columns import ColumnsSet, Part, PassColumn, PassRecord
from engine.records.step import StepRecord
from engine.text import visible
from inspector.draw.block_chars import bar
from inspector.draw.numbers import (
    NOTHING,
    cut,
    derived,
    measured,
    ms,
    muted,
    padded,
    plural,
    three,
)
from inspector.draw.numbers import size as nbytes
from inspector.panes.batch.figures import RowsCost, costs
from inspector.panes.kv.figures import kv_mark
from inspector.state.view import RunLog, View
from inspector.widgets.line_view import Pane
from inspector.widgets.picture import Picture

LETTERS = "ABCDEFGH"
NO_PASS = (
    "no pass over several columns yet: V compares branches, or what the dials try, in columns "
    "that step together; llm-inspect compare begins with them"
)
_SIGNS = {
    Part.ROW: "",
    Part.TWIN: "=",
    Part.KNOWN: "·",
    Part.ALONE: "○",
    Part.FAILED: "✗",
}
_LEGEND = "= shares another's row   · nothing was read   ○ passes of its own   ✗ failed"
_TALL = 14
_NUMBER, _ROWS, _MS, _EACH, _BYTES = 5, 5, 10, 12, 17


@dataclass(frozen=True)
class BatchUI:
    """State of the pane."""

    selected: int = 0
    before: StepRecord | None = None
    """The step that was shown last."""


@dataclass(frozen=True, eq=False)
class PassRows:
    """A line for each pass, made when it comes into sight."""

    passes: Sequence[PassRecord]
    columns: ColumnsSet
    width: int

    def __len__(self) -> int:
        return len(self.passes)

    def __getitem__(self, index: int) -> Content:
        return _pass_line(index, self.passes[index], self.columns, self.width)


def draw(view: View, size: Size, ui: BatchUI = BatchUI()) -> Picture:
    """The pane."""
    width, height = size.width, size.height
    passes = view.log.passes
    if not passes:
        return Picture(muted(NO_PASS).wrap(max(8, width)))
    step = view.step
    place = place_of(passes, step.node) if step is not None else None
    selected = place if place is not None and step is not ui.before else ui.selected
    footer = _below(view, min(selected, len(passes) - 1), width) if height >= _TALL else []
    head = (
        f" {'pass':>{_NUMBER - 1}}{'rows':>{_ROWS}}{'time •':>{_MS}}{'a token ƒ':>{_EACH}}"
        f"{'weights/token ƒ':>{_BYTES}}    columns"
    )
    return Picture(
        PassRows(passes, view.log.columns, width),
        [Content.styled(head[:width], "$title underline")],
        [cut(one, width) for one in footer],
        subtitle=plural(len(passes), "pass", "passes"),
        select=place if step is not ui.before else None,
        follow=place,
    )


def place_of(passes: Sequence[PassRecord], node: int) -> int | None:
    """The index of the pass that a node came of; None where it came of none."""
    at = bisect_left(passes, node, key=lambda one: max(one.nodes, default=0))
    found = at < len(passes) and node in passes[at].nodes
    return at if found else None


def _pass_line(index: int, one: PassRecord, columns: ColumnsSet, width: int) -> Content:
    tokens = one.tokens_per_pass
    each = one.forward_ms / (tokens * one.passes) if tokens and one.forward_ms else None
    weights = one.weight_bytes / tokens if tokens and one.weight_bytes else None
    rows = str(one.rows) if one.passes <= 1 else f"{one.rows}/{one.passes}"
    figures = (
        f" {index + 1:>{_NUMBER - 1},}{rows:>{_ROWS}}"
        f"{ms(one.forward_ms) if one.forward_ms else NOTHING:>{_MS}}"
        f"{ms(each):>{_EACH}}{nbytes(weights):>{_BYTES}}  "
    )
    mark = "w " if one.warmup else "  "
    return cut(Content.assemble(figures, (mark, "$title"), *_who(one.columns, columns)), width)


def _who(parts: Sequence[PassColumn], columns: ColumnsSet) -> list[tuple[str, str]]:
    """The columns of a pass by their letters, each with its part in it."""
    names = _letters(columns)
    shown = []
    for one in parts:
        style = "$error" if one.part is Part.FAILED else "bold" if one.part is Part.ROW else "$cut"
        shown.append((f"{_SIGNS[one.part]}{names.get(one.column, str(one.column))} ", style))
    return shown


@lru_cache(maxsize=4)
def _letters(columns: ColumnsSet) -> dict[int, str]:
    """Column -> its letter; of more than there are letters, their numbers."""
    pairs = zip(columns.columns, LETTERS, strict=False)
    return {state.column: letter for state, letter in pairs}


# --- below ------------------------------------------------------------------------------------


def _below(view: View, selected: int, width: int) -> list[Content]:
    """The selected pass, and the cost by rows."""
    one = view.log.passes[selected]
    lines = [Content(""), _detail(view, one, width)]
    failed = [f"{part.error}" for part in one.columns if part.error]
    lines += [Content.styled(f" ✗ {visible(text)}", "$error") for text in failed[:2]]
    if one.shared_kv_bytes:
        read = measured(nbytes(one.shared_kv_bytes))
        lines.append(Content.assemble(" ", read, muted(" of K and V read once for all rows")))
    if one.note:
        lines.append(muted(f" {visible(one.note)}"))
    lines += _cost_lines(_costs(view.log, len(view.log.passes), view.cursor), width)
    lines.append(muted(f" {_LEGEND}"))
    return lines


def _detail(view: View, one: PassRecord, width: int) -> Content:
    tokens = one.tokens_per_pass
    parts = [
        Content.assemble(" tokens a pass ", derived(three(tokens) if tokens else NOTHING)),
        Content.assemble("in all ", measured(ms(one.total_ms))),
        Content.assemble("K and V ", kv_mark(view.facts)(nbytes(one.kv_bytes))),
        Content.assemble(
            f"weights {visible(one.dtype)} ", measured(nbytes(one.weight_bytes or None))
        ),
    ]
    if one.copied_blocks or one.evicted_blocks:
        parts.append(Content(f"{one.copied_blocks:,} copied, {one.evicted_blocks:,} evicted"))
    return cut(Content("  ").join(parts), width)


@lru_cache(maxsize=2)
def _costs(log: RunLog, count: int, cursor: int) -> list[RowsCost]:
    """Remembered until there are more passes, or the cursor moves."""
    return costs(log.passes[:count], View(log, cursor).branch)


def _cost_lines(found: list[RowsCost], width: int) -> list[Content]:
    lines = [Content.styled(" a pass by its rows, the median", "bold")]
    if not found:
        return [*lines, muted(" no pass was timed that was not the first of its shape")]
    longest = max(one.ms for one in found)
    one_row = next((one for one in found if one.rows == 1), None)
    return [*lines, *(_cost_line(one, one_row, longest, width) for one in found)]


def _cost_line(one: RowsCost, one_row: RowsCost | None, longest: float, width: int) -> Content:
    room = max(6, min(24, width - 62))
    drawn = padded(Content.styled(bar(one.ms / longest, room), "$bar"), room)
    name = f" {plural(one.rows, 'row')}".ljust(8)
    times = ""
    if one_row is not None and one_row is not one and one_row.ms > 0.0:
        times = f"  {one.ms / one_row.ms:.2f}x one row"
    plain = "  plain steps" if one.plain else ""
    return Content.assemble(
        name,
        drawn,
        " ",
        padded(measured(ms(one.ms)), 10),
        padded(Content.assemble(derived(ms(one.each_ms)), " a token"), 19),
        (f"×{one.count:,}{times}{plain}", "$title"),
    )


class BatchPane(Pane):
    """The passes that columns share."""

    NAME = "Batch"
    SELECTABLE = True
    HELP = """
One forward pass can extend several branches at once: their **rows** share the reading of the
weights, which is most of what a decode step does, so that a pass over four rows costs little more
than one over one. That is why servers batch. A row here is a pass: who was in it, its time, and
the bytes of weights read for each token. K and V of what all rows begin with are read once too,
where the model's pass can; else each row reads its own.

Below, the measured time of a pass by its rows, the first of each shape left out. **=** had the same
text as another column, and one row served both; **·** had its distribution already; **○** ran
passes of its own.
"""

    _before: StepRecord | None = None

    def picture(self, view: View, size: Size) -> Picture:
        found = draw(view, size, BatchUI(self.selected, self._before))
        self._before = view.step
        return found
