"""Below the ladder's rows: where the draw landed, and the exact figures of one candidate."""

from __future__ import annotations

import math

from textual.content import Content

from engine.records.step import CUT_BY_MODEL, SURVIVES, Draw, DrawnOn, How
from engine.text import visible
from inspector.draw.bars import DrawLine, share
from inspector.draw.cells import clip, token_text
from inspector.draw.numbers import NOTHING, cut, fit
from inspector.state.candidates import NO_DRAW, CandidateRow, CandidateRows

_MARK, _TRIED_MARK = "$bar-drawn $bar-drawn-style", "$estimated bold"
_MUTED = "$text-muted"
_ON = {
    DrawnOn.SURVIVORS: "",
    DrawnOn.VERDICT: "accepted draft: ",
    DrawnOn.RESIDUAL: "corrected, of the residual: ",
    DrawnOn.DRAFT: "draft accepted by a lossy rule: ",
}


def signed(value: float, decimals: int) -> str:
    """A number as it stands in a column: with a minus sign that is as wide as a digit."""
    return f"{value:.{decimals}f}".replace("-", "−").replace("inf", "∞")


_LABEL = "draw "
_NAMED = 16
"""Stretches of the bar that may have a name on them, at most."""


def draw_line(candidates: CandidateRows, *, tried: bool = False) -> DrawLine:
    """The draw on the survivors' cumulative distribution; ``tried``: it did not happen."""
    draw, known = candidates.draw, candidates.stretches()
    stretch: tuple[float, float] | None = (draw.low, draw.high)
    u = draw.u
    if draw.how is How.FORCED or draw.on is not DrawnOn.SURVIVORS:
        # Nothing fell there: the record has the width of its stretch, not its place.
        stretch, u = candidates.place_of(draw.token_id), None
    names = [_name(candidates, token_id) for token_id in known.ids[:_NAMED].tolist()]
    return DrawLine(known.probs, stretch, u, tried, names)


def _name(candidates: CandidateRows, token_id: int) -> str:
    """A token as it stands on the bar; nothing where its width on a terminal is not certain."""
    row = candidates.row_of(token_id)
    token = candidates[row].token if row is not None else None
    name = "" if token is None else token_text(token).plain
    return name if name.isascii() and name.isprintable() else ""


def draw_words(draw: Draw, *, tried: bool = False, back: str = "b goes back") -> str:
    """The draw in words; ``back`` says which keys lead away from a forced token."""
    if draw is NO_DRAW:
        return "no draw yet: n goes on"
    if draw.u is not None:
        # Enough digits to tell the two ends apart.
        width = draw.high - draw.low
        digits = min(12, 5 if width <= 0 else max(5, 2 - math.floor(math.log10(width))))
        place = f"[{draw.low:.{digits}f}, {draw.high:.{digits}f})"
        same = "the same " if tried else ""
        return f"{_ON[draw.on]}{same}u {draw.u:.{digits}f} in {place}"
    if draw.how is How.GREEDY:
        would = "would be" if tried else "is"
        return f"greedy: no dice, the most likely {would} taken"
    return f"forced; {back} · no dice, its final p is {share(draw.high)}"


def draw_lines(
    candidates: CandidateRows,
    width: int,
    *,
    roomy: bool,
    tried: bool = False,
    back: str = "b goes back",
) -> list[Content]:
    """The cumulative bar: with ``u`` above it on two lines, or after the words on one."""
    line = draw_line(candidates, tried=tried)
    words = draw_words(candidates.draw, tried=tried, back=back)
    mark = _TRIED_MARK if tried else _MARK
    if not roomy:
        words = clip(words, max(0, width - 14))
        bar = line.bar(width - len(words) - 5, mark_u=True)
        return [Content.assemble(" ", (words, mark), " 0", bar, "1")]
    label = _LABEL if width >= 40 else ""
    cells = max(1, width - 3 - len(label))
    at = line.u_cell(cells)
    if at is None:
        above = f"  {clip(words, width - 3)}"
    else:
        at += 2 + len(label)
        if max(at - 2, width - at - 2) < len(words) and candidates.draw.u is not None:
            words = f"u {candidates.draw.u:.5f}"
        if at + 2 + len(words) <= width:
            above = f"{' ' * at}▼ {words}"
        else:
            words = clip(words, max(0, at - 1))
            above = f"{' ' * max(0, at - 1 - len(words))}{words} ▼"
    zero = Content.assemble(" ", (label, _MUTED), "0")
    return [Content.styled(above, mark), zero + line.bar(cells) + "1"]


def fate(candidate: CandidateRow, candidates: CandidateRows) -> str:
    """A candidate's fate, and the reason."""
    if candidate.cut_by == CUT_BY_MODEL:
        return "ruled out by the model"
    if candidate.cut_by == SURVIVES:
        return "survives"
    return f"cut by {visible(candidates.stages[candidate.cut_by].label)}"


def detail(candidates: CandidateRows, row: int, width: int, *, roomy: bool) -> list[Content]:
    """The exact figures of a row, because bars are coarse; on two lines or on one."""
    if not 0 <= row < len(candidates):
        return [Content("")] * (1 + roomy)
    candidate = candidates[row]
    who = f" rank {candidate.rank:,} · "
    raw = NOTHING if candidate.raw_logit is None else signed(candidate.raw_logit, 4)
    figures = (
        f"logit {raw} · logprob {signed(candidate.raw_logprob, 4)}"
        f" · final p {candidate.probs[-1]:.6g}".replace("-", "−")
    )
    what = fate(candidate, candidates)
    token = token_text(candidate.token)
    if roomy:
        stage = f" (stage {candidate.cut_by + 1})" if candidate.cut_by >= 0 else ""
        first = Content.assemble(
            (f"{who}id {candidate.token_id} · {what}{stage} · ", _MUTED), token
        )
        second = Content.styled(f" raw {figures}", _MUTED)
        return [cut(first, width), cut(second, width)]
    line = Content.styled(f"{who}{figures} · {what}", _MUTED)
    return [fit(width, line + Content.styled(" · ", _MUTED) + token, line)]
