"""One vector through a chain as text: the ladder of the inspector, as wide as the terminal is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from textual.content import Content

from engine.records.events import Setting
from engine.records.step import Draw
from engine.records.vocabulary import Token
from engine.sampling.ladder import Ladder
from engine.sampling.settings import Effective, in_vain
from engine.text import visible
from inspector.cli.sample_input import Given
from inspector.draw.bars import share
from inspector.draw.derived import derived_lines
from inspector.draw.numbers import plural, wrapped
from inspector.panes.ladder.draw_line import draw_lines
from inspector.panes.ladder.head import FULL, head
from inspector.panes.ladder.plan import Plan, plan
from inspector.panes.ladder.rows import LadderRows
from inspector.state.candidates import CandidateRow, Whole

_LABEL = 10
_NOBODY = ("off", "default")
_LEAST = 48
"""Cells below which the ladder is not readable, whatever the terminal says."""
_NO_TEXT = 10
"""Cells that the ladder keeps for the token's text, free where no token has a name."""


def sample_lines(
    given: Given,
    settings: Effective,
    ladder: Ladder,
    drawn: Draw,
    notes: Iterable[str],
    *,
    top: int,
    width: int,
) -> Iterator[Content]:
    """Everything that ``sample`` prints: settings, the ladder, where u fell, and notes."""
    width = max(_LEAST, width)
    yield from wrapped("source", _LABEL, width, visible(given.read.source))
    yield from wrapped("chain", _LABEL, width, f"{settings.chain.preset}: {visible(settings.spec)}")
    yield from wrapped("settings", _LABEL, width, visible(_settings(settings)) or "all off")
    if idle := in_vain(settings.dials):
        yield from wrapped("not used", _LABEL, width, visible(_written(idle)))
    if worked_out := derived_lines(ladder.traces):
        yield from wrapped("used", _LABEL, width, "; ".join(worked_out))
    named = given.token
    candidates = Whole(ladder, drawn, named or _nameless)
    # Of a vector that is not whole, what it does not know is not said to be impossible, row by row.
    count = candidates.total if given.read.partial else len(candidates)
    rows = _rows(candidates, min(top, count))
    for block in _blocks(candidates, width if named else width + _NO_TEXT):
        yield Content("")
        room = block.width if named else block.width - block.text
        above = head(candidates, block, FULL)
        lines = LadderRows(candidates, block, "")
        for line in (*above, *map(lines.line, rows)):
            yield line if named else line[:room]
    yield Content.styled(_rest(count - len(rows), rows), "$text-muted")
    yield Content("")
    yield from draw_lines(candidates, width, roomy=True)
    yield Content("")
    yield from wrapped("figures", _LABEL, width, "derived from the logits; u is drawn")
    for note in notes:
        yield from wrapped("note", _LABEL, width, visible(note))


def _nameless(token_id: int) -> Token | None:
    return None


def _settings(settings: Effective) -> str:
    """The dials of the chain that somebody set, and who did."""
    used = [dial.name for stage in settings.chain.stages for dial in stage.dials]
    found = {name: settings.dials[name] for name in used if name in settings.dials}
    return _written({name: one for name, one in found.items() if one.source not in _NOBODY})


def _written(dials: Mapping[str, Setting]) -> str:
    return ", ".join(f"{name}={one.value} ({one.source})" for name, one in dials.items())


def _rows(candidates: Whole, top: int) -> list[CandidateRow]:
    """The model's favourites, and the drawn token wherever it stands."""
    rows = [candidates[row] for row in range(top)]
    at = candidates.row_of(candidates.draw.token_id)
    return rows if at is None or at < len(rows) else [*rows, candidates[at]]


def _blocks(candidates: Whole, width: int) -> Iterator[Plan]:
    """The ladder's columns, in as many ladders below each other as the stages need."""
    first = 0
    while True:
        made = plan(width, candidates.stages, len(candidates), first, numbered=True)
        yield made
        if not made.after or not made.stages:
            return
        first = made.stages[-1].index + 1


def _rest(left: int, rows: Sequence[CandidateRow]) -> str:
    """Number of ids that are not shown, and their mass."""
    if left <= 0:
        return f" all {len(rows):,} ids"
    raw, final = (1.0 - sum(candidate.probs[at] for candidate in rows) for at in (0, -1))
    # Sums of all probabilities miss 1 by rounding alone.
    raw, final = (mass if mass > 1e-12 else 0.0 for mass in (raw, final))
    return f" {plural(left, 'more token')}: {share(raw)} raw mass, {share(final)} final mass"
