"""One speculative round as lines: each draft with q, p and verdict, and a rejection's residual."""

from __future__ import annotations

from textual.content import Content

from engine.records.round import (
    Drafted,
    DraftVerdict,
    Residual,
    ResidualRow,
    RoundEnd,
    RoundRecord,
)
from engine.records.step import DrawnOn, StepRecord
from engine.text import visible
from inspector.draw.bars import FIGURE, share
from inspector.draw.block_chars import bar
from inspector.draw.cells import clip, left, right, token_text
from inspector.draw.numbers import MUTED, NOTHING, cut, heading, muted, plural

GLYPHS = {
    DraftVerdict.ACCEPTED: "✓",
    DraftVerdict.REJECTED: "✗",
    DraftVerdict.DISCARDED: "·",
    DraftVerdict.AFTER_STOP: "■",
}
CORRECTED, BONUS = "↻", "+"
_STYLES = {
    DraftVerdict.ACCEPTED: "$bar-drawn $bar-drawn-style",
    DraftVerdict.REJECTED: "$error",
    DraftVerdict.DISCARDED: "$cut $cut-style",
    DraftVerdict.AFTER_STOP: "$cut $cut-style",
}
_VERDICT = 11
_CHANCE, _DICE = 9, 8
_BAR = 14
_COLUMNS = (("q", FIGURE + 1), ("p", FIGURE + 1), ("min(1,p/q)", _CHANCE + 2), ("dice", _DICE))


def title_line(width: int) -> Content:
    """The names of the columns."""
    text = "    " + "".join(right(name, cells) for name, cells in _COLUMNS)
    line = Content.styled(f"{text}  {left('verdict', _VERDICT)} token", "$title")
    return cut(line.stylize("underline"), width)


def round_rows(record: RoundRecord, last: StepRecord | None, width: int) -> list[Content]:
    """A line for each draft, in order, and one for the token that the target added itself.

    ``last`` is the step of that token, where it is there.
    """
    rows: list[Content] = []
    for one in record.drafted:
        rows.append(cut(_draft_line(one), width))
        if one.verdict is DraftVerdict.REJECTED and last is not None:
            rows.append(cut(_own_line(record, last), width))
    if record.end is RoundEnd.BONUS and last is not None:
        rows.append(cut(_own_line(record, last), width))
    return rows


def row_of(record: RoundRecord, node: int) -> int:
    """The row of a token that the round added; the token after a rejection has one of its own."""
    place = node - record.node
    return place + (record.end is RoundEnd.REJECTED and place == record.accepted)


def _draft_line(one: Drafted) -> Content:
    figures = [share(one.q), *(NOTHING if p is None else share(p) for p in (one.p, one.chance))]
    dice = NOTHING if one.u is None else f"{one.u:.4f}"
    cells = [right(text, size) for text, (_, size) in zip([*figures, dice], _COLUMNS, strict=True)]
    style = _STYLES[one.verdict]
    return Content.assemble(
        (f"  {GLYPHS[one.verdict]} ", style),
        "".join(cells),
        (f"  {left(one.verdict.value, _VERDICT)} ", style),
    ) + token_text(one.token)


def _own_line(record: RoundRecord, step: StepRecord) -> Content:
    """The token that the target drew itself: the correction, or the bonus."""
    bonus = record.end is RoundEnd.BONUS
    glyph, word = (BONUS, "bonus") if bonus else (CORRECTED, "corrected")
    u = NOTHING if step.draw.u is None else f"{step.draw.u:.4f}"
    residual = step.draw.on is DrawnOn.RESIDUAL
    share_of = "of the residual" if residual else "the target's own"
    _, *sizes = (size for _, size in _COLUMNS)
    cells = f"{right(share(step.final_prob), FIGURE + 1 + sizes[0])}{' ' * sizes[1]}"
    return (
        Content.assemble(
            (f"  {glyph} ", "$bar-drawn $bar-drawn-style"),
            f"{cells}{right(u, _DICE)}",
            (f"  {left(word, _VERDICT)} ", "$bar-drawn $bar-drawn-style"),
        )
        + token_text(step.token)
        + muted(f"  {share_of}")
    )


def residual_lines(left_over: Residual, drawn: int, width: int, most: int) -> list[Content]:
    """p, q and max(0, p - q) side by side where a draft was rejected; ``drawn`` is marked."""
    if most < 3:
        return []
    mass = f"Where it was rejected: residual mass {share(left_over.mass)}"
    room = max(1, (width - 3 - 3 * (FIGURE + 2) - 12) // 3)
    size = min(_BAR, room)
    largest = max((max(row.p, row.q, row.left) for row in left_over.rows), default=1.0) or 1.0
    names = "".join(f" {left(name, FIGURE + 1 + size)}" for name in ("p", "q", "p−q ÷ mass"))
    lines = [heading(mass, width), cut(muted(f"   {names} token"), width)]
    kept = list(left_over.rows[: most - 2])
    lost = [row for row in left_over.rows[most - 2 :] if row.token.id == drawn]
    if lost and kept:
        kept[-1] = lost[0]
    return [*lines, *(cut(_residual_line(row, drawn, size, largest), width) for row in kept)]


def _residual_line(row: ResidualRow, drawn: int, size: int, largest: float) -> Content:
    mine = row.token.id == drawn
    style = "$bar-drawn $bar-drawn-style" if mine else ""
    parts: list[tuple[str, str]] = [(" ● " if mine else "   ", style)]
    for value, colour in ((row.p, "$bar"), (row.q, "$cut"), (row.left, "$bar-drawn")):
        parts.append((f" {right(share(value), FIGURE)} ", MUTED))
        parts.append((left(bar(value / largest, size), size), colour))
    return Content.assemble(*parts, " ") + token_text(row.token, style)


def summary(record: RoundRecord, number: int, of: int) -> Content:
    """The round in a line: which it is, what drafted, by which rule, and what it added."""
    name = clip(visible(record.source.rpartition("/")[2]), 24)
    accepted = f"{record.accepted} of {len(record.drafted)} accepted"
    return Content.assemble(
        f" round {number:,} of {of:,} · {name} · {record.accept.value}",
        (" NOT LOSSLESS" if record.accept.lossy else "", "$error bold"),
        f" · {accepted}, {plural(record.added, 'token')}",
    )
