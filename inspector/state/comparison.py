"""Several columns in lockstep: what the keys of the compare screen mean. No screen here.

All columns are brought to one position: each pass extends those that are furthest behind, so that
one that was paused, or came later, catches up before all go on together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from engine.commands import Column, Command, MeasureAlone, Pause, Settings, StepMany
from engine.records.alone import AloneMeasured, ColumnAlone
from engine.records.columns import ColumnsSet, Part, PassRecord
from engine.records.events import Record, RunState, StateChanged
from inspector.state.columns import LETTERS, MOST, ComparedColumn, Partings
from inspector.state.view import RunLog

_NEW_ENGINE = (RunState.DEAD, RunState.LOADING)
_READY = (RunState.READY, RunState.PAUSED, RunState.STOPPED)


class Comparison:
    """The columns under the user's hands. ``send`` takes commands to the engine."""

    def __init__(self, log: RunLog, send: Callable[[Command], None]) -> None:
        self.log = log
        self.columns: list[ComparedColumn] = []
        self.focused = 0
        """Place of the column that the panes below the columns show."""
        self.against = 0
        """Place of the column that it is compared with."""
        self.played = False
        """True while a recording's tokens come as they came."""
        self._send = send
        self._partings = Partings()
        self._next_number = 0
        # A StepMany is on its way, or runs.
        self._in_flight = False
        # It was asked to stop between two passes.
        self._stopping = False
        # A pass has come of it.
        self._passed = False
        # Columns are brought to this depth; None: they stand.
        self._target: float | None = None
        # The one column that goes on, where it does so by itself.
        self._only: ComparedColumn | None = None

    # --- columns ------------------------------------------------------------------------------

    @property
    def column(self) -> ComparedColumn:
        """The focused column."""
        return self.columns[self.focused]

    @property
    def other(self) -> ComparedColumn:
        """The column that the focused one is compared with."""
        if self.against != self.focused:
            return self.columns[self.against]
        return self.columns[0 if self.focused else min(1, len(self.columns) - 1)]

    def letter(self, column: ComparedColumn) -> str:
        return LETTERS[self.columns.index(column)]

    def add(
        self, settings: Settings | None, seed: int | None, title: str, start: int | None = None
    ) -> ComparedColumn:
        """One more column; while others are further on, it catches up. Raises ValueError."""
        if len(self.columns) >= MOST:
            raise ValueError(f"there are {MOST} columns already: D removes one")
        if start is None:
            start = min((one.start for one in self.columns), default=0)
        if seed is None and self.columns:
            seed = self.columns[0].seed
        made = ComparedColumn(
            self.log, self.new_number(), start, settings=settings, seed=seed, title=title
        )
        ahead = self.position if self.columns else 0
        self.place(made)
        if ahead > made.depth:
            self._target = max(self._target or 0, ahead)
        if self._target is not None:
            self._again()
        return made

    def place(self, column: ComparedColumn) -> None:
        """Put a column behind the others."""
        self.columns.append(column)

    def new_number(self) -> int:
        """A number that no column of this run has had."""
        used = max((one.column for one in self.log.columns.columns), default=0)
        self._next_number = max(self._next_number, used) + 1
        return self._next_number

    @property
    def begun(self) -> bool:
        """True if some column has a token."""
        return any(one.depth for one in self.columns)

    def remove(self) -> None:
        """Take the focused column out; its branch stays in the tree. Raises ValueError."""
        if len(self.columns) <= 2:
            raise ValueError("two columns are the least: i adds one")
        self.columns.remove(self.column)
        self.focused = min(self.focused, len(self.columns) - 1)
        self.against = min(self.against, len(self.columns) - 1)
        self._again()

    def focus(self, place: int) -> None:
        self.focused = max(0, min(place, len(self.columns) - 1))

    def next_against(self) -> None:
        """Compare the focused column with the next one."""
        places = [at for at in range(len(self.columns)) if at != self.focused]
        now = self.columns.index(self.other)
        self.against = places[(places.index(now) + 1) % len(places)] if now in places else places[0]

    def _seed(self, column: ComparedColumn) -> int:
        run = self.log.settings.seed if self.log.settings is not None else 0
        return run if column.seed is None else column.seed

    @property
    def same_dice(self) -> bool:
        """True if all columns use the same number at the same position."""
        return len({self._seed(one) for one in self.columns}) == 1

    def swap_dice(self) -> None:
        """From the next token on: the same dice for all columns, or for each its own."""
        each, base = self.same_dice, self._seed(self.columns[0])
        for place, column in enumerate(self.columns):
            column.seed = base + place * each
        self._again()

    def parting(self, column: ComparedColumn) -> int | None:
        """Tokens before the first one that differs from the first column's.

        For the first column itself: from whichever column parts from it first.
        """
        first = self.columns[0]
        others = self.columns[1:] if column is first else [column]
        found = [self._partings.between(first, one) for one in others]
        return min((one for one in found if one is not None), default=None)

    def parting_of_pair(self) -> int | None:
        """Tokens before the first one at which the focused column and the other differ."""
        return self._partings.between(self.column, self.other)

    # --- moving -------------------------------------------------------------------------------

    @property
    def _together(self) -> list[ComparedColumn]:
        return [one for one in self.columns if not one.paused] or self.columns

    @property
    def position(self) -> int:
        """Tokens from the prompt to the cursors; where they differ, to the furthest."""
        return max(one.position for one in self._together)

    def step(self, count: int = 1) -> None:
        """All columns on by ``count`` tokens: recorded ones first, then by passes."""
        ahead = self._target if self._target is not None and self._target < math.inf else 0
        self._only = None
        self._bring_to(max(self.position, ahead) + count)

    def run(self) -> None:
        """All columns on until each has ended, or something stops them."""
        self._only = None
        self._bring_to(math.inf)

    def alone(self) -> None:
        """The focused column on by itself, apart from the others, until it ends or is paused."""
        self._only = self.column
        self._only.paused = True
        self._target = math.inf
        self._only.go_to(self._only.depth)
        self._again()

    def back(self) -> None:
        """The cursors to the token before; computes nothing and stops nothing."""
        before = self.position - 1
        for one in self._together:
            one.go_to(min(one.position, before))

    def first(self) -> None:
        for one in self.columns:
            one.go_to(0)

    def last(self) -> None:
        for one in self.columns:
            one.go_to(one.depth)

    def follow(self, node: int) -> None:
        """Move the cursors that a recorded token comes next for."""
        depth = self.log.tree.depth(node) or 0
        for one in self.columns:
            if one.position < depth and self.log.tree.above(one.tip, depth) == node:
                one.go_to(depth)

    def _bring_to(self, depth: float) -> None:
        self._target = depth
        for one in self._together:
            one.go_to(int(min(depth, one.depth)))
        self._go_on()

    # --- the engine ---------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """True if columns are being extended, or will be."""
        return self._target is not None or self._in_flight

    def extends(self, column: ComparedColumn) -> bool:
        """True if a column is one of those that are being extended, or will be; or are played."""
        if self.played:
            return column.position < column.depth
        only = self._only
        going = column.goes_on if only is None else column is only
        return self.running and going

    def pause(self) -> None:
        self._target, self._only = None, None
        self._stop_pass()

    def toggle(self) -> None:
        """Pause what runs; run what is paused."""
        self.pause() if self.running else self.run()

    def toggle_column(self) -> None:
        """Pause the focused column alone, or let it go on with the others."""
        self.column.paused = not self.column.paused
        if self._only is self.column:
            self._target, self._only = None, None
        self._again()

    def take(self, records: Iterable[Record]) -> None:
        """Take in records that the log has already."""
        for record in records:
            match record:
                case PassRecord():
                    self._pass(record)
                case ColumnsSet():
                    self._resolved(record)
                case StateChanged() if not (record.unasked and self._in_flight):
                    self._settle(record)
                case AloneMeasured():
                    # What it was called away from.
                    self._check_alone()

    def _pass(self, record: PassRecord) -> None:
        self._passed = True
        numbered = {one.number: one for one in self.columns}
        for part in record.columns:
            column = numbered.get(part.column)
            if column is None:
                continue
            if part.part is Part.FAILED:
                column.error = part.error
            elif part.parent == column.tip:
                column.arrive(part.nodes)

    def _resolved(self, record: ColumnsSet) -> None:
        known = {state.column: state for state in record.columns}
        for column in self.columns:
            column.known = known.get(column.number, column.known)
            if column.known is not None and column.known.error:
                column.error = column.known.error

    def _settle(self, changed: StateChanged) -> None:
        if changed.state in _NEW_ENGINE and self._in_flight:
            # What the old one was asked for is not coming.
            self._in_flight, self._target, self._only = False, None, None
        if changed.state not in _READY:
            return
        waited, self._in_flight = self._in_flight, False
        stopped = changed.reason and changed.state is RunState.PAUSED
        fruitless = changed.state is RunState.STOPPED and not self._passed
        if waited and (stopped or fruitless):
            # Something stopped them all: a breakpoint, an error.
            self._target, self._only = None, None
        self._go_on()

    def _again(self) -> None:
        """Have the engine go on with the columns as they are now."""
        self._stop_pass() if self._in_flight else self._go_on()

    def _stop_pass(self) -> None:
        if self._in_flight and not self._stopping:
            self._stopping = True
            self._send(Pause())

    def _go_on(self) -> None:
        """Ask for the next passes, if nothing runs and some column has not come far enough."""
        if self._target is None or self._in_flight or self.log.prompt is None:
            return
        if self.log.state.state not in _READY:
            if self.log.state.state is RunState.DEAD:
                # Nothing is kept for an engine to come.
                self._target, self._only = None, None
            return
        orders, count = self._next_passes(self._target)
        if not orders:
            self._target, self._only = None, None
            self._check_alone()
            return
        self._in_flight, self._stopping, self._passed = True, False, False
        self._send(StepMany(orders, count))

    def read_alone(self, column: ComparedColumn) -> ColumnAlone | None:
        """Result of reading a column's text alone; None where it has grown since."""
        found = self.log.alone.get(column.number)
        return found if found is not None and found.node == column.tip else None

    def _check_alone(self) -> None:
        """Have columns held against their text read alone, once all have ended.

        It is done while nothing else is asked for: the next command ends it.
        """
        ended = all(one.stop or one.error for one in self.columns)
        new = [one for one in self.columns if one.stop and self.read_alone(one) is None]
        if ended and new and not self.running:
            from sessions.compare.alone import drawn_column

            drawn = tuple(drawn_column(one.number, one.view.branch) for one in new)
            self._send(MeasureAlone(drawn))

    def _next_passes(self, target: float) -> tuple[tuple[Column, ...], int | None]:
        """The columns that are furthest behind, and how many passes until others join them."""
        only = self._only
        if only is not None:
            going = [] if only.error or only.stop else [only]
        else:
            going = [one for one in self.columns if one.goes_on]
        going = [one for one in going if one.depth < target]
        if not going:
            return (), None
        least = min(one.depth for one in going)
        limit = min((one.depth for one in going if one.depth > least), default=target)
        count = None if limit == math.inf else int(limit) - least
        steps = [one for one in going if one.depth == least]
        if any(one.drafts for one in steps) and (count is not None or len(going) > 1):
            # Nobody knows how far a round gets: the others catch up with it before the next.
            count = 1
        return tuple(one.order(held=one not in steps) for one in self.columns), count
