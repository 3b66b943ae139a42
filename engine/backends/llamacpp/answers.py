"""Requests to llama.cpp for one position's distribution, and what its answers say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from engine.backends.base import BackendError
from engine.backends.top_n.completer import Answer, Continued
from engine.backends.top_n.rows import top_logprobs
from engine.records.engine import EngineTimes
from engine.text import quote

_MOST_SAID = 300


def request(
    ids: Sequence[int], top: int, *, slot: int | None, reuse: bool, count: int = 1
) -> dict[str, Any]:
    """The request for the ``top`` likeliest tokens behind ``ids``, as ``/completion`` takes it.

    The token that the server chooses is the likeliest, by the least work; with ``count`` it goes on
    with that for so many rows.
    """
    asked: dict[str, Any] = {
        "prompt": list(ids),
        "n_predict": count,
        "n_probs": top,
        "cache_prompt": reuse,
        "samplers": ["top_k"],
        "top_k": 1,
    }
    if slot is not None:
        asked["id_slot"] = slot
    return asked


def answer_of(found: Any, top: int, vocab_size: int) -> Answer:
    """The row and the engine's own figures in an answer in OpenAI's form. Raises BackendError."""
    return continued_of(found, top, vocab_size).answers[0]


def continued_of(found: Any, top: int, vocab_size: int) -> Continued:
    """All rows of an answer, and the tokens that the engine took. Raises BackendError."""
    if not isinstance(found, Mapping):
        raise BackendError("llama.cpp answered with something that is no JSON object")
    if "error" in found:
        raise BackendError(f"llama.cpp refuses this: {said(found['error'])}")
    try:
        places = found["choices"][0]["logprobs"]["content"]
        taken = tuple(int(place["id"]) for place in places)
        listed = [
            (
                [entry["id"] for entry in place["top_logprobs"]],
                [entry["logprob"] for entry in place["top_logprobs"]],
            )
            for place in places
        ]
    except (KeyError, IndexError, TypeError, ValueError):
        listed = []
    if not listed:
        raise BackendError("llama.cpp's answer has no log-probabilities")
    rows = [top_logprobs(*one, count=top, vocab_size=vocab_size) for one in listed]
    times = _divided(times_of(found.get("timings")), len(rows))
    return Continued(tuple(map(Answer, rows, times)), taken)


def _divided(times: EngineTimes, rows: int) -> list[EngineTimes]:
    """The times of a request by row: the first has the prompt's, the others shares of the rest."""
    if rows == 1:
        return [times]
    share = None if times.predicted_ms is None else times.predicted_ms / (rows - 1)
    read = (
        None if times.cached is None or times.evaluated is None else times.cached + times.evaluated
    )
    later = [
        EngineTimes(None if read is None else read + at, 1, 0.0, share) for at in range(rows - 1)
    ]
    return [replace(times, predicted_ms=0.0), *later]


def times_of(timings: Any) -> EngineTimes:
    """The figures of llama.cpp's ``timings``; one that it lacks, or that is none, is not known."""
    given = timings if isinstance(timings, Mapping) else {}
    return EngineTimes(
        _count(given.get("cache_n")),
        _count(given.get("prompt_n")),
        _ms(given.get("prompt_ms")),
        _ms(given.get("predicted_ms")),
    )


def said(error: Any) -> str:
    """An error's own words, made safe and cut to a line."""
    message = error.get("message") if isinstance(error, Mapping) else error
    return quote(" ".join(str(message).split()), _MOST_SAID)


def _count(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _ms(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and 0.0 <= value < 1e9 else None
