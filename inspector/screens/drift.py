"""Drift of the cursor's logits: other ways of reading the same text, compared.

Bit-equality is not claimed: what is shown is how far the ways lie apart, and whether it would have
made another token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget

from engine.records.measured import MEASURING_DRIFT, Drift, DriftMeasured, DriftRow
from engine.run.tree import ROOT
from engine.text import visible
from inspector.draw.cells import left, right, token_text
from inspector.draw.numbers import (
    NOTHING,
    Mark,
    cut,
    known,
    marked,
    muted,
    nothing,
    plural,
    three,
    wrapped,
)
from inspector.modal import is_closed
from inspector.screens.dialog import Dialog
from inspector.state.view import RunLog
from inspector.widgets.lines import Lines

_LABEL = 31
_FIGURE = 10
_WIDE = 72
"""Cells from which on a row is one line."""
_PLAINLY = (
    "The same text, read in another way, gives slightly other logits: sums round differently. "
    "It matters only where two tokens are nearly as likely."
)
_DEFINED = (
    "max |Δ|: largest difference of a logit. KL(fresh read, this way), in nats. lead: of the top "
    "token over the next one, in logits. close: the fresh read's lead is at most twice max |Δ|, "
    "so that a difference of this size can decide which token is on top. ƒ: derived, from the "
    "logits of both reads."
)


def exact(value: float) -> str:
    """A difference, however small: ``0.0312``, ``1.4e-6``, and 0 only for none at all."""
    if not known(value):
        return NOTHING
    if value == 0 or value >= 0.001:
        return "0" if value == 0 else three(value)
    digits, _, power = f"{value:.1e}".partition("e")
    return f"{digits}e{int(power)}"


def verdict(drift: Drift) -> str:
    """The effect of a drift on the most likely token: ``same``, ``close`` or ``FLIPS``."""
    return "FLIPS" if drift.flips else "close" if drift.close else "same"


_STYLES = {"FLIPS": "$error bold", "close": "$warning bold", "same": "$success"}


def drift_lines(measured: DriftMeasured, width: int) -> list[Content]:
    """The measurement as a table, and what its figures mean."""
    lead = next((row.drift.margin for row in measured.rows if row.drift), None)
    ahead = muted(" leads by ") + marked(exact(lead), Mark.DERIVED) if lead is not None else ""
    how = visible(measured.reference)
    lines = [
        *wrapped("", 0, width, f"fresh read of {plural(measured.positions, 'token')}: {how}"),
        cut(Content("  ") + token_text(measured.top) + ahead, width),
        Content(""),
    ]
    head = left("held against it", _LABEL) + "".join(
        right(name, _FIGURE) for name in ("max |Δ| ƒ", "KL ƒ", "lead ƒ")
    )
    if width >= _WIDE:
        lines.append(cut(muted(f"{head}  {left('token', 7)}top"), width))
    else:
        lines.append(cut(muted(f"{head[_LABEL:]}  token"), width))
    for row in measured.rows:
        lines += _row(row, width)
    for text in (_PLAINLY, _DEFINED):
        lines += [Content(""), *wrapped("", 0, width, text)]
    return lines


def _row(row: DriftRow, width: int) -> list[Content]:
    label = visible(row.label)
    if row.drift is None:
        if width >= _WIDE:
            return [cut(Content(left(label, _LABEL)) + nothing(visible(row.obstacle)), width)]
        return [cut(Content(label), width), cut(nothing(visible(row.obstacle)), width)]
    found = row.drift
    figures = "".join(
        right(exact(value), _FIGURE) for value in (found.max_abs, found.kl, found.other_margin)
    )
    word = verdict(found)
    told = Content.assemble(figures, "  ", (left(word, 7), _STYLES[word])) + token_text(row.top)
    if width >= _WIDE:
        return [cut(Content(left(label, _LABEL)) + told, width)]
    return [cut(Content(label), width), cut(told, width)]


class DriftScreen(Dialog[None]):
    """The drift of one node. ``ask`` has it measured; None where there is no engine to do that."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d,q", "close", "Close", id="drift.close", tooltip="Back to where you were"),
        Binding("r", "again", "Measure again", id="drift.again", tooltip="Read it all once more"),
    ]

    def __init__(self, log: RunLog, node: int, ask: Callable[[], None] | None) -> None:
        what = "after the prompt" if node == ROOT else "that the cursor's token was drawn from"
        super().__init__(Content(f"Drift of the logits {what}"))
        self._log = log
        self._node = node
        self._ask = ask
        self._before = log.error
        self._waiting_for: DriftMeasured | None = None
        self._waits = False

    def body(self) -> Iterable[Widget]:
        yield Lines(self._shown)

    def on_mount(self) -> None:
        if not is_closed(self) and self._node not in self._log.drifts:
            self.action_again()

    def action_again(self) -> None:
        if self._ask is not None and (not self._waits or self._failed):
            self._before, self._waits = self._log.error, True
            self._waiting_for = self._log.drifts.get(self._node)
            self._ask()
            self.query_one(Lines).refresh(layout=True)

    def heard(self, log: RunLog) -> None:
        if self._waits and log.drifts.get(self._node) is not self._waiting_for:
            self._waits = False
        if self.is_mounted:
            self.query_one(Lines).refresh(layout=True)

    @property
    def _failed(self) -> bool:
        """True if an error came instead of the answer."""
        return self._log.error is not None and self._log.error is not self._before

    def _shown(self, width: int) -> list[Content]:
        found, log = self._log.drifts.get(self._node), self._log
        if self._waits:
            if log.error is not None and self._failed:
                return wrapped("", 0, width, visible(log.error.message))
            return wrapped("", 0, width, self._progress())
        return drift_lines(found, width) if found is not None else []

    def _progress(self) -> str:
        now = self._log.loading
        if now is None or now.phase != MEASURING_DRIFT:
            return "… the engine is asked to read the text again"
        share = f" {now.fraction * 100:.0f}%" if now.fraction is not None else ""
        return f"… reading the text again{share}: {visible(now.detail)}"
