"""The sampler ladder: the distribution before and after each stage, and where the draw landed.

One column a stage, one row a candidate, in the model's own order. A token that a stage cuts has
``✂`` and the stage's name in that stage's column, and nothing after it. The drawn token has ``●``
in the last column; its row is pinned below the others when it is not among the first.

Where another chain is tried, the ladder is that chain's: ``○`` is the token that the same dice
would draw, and beside it stands what the record has, with a sign for what changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.timer import Timer

from engine.records.events import DenseLogits, RunState
from engine.records.step import StepRecord
from engine.records.vocabulary import Vocabulary
from engine.sampling.candidates import SamplingError
from engine.sampling.chain import Chain
from inspector.background import Background
from inspector.draw.bars import share
from inspector.messages import NeedDense
from inspector.panes.ladder.draw_line import detail, draw_lines
from inspector.panes.ladder.head import FULL, SHORT, head, head_height
from inspector.panes.ladder.plan import plan
from inspector.panes.ladder.rows import LadderRows, tail
from inspector.panes.ladder.why import Why, why
from inspector.state.candidates import CandidateRows, Recorded
from inspector.state.rerun import Run, candidates_of, rerun, token_of, what_if
from inspector.state.view import View
from inspector.widgets.line_view import Pane, Rows

_MUTED = "$text-muted"
_BARE = 5
"""The pane's height from which the selected row's figures are below."""
_PAUSE_S = 0.3
"""So long nothing may change before reasons are looked for: longer than between two keys."""

Source = tuple[
    StepRecord | None, DenseLogits | None, Vocabulary | None, Chain | None, RunState | None
]
"""Everything that the ladder's lines depend on."""


def footer_height(height: int) -> int:
    """Lines below the rows in a pane of this height, without the pinned rows."""
    return 6 if height >= FULL else 2 if height >= SHORT else 1 if height >= _BARE else 0


class LadderPane(Pane):
    """The ladder at the cursor. ``Chosen`` names a row; ``token_id_of`` tells its token.

    Posts ``NeedDense`` when the user comes to the end of what the record holds, and when the
    reasons for a row cannot be told without.
    """

    NAME: ClassVar[str] = "Ladder"
    TRIES: ClassVar[bool] = True
    SELECTABLE: ClassVar[bool] = True
    HELP = """
Each column is a stage of the sampler, in its order; each row is a candidate, in the model's own
order. **✂** marks the stage that cut a token. **●** is the token that was drawn.

The lines below say why the selected candidate lived or died, and the smallest change that would
have saved it. For the drawn token they say how near the dice were to another one.

**s** opens the sampler's dials. What is tried there is drawn here at once: **○** is what the same
dice would draw, **+** a token that is now kept, **−** one that is now cut, **▲ ▼** more or less
likely than in the record.
"""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "left_square_bracket",
            "stages(-1)",
            "Stages to the left",
            show=False,
            key_display="[",
            id="ladder.stages-left",
        ),
        Binding(
            "right_square_bracket",
            "stages(1)",
            "Stages to the right",
            show=False,
            key_display="]",
            id="ladder.stages-right",
        ),
    ]

    class Explained(Message):
        """The reasons for one candidate, from the thread that looked for them."""

        def __init__(self, source: Source, token_id: int, why: Why) -> None:
            super().__init__()
            self.source, self.token_id, self.why = source, token_id, why

    def __init__(self, *, id: str | None = None, number: int | str | None = None) -> None:
        super().__init__(id=id, number=number)
        self._lines: LadderRows | None = None
        self._source: Source | None = None
        self._first_stage = 0
        self._asked: int | None = None
        self._run: Run | None = None
        self._problem = ""
        self._why: dict[int, Why] = {}
        self._soon: Timer | None = None
        self.background = Background("explain")

    def on_unmount(self) -> None:
        self.background.close()

    # --- lines --------------------------------------------------------------------------------

    def header(self, view: View, width: int) -> Sequence[Content]:
        self._lines = self._look(view, width)
        if self._lines is None:
            return ()
        was = self._lines.was.stages if self._lines.was is not None else None
        return head(self._lines.candidates, self._lines.plan, self._height, was)

    def rows(self, view: View, width: int, height: int) -> Rows:
        if self._lines is None:
            return [Content.styled("no token drawn yet: step to draw the first", _MUTED)]
        return self._lines

    def footer(self, view: View, width: int) -> Sequence[Content]:
        if self._lines is None or self._height < _BARE:
            return ()
        candidates, roomy = self._lines.candidates, self._height >= FULL
        lines = [self._lines[row] for row in self._pinned()]
        if self._height >= SHORT:
            lines += draw_lines(candidates, width, roomy=roomy, tried=self._lines.was is not None)
        reasons = self._why.get(candidates[self.selected].token_id) if self._on_a_row else None
        if roomy or reasons is None:
            lines += detail(candidates, self.selected, width, roomy=roomy)
        if reasons is not None:
            lines += reasons.lines(width, roomy=roomy)
        elif roomy:
            lines += [Content(""), Content("")]
        self._explain_soon()
        return lines

    def subtitle(self, view: View) -> Content:
        if self._lines is None:
            return Content("")
        candidates = self._lines.candidates
        final = candidates.stages[-1].entropy if candidates.stages else candidates.entropy
        entropy = f"entropy {candidates.entropy:.2f} → {final:.2f} nats"
        return Content(f"{entropy} · full bar {share(candidates.largest)}")

    def tries(self, view: View) -> bool:
        return self._lines is not None and self._lines.was is not None

    def remark(self, view: View) -> Content:
        return Content(f"what if: {self._problem}" if self._problem else "")

    def needs_dense(self, view: View) -> bool:
        return view.what_if is not None

    @property
    def _height(self) -> int:
        return self.scrollable_content_region.height

    @property
    def _on_a_row(self) -> bool:
        return self._lines is not None and 0 <= self.selected < len(self._lines.candidates)

    @property
    def _page(self) -> int:
        """Rows in sight before any scrolling, when no row is pinned."""
        stages = self._lines.candidates.stages if self._lines is not None else ()
        above = head_height(self._height, stages)
        return max(1, self._height - above - footer_height(self._height))

    def _pinned(self) -> list[int]:
        """The rows of what was drawn, and would be, where they are not among the first."""
        assert self._lines is not None
        candidates, was = self._lines.candidates, self._lines.was
        drawn = [candidates.draw.token_id, *([was.draw.token_id] if was is not None else [])]
        rows = [candidates.row_of(token_id) for token_id in dict.fromkeys(drawn)]
        return [row for row in rows if row is not None and row >= self._page]

    def _look(self, view: View, width: int) -> LadderRows | None:
        """The lines for this view; nothing is run again at a paint that changes nothing."""
        step, dense = view.step, view.dense
        vocabulary = view.log.vocabulary if dense is not None else None
        state = view.log.state.state if view.what_if is not None else None
        source = (step, dense, vocabulary, view.what_if, state)
        known = self._lines if source == self._source else None
        if known is not None:
            candidates, was = known.candidates, known.was
        else:
            found = candidates_of(view)
            if found is None or step is None:
                self._lines = self._source = None
                return None
            candidates, was = self._tried(view, found)
        if self._source is None or self._source[0] is not step:
            drawn = candidates.row_of(candidates.draw.token_id)
            self.selected = drawn if drawn is not None and drawn < self._page else 0
            self.scroll_to(y=0, animate=False)
        if known is None:
            self._why.clear()
        self._source = source
        made = plan(
            width, candidates.stages, candidates.total, self._first_stage, tried=was is not None
        )
        self._first_stage = made.before
        loading = step is not None and self._asked == step.node
        return LadderRows(candidates, made, tail(candidates, loading=loading), was)

    def _tried(
        self, view: View, recorded: CandidateRows
    ) -> tuple[CandidateRows, CandidateRows | None]:
        """(what to show, and the record beside it where that is something else)."""
        found = what_if(view)
        self._problem = found if isinstance(found, str) else ""
        self._run = found if isinstance(found, Run) else None
        return (recorded, None) if self._run is None else (self._run.candidates, recorded)

    # --- reasons ------------------------------------------------------------------------------

    def _explain_soon(self) -> None:
        """Look for the selected row's reasons once the selection has come to rest."""
        if self._soon is not None:
            self._soon.stop()
            self._soon = None
        if not (self._on_a_row and self.view.settled) or self._lines is None:
            return
        if self._lines.candidates[self.selected].token_id not in self._why:
            self._soon = self.set_timer(_PAUSE_S, self._explain)

    @property
    def resting(self) -> bool:
        """True if all that was to be explained is, but for what is still to be painted."""
        return self._soon is None and self.background.idle.is_set()

    def _explain(self) -> None:
        self._soon = None
        view, source, lines = self.view, self._source, self._lines
        if source is None or lines is None or not (self._on_a_row and view.settled):
            return
        if view.dense is None and view.step is not None:
            self.post_message(NeedDense(view.step.node))
        try:
            run = self._run or rerun(view)
        except SamplingError:
            return
        token_id = lines.candidates[self.selected].token_id
        find = partial(why, run, lines.candidates.draw, token_id, partial(token_of, view))
        self.background.submit(partial(self._find, source, token_id, find))

    def _find(self, source: Source, token_id: int, find: Callable[[], Why]) -> None:
        """In a thread of its own: some dials have a thousand values to try."""
        try:
            self.post_message(self.Explained(source, token_id, find()))
        except SamplingError as error:
            self.post_message(self.Explained(source, token_id, Why.failed(str(error))))

    @on(Explained)
    def _explained(self, message: Explained) -> None:
        if message.source == self._source:
            self._why[message.token_id] = message.why
            self.refresh_footer()

    # --- moving -------------------------------------------------------------------------------

    def token_id_of(self, row: int) -> int | None:
        """The token of a row; None for the line after the last one."""
        candidates = self._lines.candidates if self._lines is not None else ()
        return candidates[row].token_id if 0 <= row < len(candidates) else None

    def action_choose(self) -> None:
        if self.token_id_of(self.selected) is not None:
            super().action_choose()

    def action_stages(self, by: int) -> None:
        """Show the stages that did not fit."""
        self._first_stage = max(0, self._first_stage + by)
        self.rebuild()

    def select(self, row: int) -> None:
        super().select(row)
        if self._lines is not None and self.selected >= len(self._lines) - 1:
            self._need_rest()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if old_value < new_value and new_value >= self.max_scroll_y:
            self._need_rest()

    def _need_rest(self) -> None:
        step = self.view.step
        candidates = self._lines.candidates if self._lines is not None else None
        if step is None or not isinstance(candidates, Recorded) or candidates.note:
            return
        if self._asked != step.node and (
            candidates.total is None or candidates.total > len(candidates)
        ):
            self._asked = step.node
            self.post_message(NeedDense(step.node))
            self.rebuild()
