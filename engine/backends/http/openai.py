"""OpenAI's completions, as many servers have them: texts go in and come out, no token ids.

Log-probabilities come in one of two forms: a table of texts (OpenAI's own), or a list of objects
with ``token``, ``logprob`` and perhaps ``bytes``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.backends.http.errors import ServerError
from engine.backends.http.fields import Fields, byte_string
from engine.records.engine import EngineTimes

MOST_TOP = 1 << 12
_MOST_PROMPT = 1 << 20
_BARE: Mapping[str, Any] = {"max_tokens": 1, "temperature": 1.0, "top_p": 1.0, "stream": False}
_BYTES = re.compile(r"bytes:((?:\\x[0-9a-f]{2})+)")


@dataclass(frozen=True, eq=False)
class Listed:
    """The likeliest tokens of a position by their bytes, in the answer's order."""

    values: Mapping[bytes, float]
    ambiguous: bool
    """Some texts hold U+FFFD: several tokens may be one of them, and the likeliest be left out."""
    times: EngineTimes = field(default_factory=EngineTimes)


def request(model: str, text: str | Sequence[str], top: int, **more: Any) -> dict[str, Any]:
    """The request for the distribution behind ``text``, or behind each of several."""
    return {**_BARE, "model": model, "prompt": text, "logprobs": top, **more}


def listed_batch(body: Any, count: int, parse_ms: float = 0.0) -> list[Listed]:
    """Read the first position of each of ``count`` texts."""
    choices = Fields.of(body, "the answer").indexed("choices", count)
    times = EngineTimes(parse_ms=parse_ms / count)
    return [_first(one.inner("logprobs"), times) for one in choices]


def listed(body: Any, parse_ms: float = 0.0) -> Listed:
    """Read the first position of an answer of ``/v1/completions``."""
    answer = Fields.of(body, "the answer")
    choices = answer.objects("choices", 16)
    logprobs = choices[0].inner("logprobs") if choices else Fields({}, "logprobs")
    cached = answer.inner("usage").inner("prompt_tokens_details").count("cached_tokens")
    return _first(logprobs, EngineTimes(cached=cached, parse_ms=parse_ms))


def _first(logprobs: Fields, times: EngineTimes) -> Listed:
    values: dict[bytes, float] = {}
    content = logprobs.objects("content", 16)
    if content:
        for row in content[0].objects("top_logprobs", MOST_TOP):
            data = row.listed("bytes", 1 << 12)
            text = row.text("token")
            _add(values, byte_string(data, row.where) if data else _data(text), row, "logprob")
    else:
        rows = logprobs.listed("top_logprobs", 16)
        table = Fields.of(rows[0] if rows else {}, "top_logprobs")
        for text in list(table.values)[:MOST_TOP]:
            _add(values, _data(text), table, text)
    if not values:
        raise ServerError(
            "an answer without log-probabilities: this server gives none for completions, "
            "and there is nothing to show without them"
        )
    return Listed(values, any(b"\xef\xbf\xbd" in one for one in values), times)


def prompt_tokens(body: Any) -> list[bytes]:
    """The prompt's own tokens, of an answer that was asked to echo it; the last is the answer's."""
    choices = Fields.of(body, "the answer").objects("choices", 16)
    texts = choices[0].inner("logprobs").listed("tokens", _MOST_PROMPT) if choices else ()
    return [_data(one) for one in texts if isinstance(one, str)]


def models(body: Any) -> list[str]:
    """Names of the server's models."""
    return [one.text("id") for one in Fields.of(body, "/v1/models").objects("data", 10_000)]


def _add(values: dict[bytes, float], data: bytes, row: Fields, name: str) -> None:
    value = row.values.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise ServerError(f"an answer that cannot be used: {row.where} holds no log-probability")
    values[data] = max(float(value), values.get(data, float("-inf")))


def _data(text: str) -> bytes:
    """The bytes of a token's text; OpenAI writes parts of characters as ``bytes:\\xe2\\x80``."""
    match = _BYTES.fullmatch(text)
    if match is not None:
        return bytes.fromhex(match[1].replace("\\x", ""))
    return text.encode("utf-8", "surrogatepass")


def certain(values: Sequence[float]) -> int:
    """Of log-probabilities, the likeliest first, the number that no unlisted token can exceed."""
    rest = max(0.0, 1.0 - math.fsum(math.exp(one) for one in values))
    return sum(math.exp(one) > rest for one in values)
