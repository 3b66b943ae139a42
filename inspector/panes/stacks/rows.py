"""Several samplers on one distribution, as a table: what each keeps, and where they part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from textual.content import Content

from engine.records.step import Draw
from engine.records.vocabulary import Token
from engine.sampling.stacks import Disagreement, StackColumn, StackComparison
from engine.text import visible
from inspector.draw.bars import FIGURE, share
from inspector.draw.cells import left, right, token_parts, token_text
from inspector.draw.numbers import MUTED, NOTHING, Mark, cut, heading, muted, plural
from inspector.panes.ladder.head import short_name

CUT, DRAWN, WOULD = "✂", "●", "○"
_NAME, _KEPT, _ENTROPY = 9, 7, 6
_ORDER, _TEXT = 20, 16
"""Cells that the order must have to be shown, and that are kept for the token drawn."""
_CELLS = 8
_DRAWN, _WOULD = "$bar-drawn $bar-drawn-style", "$estimated bold"

Namer = Callable[[int], Token | None]


@dataclass(frozen=True, eq=False)
class Compared:
    """A comparison, and what each stack draws with the same dice (None where one refused)."""

    found: StackComparison
    draws: tuple[Draw | None, ...]


def stack_line(
    column: StackColumn, draw: Draw | None, recorded: int, name: Namer, width: int
) -> Content:
    """One stack: its order, how many tokens it keeps, and what it draws with the same dice.

    ``recorded`` is the token that the record has: whoever draws it too is marked so.
    """
    head = (left(column.preset, _NAME) + " ", "bold")
    if column.ladder is None:
        return cut(Content.assemble(" ", head, (f"✗ {visible(column.error)}", "$error")), width)
    kept = right(f"{len(column.ladder.final):,}", _KEPT)
    entropy = right(f"{column.ladder.final.entropy:.2f}", _ENTROPY)
    order = (_order(column, _order_cells(width)), MUTED)
    line = Content.assemble(" ", head, order, f"{kept}{entropy}  ")
    if draw is None:
        return cut(
            line + muted(f"{NOTHING} the draft is rejected, and not all of q is known"), width
        )
    sign, style = (DRAWN, _DRAWN) if draw.token_id == recorded else (WOULD, _WOULD)
    line += Content.styled(f"{sign} ", style)
    return cut(line + token_text(name(draw.token_id), style), width)


def _order_cells(width: int) -> int:
    room = width - 1 - _NAME - 1 - _KEPT - _ENTROPY - 4 - _TEXT
    return room if room >= _ORDER else 0


def _order(column: StackColumn, cells: int) -> str:
    """The stages that do something, in their order, shortened as far as it takes."""
    stages = column.chain.stages if column.chain is not None else ()
    names = [one.name for one in stages if not one.off]
    for letters in (11, 5, 4, 3):
        text = " > ".join(short_name(name, max(letters, 3)) for name in names)
        if len(text) <= cells:
            break
    return left(text if names else "nothing is on", cells)


def order_line(column: StackColumn, width: int) -> Content:
    """The stack's chain in its own order, and which dials it was given in vain."""
    spec = column.chain.spec if column.chain is not None else ""
    lacks = f" · has no {', '.join(column.ignored)}" if column.ignored else ""
    return cut(muted(f" {column.preset}: {visible(spec)}{lacks}"), width)


def title_line(width: int) -> Content:
    """The names of the stacks' columns."""
    order = left("order", _order_cells(width))
    figures = f"{right('kept', _KEPT - 1)}{right(f'nats {Mark.DERIVED}', _ENTROPY + 1)}"
    text = f" {left('stack', _NAME)} {order}{figures}  same dice draw"
    return cut(Content.styled(text, "$title").stylize("underline"), width)


def parting_titles(columns: Sequence[StackColumn], count: int, width: int) -> list[Content]:
    """Above the tokens on which they part."""
    names = "".join(f" {left(one.preset[: _CELLS - 1], _CELLS - 1)}" for one in columns)
    line = Content.styled(f" {right('raw p', FIGURE + 1)} {names} token", "$title")
    return [
        heading(f"They part on {plural(count, 'token')}", width),
        cut(line.stylize("underline"), width),
    ]


def parting_line(
    row: Disagreement, columns: Sequence[StackColumn], token: Token | None, width: int
) -> Content:
    """One token: its final probability where it was kept, else the stage that cut it."""
    parts: list[tuple[str, str]] = [(f" {right(share(row.raw_prob), FIGURE + 1)} ", MUTED)]
    for column, kept, probability, reason in zip(
        columns, row.kept, row.final_probs, row.reasons, strict=True
    ):
        if kept:
            parts.append((f" {left(share(probability), _CELLS - 1)}", ""))
        else:
            by = "✗" if column.ladder is None else f"{CUT} {_stage(reason, _CELLS - 3)}"
            parts.append((f" {left(by, _CELLS - 1)}", "$cut $cut-style"))
    return cut(Content.assemble(*parts, " ", *token_parts(token)), width)


def _stage(reason: str, cells: int) -> str:
    """The stage's name out of an explanation: ``cut by top_p=0.95: …``."""
    name = reason.removeprefix("cut by ").removeprefix("forbidden by ").partition("=")[0]
    return short_name(name, cells)


def reasons(row: Disagreement, columns: Sequence[StackColumn], width: int) -> list[Content]:
    """The reason of each stack that cut the token, a line each; stacks that agree share one."""
    grouped: dict[str, list[str]] = {}
    for column, kept, reason in zip(columns, row.kept, row.reasons, strict=True):
        grouped.setdefault("kept" if kept else reason, []).append(column.preset)
    return [
        cut(Content.assemble((f" {', '.join(names)}: ", "bold"), (visible(why), MUTED)), width)
        for why, names in grouped.items()
    ]
