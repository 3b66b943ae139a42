"""The breakpoints and watches of the run on screen: counted, looked for, and evaluated there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import thread_time

from engine.commands import SetBreakpoints
from engine.conditions.breakpoints import Breakpoint, Breakpoints
from engine.conditions.condition import Condition, ConditionError, Unavailable
from engine.conditions.figures import Value
from engine.conditions.moment import Moment, Moments
from engine.records.events import BreakpointsSet
from engine.records.prompt import PromptRecord
from engine.run.tree import ROOT
from inspector.state.view import RunLog

_MOST_RECALLED = 100
"""More than anyone sets; a file may name any number."""
_LOOK_S = 0.5
"""Processor time for all conditions at one cursor; those behind it are told at the next look."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A breakpoint as it stands at the cursor. ``here`` is None where it cannot be told."""

    point: Breakpoint
    here: bool | None


@dataclass(frozen=True, slots=True)
class Watch:
    """A watched expression and its value at the cursor."""

    text: str
    value: Value | Unavailable


@dataclass(frozen=True, slots=True)
class Watched:
    """All that is to be shown of breakpoints and watches at one cursor."""

    marks: tuple[Mark, ...] = ()
    watches: tuple[Watch, ...] = ()
    at_prompt: bool = False
    """True if the cursor is where nothing was drawn, so that there is nothing to tell."""

    def __bool__(self) -> bool:
        return bool(self.marks or self.watches)


class BreakpointState:
    """Breakpoints and watches of the run in ``log``, and their values at every step."""

    def __init__(self, log: RunLog) -> None:
        self.points = Breakpoints()
        self.watches: list[Condition] = []
        self._news: list[str] = []
        self._log = log
        self._moments: tuple[PromptRecord, Moments] | None = None

    def take_over(self, command: SetBreakpoints) -> None:
        """Have exactly these. Raises ConditionError."""
        self.points = Breakpoints(command.points)
        self.watches = [Condition(text) for text in command.watches]

    @property
    def command(self) -> SetBreakpoints:
        return SetBreakpoints(tuple(self.points), tuple(one.text for one in self.watches))

    @property
    def record(self) -> BreakpointsSet:
        """The record that a session keeps."""
        return BreakpointsSet(self.command.points, self.command.watches)

    def recall(self, kept: BreakpointsSet, *, anew: bool = False) -> list[str]:
        """Have what a recorded run had, and after it what there is already.

        ``anew`` counts hits from 0. Returns a line for each one that this program cannot read.
        """
        now, refused = self.command, []

        def readable(text: str) -> bool:
            try:
                Condition(text)
            except ConditionError as error:
                refused.append(f"left out of the recording's breakpoints: {text}: {error}")
                return False
            return True

        points = [one for one in kept.points[:_MOST_RECALLED] if readable(one.text)]
        self.points = Breakpoints(_counted(one, anew=anew) for one in points)
        self.watches = [Condition(one) for one in kept.watches[:_MOST_RECALLED] if readable(one)]
        known = {(one.text, one.asserts) for one in self.points}
        for one in now.points:
            if (one.text, one.asserts) not in known:
                self.points.add(one.text, asserts=one.asserts)
        for text in now.watches:
            self.watch(text)
        return refused

    def watch(self, text: str, *, instead_of: str = "") -> None:
        """Watch an expression, each only once. Raises ConditionError."""
        condition = Condition(text)
        texts = [one.text for one in self.watches]
        if instead_of in texts:
            self.watches[texts.index(instead_of)] = condition
        elif condition.text not in texts:
            self.watches.append(condition)

    def unwatch(self, text: str) -> None:
        self.watches = [one for one in self.watches if one.text != text]

    # --- along the run ------------------------------------------------------------------------

    def reached(self, node: int) -> bool:
        """Count what a step that was reached hits; whether the run stops there."""
        moment = self.moment(node) if self.points else None
        if moment is None:
            return False
        verdict = self.points.check(moment)
        self._news.extend(verdict.news)
        return bool(verdict.stops)

    def take_news(self) -> list[str]:
        """Lines for the user that have not been shown yet."""
        news, self._news = self._news, []
        return news

    def before(self, node: int) -> int | None:
        """The last node before ``node`` on its branch where a breakpoint strikes, counted there."""
        moment = self.moment(node)
        while moment is not None and (moment := moment.previous) is not None:
            if self.points.struck(moment):
                self.points.check(moment)
                return moment.step.node
        return None

    # --- at the cursor ------------------------------------------------------------------------

    def watched(self, node: int) -> Watched:
        """Breakpoints and watches as they stand at a node."""
        if not (self.points or self.watches):
            return Watched()
        moment, until = self.moment(node), thread_time() + _LOOK_S
        watches = tuple(Watch(one.text, self._watch(one, moment, until)) for one in self.watches)
        here = {one.number: self._here(one, moment, until) for one in self.points}
        # Looked up again: one that took too long has been switched off.
        marks = tuple(Mark(one, here[one.number]) for one in self.points)
        return Watched(marks, watches, at_prompt=moment is None)

    def _watch(self, one: Condition, moment: Moment | None, until: float) -> Value | Unavailable:
        if moment is None:
            return Unavailable("no token was drawn here")
        if thread_time() > until:
            return Unavailable("the conditions before it took too long")
        was_off = one.off
        try:
            return one.value(moment)
        except Unavailable as reason:
            if one.off and not was_off:
                self._news.append(f"watch {one.text}: {reason}")
            return reason

    def _here(self, point: Breakpoint, moment: Moment | None, until: float) -> bool | None:
        if moment is None or thread_time() > until:
            return None
        try:
            return self.points.strikes(point.number, moment)
        except Unavailable as reason:
            if self.points.condition(point.number).off:
                self._news += self.points.note_untold(point.number, moment, reason)
            return None

    def moment(self, node: int) -> Moment | None:
        """The moment of a node; None at the prompt."""
        prompt = self._log.prompt
        if prompt is None or node == ROOT or node not in self._log.nodes:
            return None
        known = self._moments
        if known is None or known[0] is not prompt or known[1].rounds is not self._log.rounds:
            facts = self._log.facts
            size = facts.vocab_size if facts else None
            known = self._moments = prompt, Moments(prompt, size, self._log.rounds)
        return known[1].at(self._log.path(node))


def _counted(point: Breakpoint, *, anew: bool) -> Breakpoint:
    """A recorded breakpoint with counts that can be; ``anew``: with none."""
    if anew:
        return replace(point, hits=0, told=0, untold="")
    return replace(point, hits=max(0, point.hits), told=max(0, point.told))
