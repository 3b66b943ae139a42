"""Breakpoints and assertions of a run without a screen: when it ends there, and what is said."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from engine.commands import SetBreakpoints
from engine.conditions.breakpoints import Breakpoint, Breakpoints, Verdict
from engine.conditions.condition import Unavailable, spell
from engine.conditions.moment import Moment, Moments
from engine.records.step import StepRecord
from engine.text import visible, visible_bytes
from inspector.state.view import RunLog
from sessions.export.jsonl import plain


class BreakpointChecker:
    """Watches the steps of one run as they come."""

    def __init__(self, asked: SetBreakpoints) -> None:
        self._points = Breakpoints(asked.points)
        self._moments: Moments | None = None
        self._moment: Moment | None = None
        self._verdict = Verdict()

    def look(self, log: RunLog, record: StepRecord) -> Verdict:
        if not self._points or log.prompt is None:
            return Verdict()
        if self._moments is None:
            size = log.facts.vocab_size if log.facts else None
            self._moments = Moments(log.prompt, size, log.rounds)
        self._moment = self._moments.at(log.path(record.node))
        self._verdict = self._points.check(self._moment)
        return self._verdict

    @property
    def points(self) -> tuple[Breakpoint, ...]:
        return tuple(self._points)

    @property
    def never_told(self) -> tuple[str, ...]:
        """Assertions that nothing was found out about, to the end: they have not held either."""
        return tuple(
            f"assertion {one.number} could be told at no step: {one.text} ({one.untold})"
            if one.enabled
            else f"assertion {one.number} was not looked at to the end: {one.text} ({one.untold})"
            for one in self._points
            if one.asserts and (not one.told or not one.enabled)
        )

    def lines(self) -> Iterator[str]:
        """The step that the run was stopped at, and the figures that stopped it, for people."""
        if self._moment is None:
            return
        step, number = self._moment.step, self._moment.index + 1
        token = visible_bytes(step.token.bytes)
        yield f'step {number} (node {step.node}, position {step.position}): "{token}"'
        u = "" if step.draw.u is None else f" with u = {step.draw.u:.5f}"
        yield f"  id {step.token.id}, {step.draw.how}{u}, rank {step.rank}"
        yield (
            f"  raw log-probability {step.raw_logprob:.4g}, "
            f"final probability {step.final_prob:.4g}, "
            f"entropy {step.entropy_raw:.4g} → {step.entropy_final:.4g} nats"
        )
        for point in self._verdict.stops:
            yield visible(point.name)
            figures = self._points.condition(point.number).figures(self._moment)
            yield from (f"  {visible(name)} = {spell(value)}" for name, value in figures.items())

    def fields(self) -> dict[str, Any]:
        """Fields of the ``end`` line about breakpoints; none where there are none."""
        found: dict[str, Any] = {}
        if self._verdict.stops and self._moment is not None:
            first = self._verdict.stops[0]
            figures = self._points.condition(first.number).figures(self._moment)
            told = {name: one for name, one in figures.items() if not isinstance(one, Unavailable)}
            found |= {
                "breakpoint": first.number,
                "node": self._moment.step.node,
                "step": self._moment.index + 1,
                "figures": {name: plain(told.get(name)) for name in figures},
                "figures_reason": {
                    name: str(one) for name, one in figures.items() if name not in told
                },
            }
        if self._points:
            found["breakpoints"] = [_fields(one) for one in self._points]
        return found


def _fields(point: Breakpoint) -> dict[str, Any]:
    return {
        "number": point.number,
        "kind": "assert" if point.asserts else "break",
        "condition": plain(point.text),
        "hits": point.hits,
        "told": point.told,
        "untold": plain(point.untold) if point.untold else None,
    }
