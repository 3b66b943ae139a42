"""The ladder's head: the stages by name, what each is set to, and what it did as a whole."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from engine.records.partial import Interval
from engine.records.step import StageTrace
from engine.text import visible
from inspector.draw.bars import about, share
from inspector.draw.cells import clip, right
from inspector.draw.derived import derived_cell
from inspector.draw.numbers import NOTHING, percent
from inspector.panes.ladder.plan import Plan
from inspector.state.candidates import CandidateRows

FULL, SHORT = 18, 9
"""Pane heights from which the head has five and three lines; below, it has one."""


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
    """A stage's settings, without the names where they do not fit: ``0.95``."""
    if stage.off:
        return "off"
    if stage.name == "temperature" and stage.derived:
        # The dials do not say it: a range around 1 would read as a temperature of its own.
        return derived_cell(stage, cells)
    text = visible(stage.label)
    if text.count("=") > 1 and len(text) <= cells:
        return text
    words = [text] if '"' in text else text.split()
    return " ".join(word.partition("=")[2] or word for word in words)


def head_height(height: int, stages: Sequence[StageTrace]) -> int:
    """Lines above the rows in a pane of this height."""
    if height >= FULL:
        return 6 if any(map(_worked_out, stages)) else 5
    return 3 if height >= SHORT else 1


def tried_value(stage: StageTrace, was: Sequence[StageTrace], cells: int) -> str:
    """A stage's setting and the one before: ``0.8→1.2``, or where that is too long ``→1.2``."""
    now = value_of(stage, cells)
    old = next((one for one in was if one.name == stage.name), None)
    if old is None:
        return f"+{now}"
    before = value_of(old, cells)
    if before == now:
        return now
    change = f"{before}→{now}"
    return change if len(change) <= cells else f"→{now}"


def head(
    candidates: CandidateRows, made: Plan, height: int, was: Sequence[StageTrace] | None = None
) -> list[Content]:
    """The lines above the rows in a pane of this height.

    In a what-if, ``was`` are the stages of the record.
    """
    shown = [candidates.stages[column.index] for column in made.stages]
    names = [
        short_name(one.name, column.cells) for one, column in zip(shown, made.stages, strict=True)
    ]
    titles = made.titles("rank", "id", "raw")
    above, below = ("drawn", ""), ("final p", "")
    if was is not None:
        above, below = ("would", "was"), ("final p", "final p")
    if height < SHORT:
        hidden = " ".join(["text", *_hidden(made, "")])
        lines = [made.line(titles, "model", names, above, hidden)]
    else:
        values = [
            value_of(one, column.cells) if was is None else tried_value(one, was, column.cells)
            for one, column in zip(shown, made.stages, strict=True)
        ]
        beside = [*_hidden(made, " stages"), *[""] * 5]
        lines = [
            made.line(titles, "model", names, above, "text"),
            made.line(made.titles("", "", "logprob"), "raw p", values, below, beside[0]),
        ]
        for at, (label, model, stages) in enumerate(
            _figures(candidates, shown, made, height), start=1
        ):
            room, short = made.prefix - 2, _SHORTER[label]
            words = right(label if len(label) <= room else short, room)
            # Without numbers at the left there is no room for a name there.
            name = beside[at] or (short if len(short) > room else "")
            lines.append(made.line(words, model, stages, text=name))
    *above_rule, last = [Content.styled(clip(line, made.width), "$title") for line in lines]
    return [*above_rule, last.stylize("underline")]


_SHORTER = {
    "tokens left": "left",
    "mass removed": "cut",
    "entropy, nats": "nats",
    "worked out": "used",
    "tokens left −mass": "left",
}


def _hidden(made: Plan, what: str) -> list[str]:
    """Names of the stages out of sight; ``[`` and ``]`` bring them in."""
    return [
        *([f"+{made.after}{what}▸"] if made.after else []),
        *([f"◂+{made.before}{what}"] if made.before else []),
    ]


def _figures(
    candidates: CandidateRows, shown: Sequence[StageTrace], made: Plan, height: int
) -> list[tuple[str, str, list[str]]]:
    """(label, the model's figure, each stage's figure), a line each."""
    total = "" if candidates.total is None else f"{candidates.total:,}"
    if height < FULL:
        both = [
            _left_and_cut(one, column.cells) for one, column in zip(shown, made.stages, strict=True)
        ]
        return [("tokens left −mass", total, both)]
    cells = [column.cells for column in made.stages]
    figures = [
        ("tokens left", total, [_left(*one) for one in zip(shown, cells, strict=True)]),
        (
            "mass removed",
            "",
            [_removed(one.mass_removed, room) for one, room in zip(shown, cells, strict=True)],
        ),
        (
            "entropy, nats",
            _entropy(candidates.entropy, made.model),
            [_entropy(one.entropy, room) for one, room in zip(shown, cells, strict=True)],
        ),
    ]
    if any(map(_worked_out, candidates.stages)):
        worked_out = [
            derived_cell(one, room) if _worked_out(one) else ""
            for one, room in zip(shown, cells, strict=True)
        ]
        figures.append(("worked out", "", worked_out))
    return [
        (label, model, ["·" if one.off else text for one, text in zip(shown, line, strict=True)])
        for label, model, line in figures
    ]


def _worked_out(stage: StageTrace) -> bool:
    """True if the stage computed more than how many tokens tie at its border."""
    return bool(stage.derived) and "equal" not in stage.derived


def _left(stage: StageTrace, cells: int) -> str:
    """``40``, or ``40 + 1 equal`` where a tie at the border is kept."""
    if "equal" in stage.derived:
        return derived_cell(stage, cells)
    return _count(stage.survivors, cells)


def _removed(mass: float, cells: int) -> str:
    if not mass:
        return "0"
    written = (f"−{share(mass)}", f"−{percent(mass)}", about(mass))
    return next(text for text in written if len(text) <= cells or text is written[-1])


def _entropy(nats: float, cells: int) -> str:
    written = [f"{nats:.{digits}f}" for digits in (2, 1, 0)]
    return next((text for text in written if len(text) <= cells), NOTHING)


def _count(survivors: int | Interval, cells: int) -> str:
    text = f"{survivors:,}"
    if len(text) <= cells:
        return text
    return survivors.written(compact) if isinstance(survivors, Interval) else compact(survivors)


def _left_and_cut(stage: StageTrace, cells: int) -> str:
    """``40 −3.10%``, shortened until it fits."""
    if stage.off:
        return "·"
    count, mass = stage.survivors, stage.mass_removed
    if not mass or isinstance(count, Interval) or "equal" in stage.derived:
        return _left(stage, cells)
    rough = f"{mass * 100:.1f}%" if mass >= 0.0005 else "<.1%"
    rougher = f"{mass * 100:.0f}%" if mass >= 0.005 else "<1%"
    variants = (
        f"{count:,} −{share(mass)}",
        f"{compact(count)} −{share(mass)}",
        f"{compact(count)} −{rough}",
        f"{compact(count)} −{rougher}",
    )
    return next((text for text in variants if len(text) <= cells), variants[-1])


def compact(number: float) -> str:
    """A count in at most four characters: ``999``, ``49k``, ``1.2M``."""
    if number < 1000:
        return f"{number}"
    if number < 999_500:
        return f"{number / 1000:.1f}k" if number < 9950 else f"{number / 1000:.0f}k"
    return f"{number / 1e6:.1f}M"
