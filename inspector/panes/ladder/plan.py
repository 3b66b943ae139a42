"""Columns of the ladder at a width, and how wide each is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.records.step import StageTrace
from inspector.draw.bars import FIGURE
from inspector.draw.cells import left, right

LOGPROB = 7
FINAL = 2 + FIGURE
CHANGE = 2
"""Cells of the sign that says how a what-if differs from the record, and a space."""
_BAR, _LONGEST_BAR = 3, 24
LIVE = FIGURE + _BAR
"""Cells of a column with a figure and the shortest bar; a longer one has a space before it."""
_TEXT, _ROOMY_TEXT = 10, 14


@dataclass(frozen=True, slots=True)
class StageColumn:
    """One stage's column: its place in the chain and its width."""

    index: int
    cells: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Widths in cells, 0 for what is left out; each column is followed by a space."""

    rank: int
    id: int
    logprob: int
    model: int
    stages: tuple[StageColumn, ...]
    before: int
    """Stages that lie to the left of those shown, and to the right."""
    after: int
    text: int
    was: int = 0
    """In a what-if, the cells of what the record has beside the last column."""

    @property
    def prefix(self) -> int:
        """Cells before the model's column."""
        return 1 + sum(cells + 1 for cells in (self.rank, self.id, self.logprob) if cells)

    @property
    def width(self) -> int:
        model = self.model + 1 if self.model else 0
        stages = sum(one.cells + 1 for one in self.stages)
        return self.prefix + model + stages + FINAL + 1 + self.was + self.text

    def titles(self, rank: str, token_id: str, logprob: str) -> str:
        """Three words over the first three columns."""
        columns = ((rank, self.rank), (token_id, self.id), (logprob, self.logprob))
        return " ".join(right(word, cells) for word, cells in columns if cells)

    def line(
        self,
        prefix: str,
        model: str,
        stages: Sequence[str],
        final: tuple[str, str] = ("", ""),
        text: str = "",
    ) -> str:
        """A line of words over all columns; ``final`` has one more for what was."""
        parts = [f" {left(prefix, self.prefix - 1)}" if self.prefix > 1 else " "]
        if self.model:
            parts.append(left(model, self.model) + " ")
        parts += [
            left(word, column.cells) + " " for word, column in zip(stages, self.stages, strict=True)
        ]
        parts.append(left(final[0], FINAL) + " ")
        if self.was:
            parts.append(left(" " * CHANGE + final[1], self.was - 1) + " ")
        return "".join((*parts, left(text, self.text)))


def plan(
    width: int,
    stages: Sequence[StageTrace],
    total: int | None,
    first: int = 0,
    *,
    tried: bool = False,
    numbered: bool = False,
) -> Plan:
    """The columns at ``width``, the stages from ``first`` on, as many as there is room for.

    ``tried``: with a column for what the record has. ``numbered``: rank, id and log-probability
    come before stages, where those that do not fit are shown elsewhere.
    """
    digits = max(4, len(str(max(1, (total or 0) - 1))))
    was = CHANGE + FINAL + 1 if tried else 0
    room = width - 1 - _TEXT - (FINAL + 1) - was
    model = LIVE if room >= 2 * (LIVE + 1) else 0
    room -= 2 * (LIVE + 1) if model else 0  # for the model and one stage
    needs = [_needs(stage) for stage in stages] if model else []
    numbers = [("id", digits), ("logprob", LOGPROB), ("rank", digits)]
    kept = {"id": 0, "logprob": 0, "rank": 0}
    # What every stage does is worth more than these, which the selected row has below too.
    reserved = 0 if numbered or not needs else sum(cells + 1 for cells in needs) - (LIVE + 1)
    for name, cells in reversed(numbers) if tried else numbers:
        if cells + 1 <= room - reserved:
            kept[name] = cells
            room -= cells + 1
    room += LIVE + 1 if model else 0
    first = max(0, min(first, _last_start(needs, room)))
    shown = _fitting(needs[first:], room)
    columns = tuple(StageColumn(first + at, needs[first + at]) for at in range(shown))
    spare = room - sum(column.cells + 1 for column in columns)
    last = next((one for one in reversed(columns) if not stages[one.index].off), None)
    text = _TEXT + (min(spare, _ROOMY_TEXT - _TEXT) if model else spare)
    spare -= text - _TEXT
    # The model's bars and the last stage's, which are of one length, so that they compare.
    growing = bool(model) + (last is not None)
    grown = min(spare // growing, _LONGEST_BAR + 1 - _BAR) if growing else 0
    spare -= grown * growing
    return Plan(
        kept["rank"],
        kept["id"],
        kept["logprob"],
        model + grown if model else 0,
        stages=tuple(
            replace(column, cells=column.cells + grown) if column is last else column
            for column in columns
        ),
        before=first,
        after=len(stages) - first - shown,
        text=text + spare,
        was=was,
    )


def _needs(stage: StageTrace) -> int:
    # A stage that is off says so once, in its head.
    return min(LIVE, max(3, len(stage.name))) if stage.off else LIVE


def _fitting(needs: Sequence[int], room: int) -> int:
    count = 0
    for cells in needs:
        room -= cells + 1
        if room < 0:
            break
        count += 1
    return count


def _last_start(needs: Sequence[int], room: int) -> int:
    """The stage to begin with so that the last one is in sight and no room is wasted."""
    return len(needs) - _fitting(needs[::-1], room)
