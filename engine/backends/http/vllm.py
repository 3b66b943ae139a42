"""vLLM's OpenAI server: its requests, and what its answers hold.

Token ids go in and come out (``token_id:7042``). Whether the figures are the model's or the
sampler's, log-probabilities or logits, is the server's choice (``--logprobs-mode``) and is tried
out; how many there are is limited by its ``--max-logprobs``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.backends.http.client import Client
from engine.backends.http.errors import ServerError
from engine.backends.http.fields import MOST_VOCAB, Fields
from engine.records.engine import EngineTimes

_MOST_PROMPT = 1 << 20
_KEY = re.compile(r"token_id:(\d{1,9})")
LEAST_LOGIT = -9000.0
"""vLLM writes minus infinity as -9999."""
_BARE: Mapping[str, Any] = {
    "max_tokens": 1,
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": -1,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "seed": 1,
    "stream": False,
}
"""Nothing is left to the model's generation_config.json, which this server follows unasked: so the
distribution after its sampler is the model's own."""


@dataclass(frozen=True, eq=False)
class Listed:
    """Tokens that an answer lists for a position, in its order, and the engine's own figures."""

    ids: Sequence[int]
    values: Sequence[float]
    ended: bool = False
    """The token that the server chose ends the text."""
    times: EngineTimes = field(default_factory=EngineTimes)


def request(
    model: str, ids: Sequence[int] | Sequence[Sequence[int]], top: int, **more: Any
) -> dict[str, Any]:
    """The request for the distribution behind ``ids``, or behind each of several texts.

    ``top`` -1 is the whole vocabulary's.
    """
    return {
        **_BARE,
        "model": model,
        "prompt": list(ids),
        "logprobs": top,
        "return_tokens_as_token_ids": True,
        **more,
    }


def listed_batch(body: Any, count: int, parse_ms: float = 0.0) -> list[Listed]:
    """Read the first position of each of ``count`` texts.

    What the server says of its cache is of all of them together, and so of none.
    """
    choices = Fields.of(body, "the answer").indexed("choices", count)
    return [_first(choice, EngineTimes(parse_ms=parse_ms / count)) for choice in choices]


def listed(body: Any, parse_ms: float = 0.0) -> Listed:
    """Read the first position of an answer of ``/v1/completions``."""
    answer = Fields.of(body, "the answer")
    usage = answer.inner("usage")
    cached = usage.inner("prompt_tokens_details").count("cached_tokens")
    count = usage.count("prompt_tokens")
    evaluated = None if cached is None or count is None else count - cached
    times = EngineTimes(cached=cached, evaluated=evaluated, parse_ms=parse_ms)
    return _first(first_choice(answer), times)


def _first(choice: Fields, times: EngineTimes) -> Listed:
    rows = choice.inner("logprobs").listed("top_logprobs", 1)
    if not rows or rows[0] is None:
        raise ServerError(
            "an answer without log-probabilities: there is nothing to show without them"
        )
    ids, values = _row(rows[0])
    return Listed(ids, values, choice.text("finish_reason") == "stop", times)


def first_choice(answer: Fields) -> Fields:
    """The first of an answer's texts."""
    choices = answer.objects("choices", 1 << 10)
    if not choices:
        raise ServerError("an answer that cannot be used: it has no choices")
    return choices[0]


def _row(row: Any) -> tuple[list[int], list[float]]:
    fields = Fields.of(row, "top_logprobs")
    if len(fields.values) > MOST_VOCAB:
        raise ServerError("an answer that cannot be used: top_logprobs is longer than a vocabulary")
    ids, values = [], []
    for key, value in fields.values.items():
        match = _KEY.fullmatch(key)
        if match is None:
            raise ServerError(
                "this server gives texts in place of token ids, and several tokens can have one "
                "text: --engine openai works with texts"
            )
        ids.append(int(match[1]))
        values.append(_value(value))
    return ids, values


def _value(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ServerError("an answer that cannot be used: a log-probability is no number")
    return float(value) if value > LEAST_LOGIT else float("-inf")


def prompt_rows(body: Any) -> list[Listed | None]:
    """The distributions before each token of the prompt; None before the first."""
    choice = first_choice(Fields.of(body, "the answer"))
    found: list[Listed | None] = []
    for row in choice.listed("prompt_logprobs", _MOST_PROMPT):
        if row is None:
            found.append(None)
            continue
        ids, values = [], []
        for key, one in Fields.of(row, "prompt_logprobs").values.items():
            if not re.fullmatch(r"\d{1,9}", key):
                raise ServerError("an answer that cannot be used: prompt_logprobs names no ids")
            ids.append(int(key))
            values.append(_value(Fields.of(one, "prompt_logprobs").values.get("logprob")))
        found.append(Listed(ids, values))
    return found


@dataclass(frozen=True, slots=True)
class Served:
    """A model that the server has, by its ``/v1/models``."""

    name: str
    root: str
    context: int | None


def served(body: Any) -> list[Served]:
    """Every model of an OpenAI server."""
    rows = Fields.of(body, "/v1/models").objects("data", 10_000)
    return [Served(one.text("id"), one.text("root"), one.count("max_model_len")) for one in rows]


def tokenized(
    client: Client, model: str, text: str, *, around: bool
) -> tuple[tuple[int, ...], int | None]:
    """(ids of ``text``, the longest that the model reads)."""
    body = {"model": model, "prompt": text, "add_special_tokens": around}
    return _ids(client, body)


def templated(client: Client, model: str, text: str, system: str | None) -> tuple[int, ...]:
    """The ids of one turn of a chat in the model's template."""
    messages = [{"role": "user", "content": text}]
    if system is not None:
        messages.insert(0, {"role": "system", "content": system})
    return _ids(client, {"model": model, "messages": messages})[0]


def _ids(client: Client, body: Mapping[str, Any]) -> tuple[tuple[int, ...], int | None]:
    answer = Fields.of(client.post("/tokenize", body).body, "/tokenize")
    return answer.ids("tokens", _MOST_PROMPT), answer.count("max_model_len")


def detokenized(client: Client, model: str, ids: Sequence[int]) -> str:
    """The text of some tokens; of a part of a character U+FFFD."""
    body = {"model": model, "tokens": list(ids)}
    return Fields.of(client.post("/detokenize", body).body, "/detokenize").text("prompt")
