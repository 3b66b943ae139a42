"""Requests to llama.cpp for one position's distribution, and what its answers say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.backends.base import BackendError
from engine.backends.top_n.completer import Answer
from engine.backends.top_n.rows import top_logprobs
from engine.records.engine import EngineTimes
from engine.text import quote

_MOST_SAID = 300


def request(ids: Sequence[int], top: int, *, slot: int | None, reuse: bool) -> dict[str, Any]:
    """The request for the ``top`` likeliest tokens behind ``ids``, as ``/completion`` takes it.

    The token that the server chooses is not used: it takes the likeliest, by the least work.
    """
    asked: dict[str, Any] = {
        "prompt": list(ids),
        "n_predict": 1,
        "n_probs": top,
        "cache_prompt": reuse,
        "temperature": 0.0,
        "samplers": [],
    }
    if slot is not None:
        asked["id_slot"] = slot
    return asked


def answer_of(found: Any, top: int, vocab_size: int) -> Answer:
    """The row and the engine's own figures in an answer in OpenAI's form. Raises BackendError."""
    if not isinstance(found, Mapping):
        raise BackendError("llama.cpp answered with something that is no JSON object")
    if "error" in found:
        raise BackendError(f"llama.cpp refuses this: {said(found['error'])}")
    try:
        entries = found["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
        ids = [entry["id"] for entry in entries]
        logprobs = [entry["logprob"] for entry in entries]
    except (KeyError, IndexError, TypeError):
        raise BackendError("llama.cpp's answer has no log-probabilities") from None
    row = top_logprobs(ids, logprobs, count=top, vocab_size=vocab_size)
    return Answer(row, times_of(found.get("timings")))


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
