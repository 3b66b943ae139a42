"""The app's keys for what is measured on demand, beside the run: drift, and the cache's worth."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from textual.app import App
from textual.binding import BindingType

from inspector.keys import MEASURING
from inspector.modal import modal_open
from inspector.screens.drift import DriftScreen
from inspector.state.controller import Controller


class MeasuringApp(App[None]):
    """Asks the engine for measurements, and shows what comes of them."""

    BINDINGS: ClassVar[list[BindingType]] = list(MEASURING)

    controller: Controller

    def paint(self) -> None:
        """Show the run as it is now."""
        raise NotImplementedError

    def say(self, line: str, *, warn: bool = False) -> None:
        """Show a line for a while."""
        raise NotImplementedError

    @property
    def can_run(self) -> bool:
        """True if there is an engine to measure with, and not only a recording."""
        raise NotImplementedError

    def action_drift(self) -> None:
        """Show how far the cursor's logits lie from a fresh read's; measure it where it was not."""
        controller = self.controller
        log, node = controller.log, controller.cursor
        if node not in log.drifts and not self._measurable():
            return
        ask = partial(controller.measure_drift, node) if self.can_run else None
        self.push_screen(DriftScreen(log, node, ask))

    def action_compare_cache(self) -> None:
        """Have the cursor's branch timed with a cache and without; the gauges draw the answer."""
        if self._measurable():
            self.controller.measure_curves()
            self.say("timing this branch with a cache and without: the gauges draw it")

    def action_measure_ceilings(self) -> None:
        """Have this machine's ceilings measured, which the gauges hold the run's speed against."""
        log = self.controller.log
        if not self.can_run:
            self.say("a recording has no engine that could measure (--live attaches one)")
        elif log.facts is None:
            self.say("no model is loaded yet: its dtype decides what is measured", warn=True)
        else:
            self.controller.measure_ceilings()
            if log.ceilings_awaited:
                self.say("this machine is measured once the run has stopped (space pauses it)")
            self.paint()

    def _measurable(self) -> bool:
        log = self.controller.log
        if not self.can_run:
            self.say("this was not measured, and a recording has no model (--live attaches one)")
            return False
        if log.prefill is None or not log.prefill.done:
            self.say("the prompt has not been read yet: n reads it", warn=True)
            return False
        return True

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        # While a window asks something, another must not open above it.
        if action in ("drift", "compare_cache", "measure_ceilings"):
            return not modal_open(self)
        return super().check_action(action, parameters)
