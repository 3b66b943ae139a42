"""One column of the compare screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from textual.content import Content
from textual.geometry import Size

from engine.text import visible
from inspector.draw.numbers import Mark, fit, muted, plural, right
from inspector.messages import GoTo
from inspector.panes.transcript.pane import Transcript, not_read
from inspector.panes.transcript.text_layout import TextLayout
from inspector.screens.compare.text import TokenRows, running
from inspector.state.columns import ColumnView
from inspector.state.view import View
from inspector.widgets.line_view import Pane
from inspector.widgets.picture import Picture

_ERROR_LINES = 4


@dataclass(frozen=True)
class ColumnUI:
    """State of a column beside its text."""

    title: str = ""
    parting: int | None = None
    """Tokens before the first one that differs."""
    other: Sequence[int] = ()
    """Ids of the column that it is held against."""
    paused: bool = False
    waiting: bool = False
    """True if it is to go on while others catch up, or a pass runs."""
    error: str = ""
    chosen: bool = False
    """True if the panes below show this column."""
    aligned: bool = False
    """True for a row a token instead of running text."""
    layout: TextLayout | None = None


def draw(view: ColumnView, size: Size, ui: ColumnUI = ColumnUI()) -> Picture:
    """The column."""
    footer = _below(view, ui, size.width)
    remark = f"{'▸ ' if ui.chosen else ''}{visible(ui.title)}"
    if ui.aligned and view.prompt is not None:
        rows = TokenRows(view, size.width, ui.other, ui.parting)
        follow = max(0, len(view.path) - 1)
        header = [right(muted(f"nats {Mark.DERIVED}"), size.width)]
        return Picture(rows, header, footer, remark=remark, follow=follow)
    text = running(view, size.width, ui.layout, ui.parting)
    if text is None:
        return Picture(not_read(view.log.asked, size.width), footer=footer, remark=remark)
    follow = text.cursor_line + bool(text.end)
    return Picture(text, footer=footer, remark=remark, follow=follow)


def _below(view: ColumnView, ui: ColumnUI, width: int) -> list[Content]:
    """Lines below the text: the state of the column, its length, its token at the cursor."""
    if ui.error:
        words = Content.styled(f"✗ {visible(ui.error)}", "$error")
        return words.wrap(max(8, width))[:_ERROR_LINES]
    count = len(view.branch)
    step = view.log.nodes.get(view.tip) if count else None
    state, style = ("▶ runs", "$success") if ui.waiting else ("○ ready", "$title")
    if view.facts is None:
        state, style = "◌ no model yet", "$title"
    elif step is not None and step.stop is not None and not ui.waiting:
        state, style = f"■ {step.stop.kind.value.replace('_', ' ')}", "$accent"
    elif ui.paused:
        state, style = "‖ paused", "$warning"
    behind = f" of {count:,}" if len(view.path) < count else ""
    short = f" · {len(view.path):,}{behind}"
    here = f"{short} {'token' if count == 1 else 'tokens'}"
    now, shown = view.step, Content.styled(state, style)
    told: tuple[str, ...] = (here,)
    if now is not None:
        nats = f" · {now.surprisal:.2f} nats {Mark.DERIVED}"
        told = (f"{here}{nats}, rank {now.rank:,}", here + nats, short + nats, here)
    return [fit(width, *(shown + muted(one) for one in told))]


class ColumnPane(Pane):
    """The text of one column. A click on a token moves all cursors there."""

    NAME = "Column"
    HELP = """
A **column** is a branch of the run with settings, a seed and a cursor of its own. All columns step
together, one token each from **one pass** of the model. **≠** marks the first token that differs
from the first column's; the shade is the token's surprisal.

With **the same dice** (the default) all columns use the same random number at the same position,
so that what differs is the settings' doing. **t** puts a row a token, so that positions stand side
by side.
"""

    def __init__(self, letter: str, place: int) -> None:
        super().__init__(id=f"column-{place}")
        self._title = Content(f"{place + 1} {letter}")
        self.place = place
        self.ui = ColumnUI()
        self._seen: tuple[object, ...] = ()
        # The last two: zoomed, a column has another width.
        self._layouts: dict[int, TextLayout] = {}

    def show_column(self, view: ColumnView, ui: ColumnUI) -> None:
        """Draw this from now on, where it is not what is drawn already."""
        facts = view.facts is None, view.prompt is None, len(ui.other)
        seen = (view.cursor, view.tip, *facts, replace(ui, other=(), layout=None))
        if seen != self._seen:
            self._seen, self.ui = seen, ui
            self.show(view)

    def picture(self, view: View, size: Size) -> Picture:
        if not isinstance(view, ColumnView):
            return Picture([muted(plural(0, "token"))])
        found = draw(view, size, replace(self.ui, layout=self._layouts.pop(size.width, None)))
        if isinstance(found.rows, Transcript):
            self._layouts[size.width] = found.rows.layout
            self._layouts = dict([*self._layouts.items()][-2:])
        return found

    def clicked(self, row: int, x: int) -> None:
        rows = self.drawn.rows
        if isinstance(rows, TokenRows):
            self.post_message(GoTo(rows.view.branch.node(row)))
        elif isinstance(rows, Transcript):
            index = rows.token_at(row, x)
            if index is not None:
                self.post_message(GoTo(rows.layout.items[index].node))
