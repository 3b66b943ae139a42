"""The selected candidate's fate, and the changes that would have turned it.

Two lines of words for one token: the first says what happened, the second what it would have
taken for something else to happen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from textual.content import Content

from engine.records.step import SURVIVES, Draw, DrawnOn, How
from engine.records.vocabulary import Token
from engine.sampling.chain import Ladder
from engine.sampling.draw import stretch
from engine.sampling.explain import Change, DialFlip, dial_flips, explain, flip_distance
from engine.sampling.partial import Partial
from engine.sampling.stages import spelled
from engine.text import visible
from inspector.draw.cells import token_text
from inspector.draw.numbers import cut, muted
from inspector.state.rerun import Run

Namer = Callable[[int], Token | None]
_MOST_FLIPS = 4


@dataclass(frozen=True, eq=False)
class Why:
    """A token's fate, and alternatives to it."""

    happened: Content
    otherwise: Content

    @classmethod
    def failed(cls, message: str) -> Why:
        """A stage would not say."""
        return cls(muted(visible(message)), Content(""))

    def lines(self, width: int, *, roomy: bool) -> list[Content]:
        """Two lines, or as much as fits on one."""
        happened, otherwise = Content(" ") + self.happened, Content(" ") + self.otherwise
        if roomy:
            return [cut(happened, width), cut(otherwise, width)]
        both = happened + muted(" ·") + otherwise if self.otherwise.plain else happened
        return [cut(both, width)]


def why(run: Run, drawn: Draw, token_id: int, name: Namer) -> Why:
    """The reasons for ``token_id``; ``drawn`` is what the dice, or the user, chose.

    May take a second where many values of a dial have to be tried.
    """
    fate = explain(run.chain, run.ladder, run.context, token_id, saving=run.whole)
    if fate.stage != SURVIVES:
        return Why(muted(f"✂ {visible(fate.text)}"), _saving(run, fate.saved_by, fate.then_cut_by))
    if isinstance(run.ladder.final, Partial):
        return Why(muted(visible(fate.text)), Content(""))
    if token_id != drawn.token_id:
        return Why(muted(visible(fate.text)), _reach(run.ladder, drawn, token_id))
    return Why(_distance(run, drawn, name), _flips(run, drawn, name))


def _saving(run: Run, change: Change | None, then: str) -> Content:
    if change is None:
        return muted("" if not run.whole else "no other value of its dials would keep it")
    kept = f"{change.dial}={spelled(change.short)} would keep it"
    return muted(f"{kept}, but then cut by {visible(then)}" if then else kept)


def _reach(ladder: Ladder, drawn: Draw, token_id: int) -> Content:
    """Interval in which u would have had to fall."""
    if drawn.on is not DrawnOn.SURVIVORS:
        return muted("the round drew by its draft, and not from these alone: see the round")
    low, high = stretch(ladder.final, token_id)
    place = f"drawn by a u in [{low:.5f}, {high:.5f})"
    if drawn.u is None:
        return muted(place)
    off = low - drawn.u if drawn.u < low else drawn.u - high
    way = "higher" if drawn.u < low else "lower"
    return muted(f"{place}: {_small(off)} {way} than it was")


def _distance(run: Run, drawn: Draw, name: Namer) -> Content:
    """Distance of the draw to another token."""
    if drawn.how is How.FORCED:
        return muted("forced: no dice were thrown")
    if drawn.u is None:
        return _lead(run, name)
    if drawn.on is not DrawnOn.SURVIVORS:
        return _in_round(drawn, drawn.u)
    flip = flip_distance(run.ladder, drawn)
    if flip is None or flip.nearest is None:
        return muted(f"u {drawn.u:.4f}: whatever it is, no other token can be drawn")
    parts: list[Content] = []
    for neighbour, side in ((flip.below, "below"), (flip.above, "above")):
        if neighbour is not None:
            token = token_text(name(neighbour.token_id))
            parts.append(muted(f"{_small(neighbour.distance)} from ") + token + muted(f" {side}"))
    return muted(f"u {drawn.u:.4f}: ") + muted(", ").join(parts)


def _in_round(drawn: Draw, u: float) -> Content:
    """Distance to the other outcome of a draft, or to another token of the residual."""
    match drawn.on:
        case DrawnOn.VERDICT:
            spare = _small(drawn.high - u)
            return muted(
                f"u {u:.4f}: the draft is accepted below {drawn.high:.4f}, {spare} to spare"
            )
        case DrawnOn.RESIDUAL:
            ends = [end for end in (drawn.low, drawn.high) if 0.0 < end < 1.0]
            if ends:
                off = _small(min(abs(u - end) for end in ends))
                return muted(f"u {u:.4f} on the residual: {off} from another token")
            return muted(f"u {u:.4f}: the residual is all on this token")
    return muted(f"u {u:.4f} drew the draft; the rule that accepted it uses no number")


def _lead(run: Run, name: Namer) -> Content:
    """By how much the greedy choice was ahead, where the last two were still in the race."""
    ladder = run.ladder
    level = next((one for one in (*ladder.after[::-1], ladder.model) if len(one) > 1), None)
    if level is None:
        return muted("greedy: there was no other token")
    first, second = level.order(2)[:2]
    lead = float(level.logits[first]) - float(level.logits[second])
    return muted(f"greedy: {lead:.4f} logits ahead of ") + token_text(name(int(level.ids[second])))


def _flips(run: Run, drawn: Draw, name: Namer) -> Content:
    """The smallest changes of one dial that draw another token, the least first."""
    if not run.whole or drawn.how is How.FORCED:
        return Content("")
    found = dial_flips(run.chain, run.ladder, run.context, drawn, run.choose)
    if not found:
        return muted("no change of a single dial draws another token")
    return muted("; ").join(_flip(one, name) for one in found[:_MOST_FLIPS])


def _flip(flip: DialFlip, name: Namer) -> Content:
    return muted(f"{flip.change.text} draws ") + token_text(name(flip.token_id))


def _small(distance: float) -> str:
    """A distance on the bar, with digits enough that it is not 0."""
    return f"{distance:.4f}" if distance >= 0.00005 or distance == 0 else f"{distance:.1e}"
