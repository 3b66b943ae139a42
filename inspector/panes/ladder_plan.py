"""Which columns the ladder has at a width, how wide each is, and its head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from textual.content import Content

from engine.records import StageTrace
from engine.text import visible
from inspector.panes.bars import FIGURE, share
from inspector.panes.cells import clip, left, right
from inspector.panes.rungs import Rungs

LOGPROB = 7
FINAL = 2 + FIGURE
_BAR, _LONGEST_BAR = 3, 20
_LIVE = FIGURE + _BAR
_TEXT, _ROOMY_TEXT = 10, 20

FULL, SHORT = 18, 9
"""Pane heights from which the head has five and three lines; below, it has one."""


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
    bar: int
    """Cells of every bar, the same in all columns: only so do they compare."""
    gap: bool
    """Whether there is a space between a figure and its bar."""
    stages: tuple[StageColumn, ...]
    before: int
    """Stages that lie to the left of those shown, and to the right."""
    after: int
    text: int

    @property
    def prefix(self) -> int:
        """Cells before the model's column."""
        return 1 + sum(cells + 1 for cells in (self.rank, self.id, self.logprob) if cells)

    @property
    def width(self) -> int:
        """Cells of the whole line."""
        model = self.model + 1 if self.model else 0
        return (
            self.prefix + model + sum(one.cells + 1 for one in self.stages) + FINAL + 1 + self.text
        )

    def titles(self, rank: str, token_id: str, logprob: str) -> str:
        """Three words over the first three columns."""
        columns = ((rank, self.rank), (token_id, self.id), (logprob, self.logprob))
        return " ".join(right(word, cells) for word, cells in columns if cells)

    def line(
        self, prefix: str, model: str, stages: Sequence[str], final: str, text: str = ""
    ) -> str:
        """A line of words over all columns."""
        parts = [f" {left(prefix, self.prefix - 1)}" if self.prefix > 1 else " "]
        if self.model:
            parts.append(left(model, self.model) + " ")
        parts += [
            left(word, column.cells) + " " for word, column in zip(stages, self.stages, strict=True)
        ]
        return "".join((*parts, left(final, FINAL), " ", left(text, self.text)))


def plan(width: int, stages: Sequence[StageTrace], total: int | None, first: int = 0) -> Plan:
    """The columns at ``width``, the stages from ``first`` on, as many as there is room for."""
    digits = max(4, len(str(max(1, (total or 0) - 1))))
    room = width - 1 - _TEXT - (FINAL + 1)
    model = _LIVE if room >= 2 * (_LIVE + 1) else 0
    room -= 2 * (_LIVE + 1) if model else 0  # for the model and one stage
    kept = {"id": 0, "logprob": 0, "rank": 0}
    for name, cells in (("id", digits), ("logprob", LOGPROB), ("rank", digits)):
        if cells + 1 <= room:
            kept[name] = cells
            room -= cells + 1
    room += _LIVE + 1 if model else 0
    needs = [_needs(stage) for stage in stages] if model else []
    first = max(0, min(first, _last_start(needs, room)))
    shown = _fitting(needs[first:], room)
    columns = tuple(StageColumn(first + at, needs[first + at]) for at in range(shown))
    spare = room - sum(column.cells + 1 for column in columns)
    live = [column for column in columns if not stages[column.index].off]
    text = _TEXT + (min(spare, _ROOMY_TEXT - _TEXT) if model else spare)
    spare -= text - _TEXT
    grown = min(spare // (len(live) + 1), _LONGEST_BAR + 1 - _BAR)
    spare -= grown * (len(live) + 1)
    return Plan(
        kept["rank"],
        kept["id"],
        kept["logprob"],
        model + grown if model else 0,
        bar=_BAR + max(0, grown - 1),
        gap=grown > 0,
        stages=tuple(
            replace(column, cells=column.cells + grown) if column in live else column
            for column in columns
        ),
        before=first,
        after=len(stages) - first - shown,
        text=text + spare,
    )


def _needs(stage: StageTrace) -> int:
    # A stage that is off says so once, in its head.
    return min(_LIVE, max(3, len(stage.name))) if stage.off else _LIVE


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


# --- the head -------------------------------------------------------------------------------


def short_name(name: str, cells: int) -> str:
    """A stage's name in at most ``cells`` cells: whole, or its words' beginnings, ``rep_pen``."""
    if len(name) <= cells:
        return name
    words = name.split("_")
    for letters in (4, 3, 2, 1):
        short = "_".join(word[:letters] for word in words)
        if len(short) <= cells:
            return short
    return clip(name, cells)


def value_of(stage: StageTrace, cells: int) -> str:
    """What a stage is set to, without the names where they do not fit: ``0.95``."""
    if stage.off:
        return "off"
    text = visible(stage.label)
    if text.count("=") > 1 and len(text) <= cells:
        return text
    words = [text] if '"' in text else text.split()
    return " ".join(word.partition("=")[2] or word for word in words)


def head_height(height: int) -> int:
    """Lines above the rows in a pane of this height."""
    return 5 if height >= FULL else 3 if height >= SHORT else 1


def head(rungs: Rungs, made: Plan, height: int) -> list[Content]:
    """The lines above the rows in a pane of this height: five, three or one."""
    shown = [rungs.stages[column.index] for column in made.stages]
    names = [
        short_name(one.name, column.cells) for one, column in zip(shown, made.stages, strict=True)
    ]
    titles = made.titles("rank", "id", "raw")
    if height < SHORT:
        hidden = " ".join(["text", *_hidden(made, "")])
        lines = [made.line(titles, "model", names, "drawn", hidden)]
    else:
        values = [
            value_of(one, column.cells) for one, column in zip(shown, made.stages, strict=True)
        ]
        beside = [*_hidden(made, " stages"), *[""] * 4]
        lines = [
            made.line(titles, "model", names, "drawn", "text"),
            made.line(made.titles("", "", "logprob"), "raw p", values, "final p", beside[0]),
        ]
        for at, (label, model, stages) in enumerate(_figures(rungs, shown, made, height), start=1):
            lines.append(made.line(right(label, made.prefix - 2), model, stages, "", beside[at]))
    *above, last = [Content.styled(clip(line, made.width), "$title") for line in lines]
    return [*above, last.stylize("underline")]


def _hidden(made: Plan, what: str) -> list[str]:
    """Which stages are out of sight; ``[`` and ``]`` bring them in."""
    return [
        *([f"+{made.after}{what}▸"] if made.after else []),
        *([f"◂+{made.before}{what}"] if made.before else []),
    ]


def _figures(
    rungs: Rungs, shown: Sequence[StageTrace], made: Plan, height: int
) -> list[tuple[str, str, list[str]]]:
    """(label, the model's figure, each stage's figure), a line each."""
    total = "" if rungs.total is None else f"{rungs.total:,}"
    if height < FULL:
        both = [
            _left_and_cut(one, column.cells) for one, column in zip(shown, made.stages, strict=True)
        ]
        return [("tokens left −mass", total, both)]
    figures = [
        ("tokens left", total, [f"{one.survivors:,}" for one in shown]),
        ("mass removed", "", [_removed(one.mass_removed) for one in shown]),
        ("entropy, nats", f"{rungs.entropy:.2f}", [f"{one.entropy:.2f}" for one in shown]),
    ]
    return [
        (label, model, ["·" if one.off else text for one, text in zip(shown, line, strict=True)])
        for label, model, line in figures
    ]


def _removed(mass: float) -> str:
    return f"−{share(mass)}" if mass else "0"


def _left_and_cut(stage: StageTrace, cells: int) -> str:
    """``40 −3.10%``, shortened until it fits."""
    if stage.off:
        return "·"
    count, mass = stage.survivors, stage.mass_removed
    if not mass:
        return f"{count:,}" if len(f"{count:,}") <= cells else compact(count)
    rough = f"{mass * 100:.1f}%" if mass >= 0.0005 else "<.1%"
    rougher = f"{mass * 100:.0f}%" if mass >= 0.005 else "<1%"
    variants = (
        f"{count:,} −{share(mass)}",
        f"{compact(count)} −{share(mass)}",
        f"{compact(count)} −{rough}",
        f"{compact(count)} −{rougher}",
    )
    return next((text for text in variants if len(text) <= cells), variants[-1])


def compact(number: int) -> str:
    """A count in at most four characters: ``999``, ``49k``, ``1.2M``."""
    if number < 1000:
        return f"{number}"
    if number < 999_500:
        return f"{number / 1000:.1f}k" if number < 9950 else f"{number / 1000:.0f}k"
    return f"{number / 1e6:.1f}M"
