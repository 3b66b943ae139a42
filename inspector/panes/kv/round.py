"""A speculative round in the cache: positions that its pass wrote, and those taken back."""

from __future__ import annotations

from textual.content import Content

from engine.records.round import RoundRecord
from inspector.draw.numbers import fit, labelled, muted
from inspector.panes.kv.pool import span
from inspector.state.view import View

KEPT, BACK, EDGE = "█", "↶", "│"
_MOST_DRAWN = 24
LABEL = "this round"


def round_of(view: View) -> tuple[RoundRecord, int] | None:
    """The round that the cursor's token came in, and the position of its first; None for none."""
    step = view.step
    found = view.log.rounds.get(step.round) if step is not None and step.round else None
    if step is None or found is None:
        return None
    return found, step.position - (step.node - found.node)


def written(found: RoundRecord, first: int) -> tuple[int, int, int]:
    """(first position written, first taken back, one past the last written) by the target's pass.

    ``first`` is the position of the round's first token. What is kept ends with the last accepted
    draft: the token behind it is read by the next pass.
    """
    kept = first + found.accepted
    end = kept + found.taken_back
    return max(0, end - found.written), kept, end


def round_lines(view: View, label: int, width: int, block: int) -> list[Content]:
    """One line on the target's cache, and one on the draft's where it has one; else nothing.

    ``label`` is the width of the labels, ``block`` the positions of a block.
    """
    there = round_of(view)
    if there is None:
        return []
    found, first = there
    start, kept, end = written(found, first)
    wrote = f"{found.written:,} written"
    back = f"{found.taken_back:,} taken back"
    if found.written:
        wrote += f" ({span(start, found.written)})"
    if found.taken_back:
        back += f" ({span(kept, found.taken_back)})"
    short = f"{found.written:,} written, {found.taken_back:,} taken back"
    strip = _strip(start, kept, end, block)
    variants = [
        strip + Content(f"  {wrote}, {back}"),
        Content(f"{wrote}, {back}"),
        strip + Content(f" {short}"),
        Content(short),
        Content(f"{found.written:,} − {found.taken_back:,}"),
    ]
    lines = [labelled(LABEL, label, width, *variants)]
    if found.draft_written:
        own = f"{found.draft_written:,} written, {found.draft_taken_back:,} taken back"
        words = muted(f"draft's own: {own}"), muted(f"draft: {own}"), muted("")
        lines.append(labelled("", label, width, fit(max(0, width - label), *words)))
    return lines


def _strip(start: int, kept: int, end: int, block: int) -> Content:
    """A cell for each position that was written, with the edges of blocks; the last ones."""
    shown = range(max(start, end - _MOST_DRAWN), end)
    parts: list[tuple[str, str]] = []
    for position in shown:
        if position > shown.start and position % block == 0:
            parts.append((EDGE, "$text-muted"))
        parts.append((KEPT, "$kv-full") if position < kept else (BACK, ""))
    return Content.assemble(*parts)
