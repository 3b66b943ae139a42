"""The keys for what is measured on demand, beside the run: drift, the cache's worth, ceilings."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from engine.bill.prices import PriceError, PriceList
from engine.commands import MeasureCurves, MeasureDrift, MeasureModules
from engine.napkin.library import Library, NapkinError
from engine.plain_files import reason
from engine.records.measured import SERVERS_MACHINE, CacheCurves, Ceilings, Measured
from engine.records.model import ModelFacts
from inspector.actions.host import Host
from inspector.draw.numbers import ms, plural
from inspector.panes.ceilings import too_low
from inspector.screens.drift import DriftScreen
from inspector.screens.napkin import NapkinScreen, line_of
from inspector.state.ceilings import Known, merged
from inspector.state.own_files import napkin_file, prices_file

QUIET, MOST_QUIET = 2, 64
"""Ticks without any work after which the machine is measured unasked, at first and at most."""


def worth_of_cache(curves: CacheCurves | None) -> str:
    """Cost of one token with the cache and without it, at the longest text that was timed."""
    if curves is None or not curves.lengths:
        return f"nothing was timed: {curves.note}" if curves is not None else "nothing was timed"
    on, off = curves.with_ms[-1], curves.without_ms[-1]
    times = f", {off / on:.1f} ƒ times as long" if on > 0 else ""
    at = plural(curves.lengths[-1], "position")
    return (
        f"a token at {at}: {ms(on)} • with the cache, {ms(off)} • without{times} (gauges: curves)"
    )


class Measurements:
    """Asks the engine for measurements, and shows what comes of them."""

    def __init__(
        self,
        host: Host,
        find: Callable[[ModelFacts], Known | None],
        keep: Callable[[ModelFacts, Ceilings], None],
    ) -> None:
        """``find`` and ``keep`` what this machine can do at best; ``keep`` raises OSError."""
        self._host = host
        self.find = find
        self.keep = keep
        self.unasked = False
        """True if the machine may be measured in the background."""
        self._quiet, self._patience = 0, QUIET
        self._aside = self._again = False
        """True while ceilings measured unasked are on their way; and once others were replaced."""
        self._measured: Measured | None = None
        self._curves_awaited = False
        self._curves_before: CacheCurves | None = None

    async def drift(self) -> None:
        """Show how far the cursor's logits lie from a fresh read's; measure it where it was not."""
        controller = self._host.controller
        log, node = controller.log, controller.cursor.node
        if node not in log.drifts and not self._measurable():
            return
        engine = self._host.engine
        ask = partial(engine.send, MeasureDrift(node)) if engine.can_run else None
        await self._host.ask(DriftScreen(log, node, ask))

    def compare_cache(self) -> None:
        """Have the cursor's branch timed with a cache and without; the gauges draw the answer."""
        if self._measurable():
            self._curves_before = self._host.controller.log.curves
            self._curves_awaited = True
            self._host.engine.send(MeasureCurves(self._host.controller.cursor.tip))
            self._host.say("timing this branch with a cache and without")

    def time_modules(self) -> None:
        """Have a step after the cursor and the reading of its text timed, module by module."""
        if self._measurable():
            self._host.engine.send(MeasureModules(self._host.controller.cursor.node))
            self._host.say("timing modules (roofline, v: modules)")

    def measure_ceilings(self) -> None:
        """Have this machine's ceilings measured, which the gauges hold the run's speed against."""
        host, controller = self._host, self._host.controller
        facts = controller.log.facts
        if facts is None:
            host.say("no model is loaded yet: its dtype decides what is measured", warn=True)
        elif facts.remote:
            host.say(SERVERS_MACHINE, warn=True)
        else:
            self._aside = False
            controller.measure_ceilings()
            if controller.log.ceilings_awaited:
                host.say("this machine is measured once the run has stopped (space pauses it)")
            host.paint()

    async def napkin(self) -> None:
        """Work out what this model, or another, costs on this machine or another."""
        log = self._host.controller.log
        known = log.ceilings.ceilings if log.ceilings is not None else None
        try:
            library = Library.load(napkin_file())
        except NapkinError as error:
            self._host.say(str(error), warn=True)
            library = Library.load()
        await self._host.ask(NapkinScreen(library, line_of(log.facts, known)))

    def _measurable(self) -> bool:
        """True where the engine reads texts beside the run, and has read the prompt."""
        host, log = self._host, self._host.controller.log
        prefill, facts = log.prefill, log.facts
        if facts is not None and facts.top is not None:
            host.say(
                f"n/a: engine {facts.backend} reads no text beside the run, and times no layers",
                warn=True,
            )
            return False
        if prefill is None or not prefill.done:
            host.say("the prompt has not been read yet: n reads it", warn=True)
            return False
        return True

    # --- ceilings -------------------------------------------------------------------------------

    def tick(self, wanted: Callable[[], bool]) -> None:
        """Have the machine measured unasked, once nothing has happened for two ticks.

        Only ``wanted``, where a pane on screen shows the run against it, and never beside
        something else: whatever comes meanwhile ends it, and it is begun again later. What was
        kept of an earlier time is measured again where it cannot be right, once a start.
        """
        host, log = self._host, self._host.controller.log
        busy = host.controller.busy or log.loading is not None
        self._quiet = 0 if busy else self._quiet + 1
        facts = log.facts
        measurable = self.unasked and facts is not None and facts.backend == "hf"
        if not measurable or self._quiet < self._patience or not wanted():
            return
        if log.ceilings is None or (not self._again and too_low(host.controller.view)):
            # Whoever keeps pressing keys is left alone for longer each time.
            self._quiet, self._patience = 0, min(2 * self._patience, MOST_QUIET)
            self._aside = True
            host.controller.measure_ceilings_aside()

    def model_is_there(self, facts: ModelFacts) -> None:
        """Look up the prices, and what is known of this machine with the model that was loaded."""
        log = self._host.controller.log
        log.ceilings = self.find(facts) or log.ceilings
        try:
            log.prices = PriceList.load(prices_file())
        except PriceError as error:
            self._host.say(f"the example's prices are used: {error}", warn=True)

    def take(self) -> None:
        """Tell of what has just been measured; ceilings are kept for the next time."""
        log = self._host.controller.log
        if self._curves_awaited and log.curves is not self._curves_before:
            self._curves_awaited = False
            self._host.say(worth_of_cache(log.curves))
        facts, found = log.facts, log.measured
        if facts is None or found is None or found is self._measured:
            return
        ceilings = merged(found.ceilings, log.ceilings, unasked=self._aside)
        self._again |= self._aside and log.ceilings is not None
        self._measured, self._aside = found, False
        log.ceilings = Known(ceilings, datetime.now(UTC), "")
        try:
            self.keep(facts, ceilings)
        except OSError as error:
            line = f"measured, but not kept for the next time: {reason(error)}"
            self._host.say(line, warn=True)
