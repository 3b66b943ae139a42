"""Looks for the reasons of the ladder's selected candidate, in the background."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from textual.timer import Timer

from engine.sampling.candidates import SamplingError
from inspector.background import Background
from inspector.messages import NeedDense
from inspector.panes.ladder.draw import Explain, Shown
from inspector.panes.ladder.why import Why, why
from inspector.state.rerun import Run, rerun, token_of
from inspector.widgets.line_view import Pane
from inspector.widgets.picture import Want

_PAUSE_S = 0.3
"""So long nothing may change before reasons are looked for: longer than between two keys."""


class Reasons:
    """The reasons found for some candidates; of what is wanted, the newest is looked for.

    ``pane`` is drawn again when some are found; through it ``NeedDense`` is posted where the
    record does not hold enough.
    """

    def __init__(self, pane: Pane) -> None:
        self._pane = pane
        self._soon: Timer | None = None
        self._background = Background("explain")
        self._of: Shown | None = None
        self.found: dict[tuple[Shown, int], Why] = {}
        """By the candidates and the token's id."""

    def want(self, wants: Sequence[Want]) -> None:
        """Look for what is wanted once that has not changed for a while."""
        if self._soon is not None:
            self._soon.stop()
            self._soon = None
        for want in wants:
            if isinstance(want, Explain):
                if want.shown is not self._of:
                    self._of, self.found = want.shown, {}
                self._soon = self._pane.set_timer(_PAUSE_S, partial(self._look, want))

    @property
    def resting(self) -> bool:
        """True if all that was wanted is found, or about to be drawn."""
        return self._soon is None and self._background.idle.is_set()

    def close(self) -> None:
        self._background.close()

    def _look(self, want: Explain) -> None:
        self._soon = None
        view = want.view
        if not view.settled:
            return
        if view.dense is None:
            self._pane.post_message(NeedDense(view.cursor))
        try:
            run = want.shown.run or rerun(view)
        except SamplingError:
            return
        self._background.submit(partial(self._find, want, run))

    def _find(self, want: Explain, run: Run) -> None:
        """In a thread of its own: some dials have a thousand values to try."""
        drawn, name = want.shown.candidates.draw, partial(token_of, want.view)
        try:
            found = why(run, drawn, want.token_id, name)
        except SamplingError as error:
            found = Why.failed(str(error))
        self._pane.call_later(self._take, want, found)

    def _take(self, want: Explain, found: Why) -> None:
        if want.shown is self._of:
            self.found[want.shown, want.token_id] = found
            self._pane.rebuild()
