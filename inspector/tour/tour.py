"""Going from stop to stop: the cursor to the place, the eye to the pane, the words to the strip."""

from __future__ import annotations

from collections.abc import Callable

from textual.content import Content

from inspector.actions.host import Host
from inspector.panes.registry import PANES
from inspector.tour import facts
from inspector.tour.stops import STOPS, Stop
from inspector.widgets.line_view import Pane
from inspector.widgets.tour_strip import TourStrip
from sessions.reader import Session, open_session

POINTED_AT = "-tour"
"""Class of the pane that the stop speaks of."""


class Tour:
    """A tour of the run that is on the screen, and of other examples that ``show`` puts there.

    Stops that this run has no place for are left out, and those in other examples where a model
    has this run. ``begin`` needs the records of the run.
    """

    def __init__(self, host: Host, show: Callable[[Session], None]) -> None:
        self._host = host
        self._show = show
        self._example = STOPS[0].example
        self._places: dict[str, int] = {}
        self._figures: dict[str, str] = {}
        self.stops: tuple[Stop, ...] = ()
        self.index = 0

    def begin(self) -> None:
        self._look()
        others = not self._host.engine.can_run
        self.stops = tuple(
            stop
            for stop in STOPS
            if (stop.at in self._places if stop.example == self._example else others)
        )
        self.move(0)

    def _look(self) -> None:
        """Find the places and figures of the recording that is on the screen."""
        log = self._host.controller.log
        if log.columns.columns:
            # Only one example needs it, and the first screen must be up at once.
            from inspector.tour import columns

            self._places, self._figures = columns.places(log), columns.figures(log)
        else:
            self._places = facts.places(log)
            self._figures = facts.figures(log, self._places)

    @property
    def stop(self) -> Stop:
        return self.stops[self.index]

    def move(self, by: int) -> None:
        """Go ``by`` stops further; the first and the last are the ends."""
        self.index = max(0, min(len(self.stops) - 1, self.index + by))
        host, stop, debugger = self._host, self.stop, self._host.debugger
        while debugger.step_out():
            pass
        if stop.example != self._example:
            from sessions.examples import example

            self._show(open_session(example(stop.example)))
            self._example = stop.example
            self._look()
        host.controller.cursor.go_to(self._places[stop.at])
        host.paint()
        names = [one.name for one in PANES]
        debugger.action_focus_pane(names.index(stop.pane) + 1)
        for pane in debugger.query(Pane):
            pane.set_class(pane.id == stop.pane, POINTED_AT)
        debugger.query_one(TourStrip).tell(self.words())

    def words(self) -> Content:
        """The strip's text: where one is, what is to be seen, what to press."""
        stop, key = self.stop, "bold $footer-key-foreground"
        return Content.assemble(
            (f"{self.index + 1}/{len(self.stops)} {stop.title}", "bold $accent"),
            f"  {stop.says.format(**self._figures)}\n",
            ("press ", "$title"),
            (stop.press, key),
            (f" {stop.shows}  ", "$title"),
            (")", key),
            (" next  ", "$title"),
            ("(", key),
            (" before  ", "$title"),
            ("q", key),
            (" ends", "$title"),
        )
