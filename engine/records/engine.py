"""Answers of an engine about itself: what it can tell, and its own clock for a request."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Probed:
    """One thing that an engine can or cannot tell, as it was found out at the start.

    ``value`` is what it gives, in words: ``any number``, ``raw``, ``yes``; empty where it gives
    nothing. ``note`` says why not, or how that was found out.
    """

    name: str
    value: str = ""
    note: str = ""

    @property
    def given(self) -> bool:
        return bool(self.value)


@dataclass(frozen=True, slots=True)
class EngineTimes:
    """One request by the engine's own clock and counters; None where it does not say.

    ``cached`` positions were in its cache and ``evaluated`` were computed, in ``prompt_ms``.
    ``predicted_ms`` is its time for the token that it chose itself, which nobody uses.
    ``parse_ms`` is ours: making the request and taking its answer apart. ``requests`` were made:
    more than one where it was asked again for more candidates, none where the row came ahead.

    ``ahead``: the row came with an earlier request, in which the engine went on by itself with the
    likeliest token; the times are this row's share of that request.
    """

    cached: int | None = None
    evaluated: int | None = None
    prompt_ms: float | None = None
    predicted_ms: float | None = None
    parse_ms: float = 0.0
    requests: int = 1
    ahead: bool = False

    @property
    def own_ms(self) -> float | None:
        """The engine's own time; None where it does not say."""
        if self.prompt_ms is None or self.predicted_ms is None:
            return None
        return self.prompt_ms + self.predicted_ms

    def __add__(self, later: EngineTimes) -> EngineTimes:
        """Both requests together; what one of them does not say is not known of both."""
        counts = self.evaluated, later.evaluated
        return EngineTimes(
            self.cached,
            None if counts[0] is None or counts[1] is None else counts[0] + counts[1],
            _sum(self.prompt_ms, later.prompt_ms),
            _sum(self.predicted_ms, later.predicted_ms),
            self.parse_ms + later.parse_ms,
            self.requests + later.requests,
        )


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other
