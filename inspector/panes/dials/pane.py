"""The sampler's dials: the chain at the cursor in its order, to be turned and looked at.

Nothing here changes the run. Every turn posts ``Try`` with another chain, which the other panes
then show; ``a`` makes it the run's own. The rest of the table is the settings in force: every dial
there is, its value, and where the value came from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from textual.content import Content
from textual.events import Blur, Key, Paste
from textual.geometry import Size

from engine.records.events import SettingsChanged
from engine.records.round import DraftSettings
from engine.sampling.chain import PRESETS, Chain
from engine.sampling.stages import STAGES, Value
from inspector import keys
from inspector.draw.numbers import cut, muted
from inspector.messages import Draft, Try
from inspector.modal import modal_open
from inspector.panes.dials import drafts
from inspector.panes.dials.drafts import SOURCE, beside, set_to
from inspector.panes.dials.rows import (
    Columns,
    DialRow,
    DialTable,
    chain_in,
    columns,
    stage_line,
    titles,
)
from inspector.panes.dials.scales import moved, scale_of, started, value_at
from inspector.panes.dials.words import dial_words, hints, outcome, stage_words
from inspector.state.replay_client import REFUSAL
from inspector.state.view import View
from inspector.state.whatif import (
    absent_stages,
    as_recorded,
    hypothetical,
    inserted,
    parsed,
    recorded_chain,
    settings_at,
    shifted,
    stage_in,
    turned,
    value_in,
    without,
)
from inspector.widgets.line_view import Pane
from inspector.widgets.picture import DENSE, Picture

_NOT_HERE = " this chain runs in the engine only: nothing can be tried on it"
_TALL, _LOW = 11, 5
"""Pane heights from which there are a head and three lines below, or two; else one."""


@dataclass(frozen=True)
class DialsUI:
    """State of the pane."""

    selected: int = 0
    inserting: bool = False
    """True while the list of stages that could be put in is open."""
    typed: str | None = None
    """Text that is being written in place of the selected dial's value."""
    error: str = ""
    drafting: DraftSettings | None = None
    """Drafts that were asked for and that the engine has not told of yet."""


def draw(view: View, size: Size, ui: DialsUI = DialsUI()) -> Picture:
    """The pane."""
    (width, height), table, chain = size, DialTable.of(view, ui.drafting), chain_in(view)
    header = [titles(columns(width), width)]
    if ui.inserting and chain is not None:
        stages = absent_stages(chain)
        header = [Content.styled(cut(Content("   stage to put in"), width).plain, "$title")]
        rows = [stage_line(name, width) for name in stages]
        about = stage_words(stages[ui.selected : ui.selected + 1])
    else:
        row = table.at(ui.selected)
        rows = table.lines(width, row.dial.name if row is not None else "", ui.typed)
        if not table.entries:
            known = view.settings is not None or view.step is not None
            rows = [muted(_NOT_HERE if known else " no settings yet")]
        settings = settings_at(view)
        notes = settings.notes if settings is not None else ()
        about = dial_words(row, notes) if row is not None else Content("")
    footer = [cut(outcome(view, ui.error), width), cut(about, width)]
    footer.append(hints(view, width, writing=ui.typed is not None))
    return Picture(
        rows,
        header if height >= _TALL else (),
        footer[: 1 + (height >= _LOW) + (height >= _TALL)],
        subtitle="" if chain is None else f"{chain.preset}: {PRESETS[chain.preset].title}",
        follow=ui.selected,
        tries=hypothetical(view),
        wants=[DENSE],
    )


class DialsPane(Pane):
    """The dials. ``turn`` is for the screen, whose keys work from any pane."""

    NAME = "Dials"
    SELECTABLE = True
    HELP = """
Try other sampler settings on the token under the cursor. The ladder shows at once what they would
have done with **the same logits and the same dice**; no pass is run, and the record stays as it
is. Walk through the text with **b** and **n**: what is tried is tried there too.

**up**, **down** choose a dial. **-** **+** turn it, **<** **>** turn it far. **enter**, or a
digit, writes a value. **0** puts it back as recorded. **i** puts a stage in, **t** takes one out,
**{** **}** move it earlier or later.

**a** lets the run go on with these settings from the next token, **A** from this one. **V** shows
both side by side, as columns that go on from here. **s** closes the dials and drops what was tried.

Before a dial's name: **\\*** differs from the record, **+** put in, **✂** taken out, **!** a value
in use that nobody asked for.
"""
    BINDINGS = [*keys.TRYING, *keys.DIALS]

    def __init__(self, *, id: str | None = None, number: int | str | None = None) -> None:
        super().__init__(id=id, number=number)
        self._dial = ""
        self._inserting = False
        self._typed: str | None = None
        self._error = ""
        self._asked: Try | None = None
        # Drafts that were asked for, and the newest settings that the engine had told of then.
        self._drafting: tuple[DraftSettings, SettingsChanged | None] | None = None

    def picture(self, view: View, size: Size) -> Picture:
        self._keep_chosen()
        drafting = self._drafting[0] if self._drafting is not None else None
        ui = DialsUI(self.selected, self._inserting, self._typed, self._error, drafting)
        return draw(view, size, ui)

    def _keep_chosen(self) -> None:
        """The chosen dial stays chosen where its row moves."""
        if self._stages is not None:
            return
        line, row = self._table.line_of(self._dial), self._row
        if line is not None:
            self.selected = line
        elif row is not None:
            self._dial = row.dial.name

    @property
    def _chain(self) -> Chain | None:
        return chain_in(self.view)

    @property
    def _stages(self) -> list[str] | None:
        return absent_stages(self._chain) if self._inserting and self._chain else None

    # --- which row ----------------------------------------------------------------------------

    @property
    def _table(self) -> DialTable:
        return DialTable.of(self.view, self._drafting[0] if self._drafting is not None else None)

    @property
    def _row(self) -> DialRow | None:
        """The chosen dial; None on a heading, and in the list of stages."""
        return None if self._stages is not None else self._table.at(self.selected)

    def select(self, row: int) -> None:
        if self._stages is None and self._table.is_heading(row):
            row += 1 if row >= self.selected else -1
        if row != self.selected:
            self._stop_writing()
        self.selected = max(0, min(row, len(self.drawn.rows) - 1))
        chosen = self._row
        self._dial = chosen.dial.name if chosen is not None else ""
        super().select(row)

    def clicked(self, row: int, x: int) -> None:
        at = columns(self.scrollable_content_region.width)
        if self._typed is not None:
            pointed = self._table.at(row)
            if row == self.selected and at.value_at <= x < self._editor_end(at):
                return
            # What is written counts, as with enter; its stage may be put in above this row.
            self._written(self._typed)
            if self._typed is not None or pointed is None:
                self.rebuild()
                return
            row = self._table.line_of(pointed.dial.name) or 0
        self.select(row)
        chosen = self._row
        if self._stages is not None or chosen is None:
            if self._stages is not None:
                self.action_choose()
        elif at.buttons and chosen.turns and x in (at.minus, at.plus):
            self.turn(1 if x == at.plus else -1)
        elif at.value_at <= x < at.value_at + at.value:
            self.action_choose()
        elif chosen.core and chosen.dial.numeric and 0 <= x - at.track_at < at.track:
            share = (x - at.track_at) / max(1, at.track - 1)
            self._turn_to(chosen, value_at(chosen.dial, share))

    def double_clicked(self, row: int, x: int) -> None:
        # Two clicks on a button are two turns.
        self.clicked(row, x)

    # --- turning ------------------------------------------------------------------------------

    def turn(self, steps: int, *, far: bool = False) -> None:
        """Turn the chosen dial; where its stage is in no chain, put it in first."""
        row, chain = self._row, self._chain
        if row is None or chain is None:
            return
        self._stop_writing()
        if not row.turns:
            self.action_choose()
        elif not row.dial.numeric:
            self._turn_to(row, beside(row.dial, row.value, steps, self.view))
        elif row.drafts:
            self._turn_to(row, moved(row.dial, row.value, steps, far=far))
        elif stage_in(chain, row.stage) is None:
            self._turn_to(row, started(row.dial, row.value, row.was, steps, far=far))
        else:
            self._turn_to(row, moved(row.dial, row.value, steps, far=far))

    def _turn_to(self, row: DialRow, value: Value) -> None:
        chain = self._chain
        if row.drafts:
            self._draft(row, value)
        elif chain is not None:
            self._try(lambda: turned(chain, row.dial.name, value))

    def _draft(self, row: DialRow, value: Value) -> None:
        """Ask for other drafts. There is nothing to try: by the rule the tokens stay the same."""
        told = self.view.settings
        if not self.view.log.can_measure:
            self._error = REFUSAL
        elif told is not None:
            now = self._drafting[0] if self._drafting is not None else told.draft
            self._drafting = set_to(now, row.dial, value), told
            self.post_message(Draft(self._drafting[0]))
        self.rebuild()

    def _try(self, change: Callable[[], Chain]) -> None:
        """Post another chain, unless a value is not possible."""
        self._error = ""
        try:
            chain = change()
        except ValueError as error:
            self._error = str(error)
            self.rebuild()
            return
        tried = None if chain == recorded_chain(self.view) else chain
        # The next key may come before the answer: it must turn what this one has turned. Painted
        # is with the answer: a frame before it would hold it up.
        self.view = replace(self.view, what_if=tried)
        self._keep_chosen()
        self._asked = Try(tried)
        self.post_message(self._asked)

    def show(self, view: View) -> None:
        if self._asked is not None and not self._asked.taken:
            # A picture of what was tried before: the keys pressed since are on their way.
            view = replace(view, what_if=self._asked.chain)
        if self._drafting is not None and view.settings is not self._drafting[1]:
            self._drafting = None
        super().show(view)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("reset", "insert", "out", "shift") and modal_open(self.app):
            return False
        return super().check_action(action, parameters)

    def action_reset(self) -> None:
        """The dial as recorded; once it is, its stage: its place, or whether it is there."""
        row, chain, recorded = self._row, self._chain, recorded_chain(self.view)
        if row is None or chain is None or recorded is None or row.drafts:
            return
        old, now = value_in(recorded, row.dial.name), value_in(chain, row.dial.name)
        if old is not None and now is not None and old != now:
            self._try(lambda: turned(chain, row.dial.name, old))
        else:
            self._try(lambda: as_recorded(chain, recorded, row.stage))

    def action_out(self) -> None:
        """Take the stage out of the chain, or put it back as it was."""
        row, chain, recorded = self._row, self._chain, recorded_chain(self.view)
        if row is None or chain is None:
            return
        if row.drafts:
            self._draft(replace(row, dial=SOURCE), "")
        elif stage_in(chain, row.stage) is not None:
            self._try(lambda: without(chain, row.stage))
        elif recorded is not None and stage_in(recorded, row.stage) is not None:
            self._try(lambda: as_recorded(chain, recorded, row.stage))

    def action_shift(self, by: int) -> None:
        row, chain = self._row, self._chain
        if row is not None and chain is not None and not row.drafts:
            self._try(lambda: shifted(chain, row.stage, by))

    def action_insert(self) -> None:
        """Open the list of stages that are not in the chain, or close it."""
        if self._chain is None:
            return
        self._stop_writing()
        self._inserting = not self._inserting
        self.selected = 0
        self.scroll_to(y=0, animate=False)
        self.rebuild()

    def action_choose(self) -> None:
        """Write the value of the dial; in the list of stages, put the chosen one in."""
        chain, stages = self._chain, self._stages
        if chain is not None and stages is not None and self.selected < len(stages):
            name = stages[self.selected]
            first = STAGES[name].dials[0]
            values = {first.name: scale_of(first).start} if first.numeric else {}
            self._inserting, self._dial = False, first.name
            self._try(lambda: inserted(chain, name, values))
            if not first.numeric:
                self._typed = ""
        elif self._row is not None:
            self._typed = "" if self._row.dial.numeric else str(self._row.value)
            self.rebuild()

    # --- writing a value ----------------------------------------------------------------------

    def _editor_end(self, at: Columns) -> int:
        """The cell after the text that is being written."""
        row = self._row
        return at.value_at + at.editor(row.dial) if row is not None else at.value_at

    def _stop_writing(self) -> None:
        self._typed, self._error = None, ""

    def on_blur(self, event: Blur) -> None:
        if self._typed is not None:
            self._stop_writing()
            self.rebuild()

    def on_paste(self, event: Paste) -> None:
        if self._typed is not None:
            event.stop()
            self._typed += event.text
            self.rebuild()

    def on_key(self, event: Key) -> None:
        """While a value is written, keys are letters; a digit begins one."""
        row = self._row
        if self._typed is None:
            digit = event.character is not None and event.character in "123456789."
            if not digit or row is None:
                return
            self._typed = ""
        event.stop()
        event.prevent_default()
        self._error = ""
        if event.key in ("enter", "up", "down"):
            self._written(self._typed)
        elif event.key == "backspace" and self._typed:
            self._typed = self._typed[:-1]
        elif event.key in ("escape", "backspace", "tab", "shift+tab"):
            self._stop_writing()
        elif event.is_printable and event.character is not None:
            self._typed += event.character
        self.rebuild()

    def _written(self, text: str) -> None:
        """Take the value that was written. An empty one leaves a number as it was."""
        row, chain = self._row, self._chain
        if row is None or chain is None or (row.dial.numeric and not text.strip()):
            self._stop_writing()
            return
        if row.drafts:
            self._draft_written(row, text)
            return
        vocabulary = self.view.log.vocabulary
        self._try(lambda: turned(chain, row.dial.name, parsed(row.dial.name, text, vocabulary)))
        if not self._error:
            self._typed = None

    def _draft_written(self, row: DialRow, text: str) -> None:
        self._stop_writing()
        try:
            value = drafts.parsed(row.dial, text)
        except ValueError as error:
            self._typed, self._error = text, str(error)
        else:
            self._draft(row, value)
