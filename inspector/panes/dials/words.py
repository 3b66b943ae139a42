"""Lines below the dials: the draw they would give, a dial's meaning, the keys."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from engine.records.step import DrawnOn, How, StepRecord
from engine.sampling.stages import STAGES
from engine.text import visible
from inspector.draw.cells import token_text
from inspector.draw.numbers import fit, muted, plural
from inspector.panes.dials.rows import DialRow, Sign
from inspector.state.rerun import Run, token_of, what_if
from inspector.state.view import View
from inspector.state.whatif import hypothetical

_TRIED, _DRAWN = "$estimated bold", "$bar-drawn $bar-drawn-style"

_IN_ROUND = {
    DrawnOn.VERDICT: " · the round's draft is accepted",
    DrawnOn.DRAFT: " · the round's draft is accepted",
    DrawnOn.RESIDUAL: " · its draft is rejected",
}


def outcome(view: View, error: str) -> Content:
    """The token that the same dice would have drawn; or what is wrong."""
    if error:
        return Content.styled(f" ! {visible(error)}", "$error bold")
    step = view.step
    if step is None:
        if view.upcoming() is not None:
            return muted(" no token here: the ladder shows what these settings would leave")
        return muted(" no token here: step once, or apply and begin with these settings")
    if not hypothetical(view):
        return Content(" ") + _drawn(step) + muted(" · turn a dial to see what it would do")
    found = what_if(view)
    if not isinstance(found, Run):
        asked = ""
        if view.dense is None:
            asked = f" · {view.log.not_stored or 'the engine is asked for the rest'}"
        return Content.styled(f" ! {visible(found or '')}{asked}", _TRIED)
    return Content(" ") + _would(view, step, found)


def _drawn(step: StepRecord) -> Content:
    """The recorded draw."""
    word = "you chose ● " if step.draw.how is How.FORCED else "drew ● "
    return Content(word) + token_text(step.token, _DRAWN)


def _would(view: View, step: StepRecord, found: Run) -> Content:
    """The draw with the same dice, and the number of tokens left to draw from."""
    token = token_text(token_of(view, found.draw.token_id), _TRIED)
    if found.draw.token_id == step.token.id:
        said = Content.styled("would draw ○ ", _TRIED) + token + muted(" all the same")
    else:
        said = Content.styled("would draw ○ ", _TRIED) + token + Content(" instead of ● ")
        said += token_text(step.token, _DRAWN)
    survivors, before = (
        found.ladder.final.survivors,
        step.stages[-1].survivors if step.stages else 0,
    )
    said += muted(f" · {plural(survivors, 'token')} left")
    if before and before != survivors:
        said += muted(f", not {before:,}")
    said += muted(_IN_ROUND.get(found.draw.on, ""))
    if found.draw.u is not None:
        said += muted(f" · same u {found.draw.u:.5f}")
    return said


def hints(view: View, width: int, *, writing: bool) -> Content:
    """The keys of the selected row."""
    if writing:
        return muted(" enter takes the value · backspace on nothing leaves it as it was")
    if not hypothetical(view):
        return fit(
            width,
            muted(" - + turn · enter writes · i insert · t take out · { } move · s close"),
            muted(" - + turn · i insert · t take out · s close"),
        )
    return fit(
        width,
        muted(" a: so from the next token on · A: from this one · 0 as recorded · s drops it"),
        muted(" a from the next token · A from here · s drops it"),
    )


def dial_words(row: DialRow, notes: Sequence[str]) -> Content:
    """A dial's meaning and range; where its stack does something unasked, that."""
    dial = row.dial
    note = next((one for one in notes if one.startswith(f"{dial.name}=")), "")
    if note and row.sign in (Sign.NONE, Sign.UNASKED) and row.core:
        return muted(f" {note}")
    if row.drafts:
        return muted(f" {dial.name}: {dial.summary}")
    unit = f" {dial.unit}" if dial.unit else ""
    return muted(f" {dial.name}: {dial.summary} · {dial.range_text}{unit}")


def stage_words(names: Sequence[str]) -> Content:
    """The meaning of the stage that is chosen from the list."""
    about = STAGES[names[0]].__doc__ if names else "every stage is in the chain"
    return muted(" " + " ".join((about or "").split()))
