"""Breakpoints: conditions that stop a run, and assertions that fail it.

The same list lives in the engine, where it stops the run between two passes, and beside the
screen, where it counts hits and looks for them among recorded steps. Both come to the same result
because a condition is a function of records alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.conditions.condition import Condition, Unavailable
from engine.conditions.moment import Moment, NotHere
from engine.records.events import Breakpoint

__all__ = ["Breakpoint", "Breakpoints", "Verdict"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of a check at one step: breakpoints hit, those that stop, lines for the user."""

    hits: tuple[Breakpoint, ...] = ()
    stops: tuple[Breakpoint, ...] = ()
    news: tuple[str, ...] = ()
    """Of conditions that could not be told for the first time."""

    @property
    def reason(self) -> str:
        """The reason for a stop, in words; empty where the run goes on."""
        return "; ".join(one.name for one in self.stops)


class Breakpoints(Sequence[Breakpoint]):
    """A list of breakpoints, by number. Numbers are not used twice."""

    def __init__(self, points: Iterable[Breakpoint] = ()) -> None:
        """Raises ConditionError for one whose text is no condition."""
        self._points: dict[int, Breakpoint] = {}
        self._conditions: dict[int, Condition] = {}
        self._last = 0
        for one in points:
            self._put(one, Condition(one.text))

    def __len__(self) -> int:
        return len(self._points)

    def __getitem__(self, index: Any) -> Any:
        return list(self._points.values())[index]

    def __iter__(self) -> Iterator[Breakpoint]:
        return iter(list(self._points.values()))

    @property
    def active(self) -> bool:
        """True if any breakpoint is enabled."""
        return any(one.enabled for one in self)

    @property
    def tokens(self) -> tuple[str, ...]:
        """Texts of the tokens that the conditions name, each once."""
        named = (token for one in self._conditions.values() for token in one.tokens)
        return tuple(dict.fromkeys(named))

    # --- editing ------------------------------------------------------------------------------

    def add(self, text: str, *, asserts: bool = False) -> Breakpoint:
        """A new breakpoint, or assertion. Raises ConditionError."""
        condition = Condition(text)
        point = Breakpoint(self._last + 1, condition.text, asserts=asserts)
        self._put(point, condition)
        return point

    def change(self, number: int, **fields: Any) -> Breakpoint:
        """Change fields of a breakpoint: ``text``, ``enabled``, ``ignore``.

        With another condition it begins anew. Raises ConditionError and KeyError.
        """
        point, condition = self._points[number], self._conditions[number]
        text = str(fields.pop("text", point.text)).strip()
        if condition.off and fields.get("enabled"):
            condition = Condition(text)  # whoever switches it on again wants it tried again
        if text != point.text:
            condition = Condition(text)
            fields |= {"text": text, "hits": 0, "told": 0, "untold": ""}
        changed = replace(point, **fields)
        self._put(changed, condition)
        return changed

    def delete(self, number: int) -> None:
        """Take a breakpoint away. Raises KeyError."""
        del self._points[number]
        del self._conditions[number]

    def _put(self, point: Breakpoint, condition: Condition) -> None:
        self._points[point.number] = point
        self._conditions[point.number] = condition
        self._last = max(self._last, point.number)

    def condition(self, number: int) -> Condition:
        """The condition of a breakpoint. Raises KeyError."""
        return self._conditions[number]

    # --- looking ------------------------------------------------------------------------------

    def strikes(self, number: int, at: Moment) -> bool:
        """True if a breakpoint, enabled or not, would strike here. Raises Unavailable."""
        return self._conditions[number].holds(at) is not self._points[number].asserts

    def struck(self, at: Moment) -> bool:
        """True if an enabled breakpoint would strike here. Counts nothing."""
        for one in self:
            try:
                if one.enabled and self.strikes(one.number, at):
                    return True
            except Unavailable:
                continue
        return False

    def note_untold(self, number: int, at: Moment, reason: Unavailable) -> list[str]:
        """Keep why a breakpoint could not be told, and switch it off if it is never to be again.

        Returns what is to be said: a line the first time.
        """
        one, off = self._points[number], bool(self._conditions[number].off)
        if one.untold and not (off and one.enabled):
            return []
        changed = replace(one, untold=f"step {at.index + 1}: {reason}", enabled=not off)
        self._points[number] = changed
        what = "assertion" if one.asserts else "breakpoint"
        return [f"{what} {number} cannot be told at {changed.untold} ({one.text})"]

    def check(self, at: Moment) -> Verdict:
        """Look at a step that was reached: count hits, and say which of them stop the run."""
        hits, stops, news = [], [], []
        for one in self:
            if not one.enabled:
                continue
            try:
                struck = self.strikes(one.number, at)
            except NotHere:
                continue
            except Unavailable as reason:
                news += self.note_untold(one.number, at, reason)
                continue
            point = replace(one, told=one.told + 1)
            if struck:
                ignored = point.ignore > 0
                point = replace(point, hits=point.hits + 1, ignore=max(0, point.ignore - 1))
                hits.append(point)
                stops += [] if ignored else [point]
            self._points[one.number] = point
        return Verdict(tuple(hits), tuple(stops), tuple(news))
