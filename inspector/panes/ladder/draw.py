"""The sampler ladder: the distribution before and after each stage, and where the draw landed.

One column a stage, one row a candidate, in the model's own order. A token that a stage cuts has
``✂`` and the stage's name in that stage's column, and nothing after it. The drawn token has ``●``
in the last column; its row is pinned below the others when it is not among the first.

Where another chain is tried, the ladder is that chain's: ``○`` is the token that the same dice
would draw, and beside it stands what the record has, with a sign for what changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from textual.content import Content
from textual.geometry import Size

from engine.records.step import StepRecord
from engine.records.upcoming import Upcoming
from engine.sampling.chain import Chain
from inspector.draw.bars import share
from inspector.draw.numbers import ALL_DERIVED, fit
from inspector.panes.ladder.draw_line import detail, draw_lines
from inspector.panes.ladder.head import FULL, SHORT, head, head_height
from inspector.panes.ladder.plan import Plan, plan
from inspector.panes.ladder.rows import LadderRows, tail
from inspector.panes.ladder.why import Why
from inspector.panes.waiting import first_lines
from inspector.state.candidates import CandidateRows, Undrawn
from inspector.state.rerun import Run, candidates_of, what_if
from inspector.state.view import RunLog, View
from inspector.state.whatif import turned_between
from inspector.widgets.picture import DENSE, NEXT, Picture, Want

WILL_BE = (
    "The candidates for the next token will be here, a row each, with a column for each stage of "
    "the sampler: what it leaves, and what it cuts."
)
UNKNOWN = "what the next token will be drawn from is not known here: n draws it"
_BARE = 5
"""The pane's height from which the selected row's figures are below."""


@dataclass(frozen=True, eq=False)
class Shown:
    """The candidates at a view's cursor."""

    candidates: CandidateRows
    was: CandidateRows | None = None
    """The record's, where ``candidates`` are what another chain makes of them."""
    run: Run | None = None
    """The run of that chain."""
    problem: str = ""
    """The reason for which there is none, though a chain is to be tried."""


@dataclass(frozen=True, eq=False)
class Explain(Want):
    """The reasons for which a candidate lived or died."""

    view: View
    shown: Shown
    token_id: int


@dataclass(frozen=True, eq=False)
class LadderUI:
    """State of the pane."""

    selected: int = 0
    before: StepRecord | None = None
    """The step of the picture before; the rows of another one are seen from the first on."""
    drawn: int | None = None
    """The row that was drawn in that picture; while it is selected, the selection follows it."""
    first_stage: int = 0
    next: bool = False
    """True if the token after the cursor is shown, before it is drawn."""
    asked: int | None = None
    """The node whose whole logits are on their way."""
    reasons: Mapping[tuple[Shown, int], Why] = field(default_factory=dict)
    """Those found for some candidates."""


def draw(view: View, size: Size, ui: LadderUI = LadderUI()) -> Picture:
    """The pane."""
    step, shown = view.step, None if ui.next else _shown_at(view)
    if shown is None or step is None:
        return _before_the_draw(view, size, ui)
    wants: list[Want] = [DENSE] if view.what_if is not None else []
    candidates, was, (width, height) = shown.candidates, shown.was, size
    made = plan(width, candidates.stages, candidates.total, ui.first_stage, tried=was is not None)
    last = tail(candidates, loading=ui.asked == step.node)
    rows = _rows(shown, made, last)
    other = _next_settings(view, step, width) if height >= SHORT else []
    above = len(other) + head_height(height, candidates.stages)
    below = _footer_height(height)
    page = max(1, height - above - below)
    selected = min(ui.selected, len(candidates))
    if step is not ui.before or selected == ui.drawn:
        selected = candidates.row_of(candidates.draw.token_id) or 0
    reasons = None
    if below and selected < len(candidates):
        token_id = candidates[selected].token_id
        reasons = ui.reasons.get((shown, token_id))
        if reasons is None and view.settled:
            wants.append(Explain(view, shown, token_id))
    final = candidates.stages[-1].entropy if candidates.stages else candidates.entropy
    entropy = _entropies(candidates.entropy, final)
    pinned = _pinned(rows, page) if below else []
    siblings = len(view.log.tree.children.get(step.parent, ()))
    back = "b and h go back" if siblings > 1 else "b goes back"
    return Picture(
        rows,
        [*other, *head(candidates, made, height, was.stages if was is not None else None)],
        _footer(rows, pinned, selected, size, reasons, back) if below else (),
        pinned,
        remark=f"what if: {shown.problem}" if shown.problem else "",
        subtitle=f"{entropy} · full bar {share(candidates.largest)} · {ALL_DERIVED}",
        select=selected,
        # Without a footer there is no pinned row: the one that was drawn is brought into sight.
        follow=None if below else candidates.row_of(candidates.draw.token_id),
        top=step is not ui.before and below > 0,
        tries=was is not None,
        wants=wants,
    )


def _before_the_draw(view: View, size: Size, ui: LadderUI) -> Picture:
    """The distribution that the next token comes from, as a record or the engine tells it."""
    (width, height), chain = size, view.what_if
    own: StepRecord | Upcoming | None = view.following
    tried = None
    if own is None:
        own, tried = view.upcoming(), view.upcoming(chain) if chain is not None else None
    wants = [NEXT] if view.following is None and (own if chain is None else tried) is None else []
    step = tried or own
    if step is None:
        none = "no token drawn yet: step to draw the first" if view.step is None else UNKNOWN
        return Picture(first_lines(view, width, WILL_BE, none=none), wants=wants)
    note = "n shows all" if not view.log.not_stored else ""
    candidates = Undrawn(step, view.vocab_size, note)
    was = Undrawn(own, view.vocab_size, note) if tried is not None and own is not None else None
    made = plan(width, candidates.stages, candidates.total, ui.first_stage, tried=was is not None)
    rows = LadderRows(candidates, made, tail(candidates, loading=False), was)
    fresh = ui.before is not None and ui.before is not view.step
    selected = 0 if fresh else min(ui.selected, len(candidates))
    later = chain is not None and view.following is not None
    what_if = ": what is tried is shown once it is drawn" if later else ""
    below = _footer_height(height)
    return Picture(
        rows,
        head(candidates, made, height, was.stages if was is not None else None),
        _footer(rows, (), selected, size, None, "") if below else (),
        remark=f"next token, not drawn yet{what_if}",
        subtitle=f"{_entropies(candidates.entropy, step.entropy_final)} · {ALL_DERIVED}",
        select=selected,
        top=fresh,
        tries=tried is not None,
        wants=wants,
    )


def _shown_at(view: View) -> Shown | None:
    """The candidates to show; None where no token was drawn."""
    log, dense, chain = view.log, view.dense, view.what_if
    vocabulary = log.vocabulary if dense is not None else None
    state = log.state.state if chain is not None else None
    source = (view.step, dense, vocabulary, state, view.vocab_size, log.not_stored)
    return _shown(log, view.cursor, chain, *source)


@lru_cache(maxsize=2)
def _shown(log: RunLog, cursor: int, chain: Chain | None, *_: object) -> Shown | None:
    """Remembered for as long as all is the same that it is made of."""
    view = View(log, cursor, chain)
    recorded, found = candidates_of(view), what_if(view)
    if recorded is None:
        return None
    if isinstance(found, Run):
        return Shown(found.candidates, recorded, found)
    return Shown(recorded, problem=found or "")


@lru_cache(maxsize=2)
def _rows(shown: Shown, made: Plan, last: str) -> LadderRows:
    return LadderRows(shown.candidates, made, last, shown.was)


def _footer_height(height: int) -> int:
    """Lines below the rows in a pane of this height, without the pinned rows."""
    return 6 if height >= FULL else 2 if height >= SHORT else 1 if height >= _BARE else 0


def _next_settings(view: View, step: StepRecord, width: int) -> list[Content]:
    """A line where the next token's settings are not those that drew this one, else nothing."""
    ahead = view.ahead[:1]
    following = ahead[0] if ahead else view.settings
    if following is None:
        return []
    spec, preset = following.chain_spec, following.preset
    turned = turned_between(step.chain_spec, step.preset, spec, preset)
    if not turned:
        return []
    words = Content.styled(f" next token: {', '.join(turned)}", "$warning")
    return [fit(width, words + Content.styled(" · this one: as below", "$text-muted"), words)]


def _entropies(before: float, after: float) -> str:
    return f"entropy {before:.2f} → {after:.2f} nats"


def _footer(
    rows: LadderRows,
    pinned: Sequence[int],
    selected: int,
    size: Size,
    reasons: Why | None,
    back: str,
) -> list[Content]:
    """The pinned rows, where the draw landed, and the selected candidate's figures and fate."""
    candidates, (width, height) = rows.candidates, size
    roomy = height >= FULL
    lines = [rows[row] for row in pinned]
    if height >= SHORT:
        tried = rows.was is not None
        lines += draw_lines(candidates, width, roomy=roomy, tried=tried, back=back)
    if roomy or reasons is None:
        lines += detail(candidates, selected, width, roomy=roomy)
    if reasons is not None:
        lines += reasons.lines(width, roomy=roomy)
    elif roomy:
        lines += [Content(""), Content("")]
    return lines


def _pinned(rows: LadderRows, page: int) -> list[int]:
    """The rows of what was drawn, and would be, by rank, where they are not among the first."""
    candidates, was = rows.candidates, rows.was
    drawn = [candidates.draw.token_id, *([was.draw.token_id] if was is not None else [])]
    found = [candidates.row_of(token_id) for token_id in dict.fromkeys(drawn)]
    return sorted(row for row in found if row is not None and row >= page)
