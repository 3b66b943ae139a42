"""The ladder as a widget: its keys, and what it asks the engine for."""

from __future__ import annotations

from dataclasses import replace

from textual.binding import Binding
from textual.geometry import Size

from inspector.messages import NeedDense, NeedNext
from inspector.panes.ladder.draw import LadderUI, draw
from inspector.panes.ladder.reasons import Reasons
from inspector.panes.ladder.rows import LadderRows
from inspector.state.candidates import Recorded
from inspector.state.view import View
from inspector.widgets.line_view import Pane
from inspector.widgets.picture import NEXT, Picture


class LadderPane(Pane):
    """The ladder at the cursor. ``Chosen`` names a row; ``token_id_of`` tells its token.

    Posts ``NeedDense`` when the user comes to the end of what the record holds, and when the
    reasons for a row cannot be told without.
    """

    NAME = "Ladder"
    SELECTABLE = True
    HELP = """
Each column is a stage of the sampler, in its order; each row is a candidate, in the model's own
order. **✂** marks the stage that cut a token. **●** is the token that was drawn.

The lines below say why the selected candidate lived or died, and the smallest change that would
have saved it. For the drawn token they say how near the dice were to another one.

**s** opens the sampler's dials. What is tried there is drawn here at once: **○** is what the same
dice would draw, **+** a token that is now kept, **−** one that is now cut, **▲ ▼** more or less
likely than in the record.

At the prompt, and everywhere once **.** is pressed, it shows what the next token will be drawn
from. Nothing is drawn for that: **n** does, and **enter** forces the selected one.
"""

    BINDINGS = [
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
        Binding(
            "full_stop",
            "next",
            "Next token",
            show=False,
            key_display=".",
            id="ladder.next",
            tooltip="The candidates of the token after the cursor, before it is drawn; or its own",
        ),
    ]

    def __init__(self, *, id: str | None = None, number: int | str | None = None) -> None:
        super().__init__(id=id, number=number)
        self._ui = LadderUI()
        self.reasons = Reasons(self)

    def on_unmount(self) -> None:
        self.reasons.close()

    @property
    def _rows(self) -> LadderRows | None:
        return self.drawn.rows if isinstance(self.drawn.rows, LadderRows) else None

    def picture(self, view: View, size: Size) -> Picture:
        ui = replace(self._ui, selected=self.selected, reasons=self.reasons.found)
        found = draw(view, size, ui)
        drawn = None
        if isinstance(found.rows, LadderRows):
            drawn = found.rows.candidates.row_of(found.rows.candidates.draw.token_id)
        self._ui = replace(ui, before=view.step, drawn=drawn)
        self.reasons.want(found.wants)
        return found

    def token_id_of(self, row: int) -> int | None:
        """The token of a row; None for the line after the last one."""
        candidates = self._rows.candidates if self._rows is not None else ()
        return candidates[row].token_id if 0 <= row < len(candidates) else None

    def action_choose(self) -> None:
        if self.token_id_of(self.selected) is not None:
            super().action_choose()

    def action_stages(self, by: int) -> None:
        """Show the stages that did not fit."""
        if self._rows is not None:
            self._ui = replace(self._ui, first_stage=max(0, self._rows.plan.before + by))
            self.rebuild()

    def action_next(self) -> None:
        """Show what the next token will be drawn from; or how the cursor's was drawn."""
        self._ui = replace(self._ui, next=not self._ui.next, before=None)
        self.selected = 0
        self.rebuild()
        if NEXT in self.drawn.wants and self.view.settled:
            self.post_message(NeedNext(self.view.cursor))

    @property
    def shows_next(self) -> bool:
        """True if the rows are those of the token after the cursor."""
        return self._ui.next

    def select(self, row: int) -> None:
        super().select(row)
        if self.selected == len(self.drawn.rows) - 1:
            self._need_rest()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if old_value < new_value and new_value >= self.max_scroll_y:
            self._need_rest()

    def _need_rest(self) -> None:
        step = self.view.step
        candidates = self._rows.candidates if self._rows is not None else None
        if step is None or not isinstance(candidates, Recorded) or candidates.note:
            return
        if self.shows_next:
            return
        some = candidates.total is None or candidates.total > len(candidates)
        if some and self._ui.asked != step.node:
            self._ui = replace(self._ui, asked=step.node)
            self.post_message(NeedDense(step.node))
            self.rebuild()
