"""The compare screen: opened on settings, on branches or on a recorded comparison, and kept fed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from engine.commands import Settings
from engine.records.events import Record
from engine.records.prompt import PromptRecord
from engine.run.tree import ROOT
from engine.sampling.chain import PRESETS
from inspector.actions.host import Host
from inspector.state.columns import MOST, ComparedColumn, of_branch
from inspector.state.comparing import other_tips, short_label, sides
from inspector.state.comparison import Comparison
from inspector.state.request import ColumnRequest
from inspector.state.whatif import hypothetical, recorded_chain, values_of

if TYPE_CHECKING:
    from inspector.screens.compare.screen import CompareScreen

NO_FORK = "there is no fork above: f makes one; with the dials open V compares what is tried"


class Comparing:
    """Opens the screen, at most once at a time."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._screen: CompareScreen | None = None

    @property
    def comparison(self) -> Comparison | None:
        """The comparison on screen."""
        return self._screen.comparison if self._screen is not None else None

    @property
    def is_open(self) -> bool:
        """True while the screen is open."""
        return self._screen is not None

    # --- opening ------------------------------------------------------------------------------

    def begin(self) -> None:
        """Open the screen at once, where columns are asked for or were recorded."""
        app, asked = self._host.app, self._host.asked.columns
        if asked:
            app.run_worker(self.asked_for(asked), group="flows")
        elif len(self._host.controller.log.columns.columns) > 1:
            # Only a recording has any by now.
            app.run_worker(self.recorded(), group="flows")

    async def asked_for(self, columns: Sequence[ColumnRequest]) -> None:
        """Columns given on the command line, from the prompt on."""
        made = self._new()
        for one in columns:
            title = one.title or one.settings.spec or one.settings.preset
            made.add(one.settings, one.seed, title, ROOT)
        await self._show(made)

    async def here(self) -> None:
        """Open it on what is tried on the dials, on the stacks, or on the branches of the run."""
        host = self._host
        view, focused = host.controller.view, host.focused
        if self._screen is not None or view.prompt is None:
            return
        if focused is not None and focused.id == "stacks" and view.step is not None:
            await self._stacks()
        elif hypothetical(view) and view.step is not None:
            await self._tried()
        else:
            await self._branches()

    async def _branches(self) -> None:
        """The cursor's branch and those beside it, the nearest first; recorded columns as such."""
        view = self._host.controller.view
        log, here = view.log, view.log.tip(view.cursor, view.visited)
        made = recorded_columns(self._new())
        tips = [one.tip for one in made.columns]
        if self._host.engine.can_run or here not in tips or len(tips) < 2:
            tips, made = [here, *other_tips(view)][:MOST], self._new()
            if len(tips) < 2:
                self._host.say(NO_FORK, warn=True)
                return
            for at, tip in enumerate(tips):
                name = short_label(log, tip, tips[0] if at else tips[1])
                made.place(of_branch(log, made.new_number(), tip, name))
        first = made.parting(made.columns[0])
        for one in made.columns:
            one.go_to(one.depth if first is None else first + 1)
        await self._show(made)

    async def _tried(self) -> None:
        """The cursor's branch beside the one that what is tried would have made."""
        view = self._host.controller.view
        step, chain = view.step, view.what_if
        if step is None or chain is None:
            return
        made = self._new()
        tip = view.log.tip(view.cursor, view.visited)
        made.place(of_branch(view.log, made.new_number(), tip))
        tried = Settings(chain.preset, spec=chain.spec)
        made.columns[0].go_to(view.log.tree.depth(step.parent) or 0)
        made.add(tried, step.seed, f"tried: {chain.spec}", step.parent)
        made.step()
        await self._show(made)

    async def _stacks(self) -> None:
        """The cursor's branch, and the same dials in each stack from the cursor's token on."""
        view = self._host.controller.view
        step, chain = view.step, view.what_if or recorded_chain(view)
        if step is None or chain is None:
            return
        made, dials = self._new(), values_of(chain)
        tip = view.log.tip(view.cursor, view.visited)
        made.place(of_branch(view.log, made.new_number(), tip))
        made.columns[0].go_to(view.log.tree.depth(step.parent) or 0)
        for name in [one for one in PRESETS if one != chain.preset][: MOST - 1]:
            has = {dial: value for dial, value in dials.items() if _has(name, dial)}
            made.add(Settings(name, has), step.seed, PRESETS[name].title, step.parent)
        made.step()
        await self._show(made)

    async def recorded(self) -> None:
        """The columns of a recorded comparison, where there are some."""
        log = self._host.controller.log
        found = recorded_columns(self._new())
        if self._host.player is not None and self._host.player.wanted:
            found.first()
        if len(found.columns) >= 2 and log.prompt is not None:
            await self._show(found)

    def _new(self) -> Comparison:
        return Comparison(self._host.controller.log, self._host.engine.send)

    async def _show(self, made: Comparison) -> None:
        from inspector.screens.compare.screen import CompareScreen

        host = self._host
        host.controller.stay()
        self._screen = CompareScreen(
            made,
            changed=host.paint,
            as_text=self._as_text,
            can_run=lambda: host.engine.can_run,
            play=lambda: host.player is not None and host.player.play(made),
            stand=lambda: host.player is not None and host.player.stop(),
        )
        try:
            await host.ask(self._screen)
        finally:
            self._screen = None
            if host.player is not None:
                host.player.stop()
            made.pause()
            if made.columns:
                host.controller.cursor.go_to(made.column.cursor.node)
            host.paint()

    def _as_text(self) -> None:
        """The focused column and the other one as one text, word by word."""
        from inspector.screens.text import TextScreen
        from sessions.compare import text as diff_text
        from sessions.compare.diff import diff

        comparison = self.comparison
        if comparison is None or comparison.column.tip == comparison.other.tip:
            self._host.say("both columns are one branch so far", warn=True)
            return
        lines = diff_text.lines(
            diff(*sides(comparison.log, comparison.column.tip, comparison.other.tip))
        )
        self._host.app.push_screen(TextScreen("Two branches", lines))

    # --- while it is open ---------------------------------------------------------------------

    def take(self, records: Iterable[Record]) -> None:
        """Records have come; the log has them."""
        screen = self._screen
        if screen is None:
            return
        if any(isinstance(one, PromptRecord) for one in records) and screen.comparison.begun:
            # Another run: its tree has none of these columns.
            screen.dismiss()
        screen.comparison.take(records)

    def tick(self, busy_s: float | None) -> bool:
        """Draw the status line of the screen, where it is open: what is below it is not seen."""
        if self._screen is not None:
            self._screen.tick(busy_s)
        return self._screen is not None

    def draw(self, busy_s: float | None) -> bool:
        """Draw the screen, where it is open."""
        comparison = self.comparison
        if self._screen is None or comparison is None:
            return False
        if not comparison.running:
            # Breakpoints, watches and exports speak of the focused column.
            self._host.controller.cursor.go_to(comparison.column.cursor.node)
        self._screen.show(busy_s)
        return True


def recorded_columns(made: Comparison) -> Comparison:
    """Put the columns of the log's passes into a comparison, each to its end."""
    log = made.log
    tips: dict[int, int] = {}
    for record in log.passes:
        for part in record.columns:
            if part.nodes and part.nodes[-1] in log.tree:
                tips[part.column] = part.nodes[-1]
    for state in log.columns.columns[:MOST]:
        column = ComparedColumn(
            log,
            state.column,
            state.parent if state.parent in log.tree else ROOT,
            tip=tips.get(state.column),
            settings=Settings(state.preset, spec=state.chain_spec),
            seed=state.seed,
            title=state.title or state.chain_spec,
        )
        column.error, column.known = state.error, state
        made.place(column)
    return made


def _has(preset: str, dial: str) -> bool:
    """True if a stack has a dial."""
    from engine.sampling.stages import DIALS

    spec = PRESETS[preset]
    return DIALS[dial][0] in spec.order and dial not in spec.lacks
