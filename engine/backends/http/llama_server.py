"""llama-server, llama.cpp's own: its requests, and what its answers hold.

Token ids go in and come out. Log-probabilities are those of the model, before any penalty or bias,
of as many tokens as are asked for, each with its exact bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.backends.http.errors import ServerError
from engine.backends.http.fields import MOST_VOCAB, Fields, byte_string, token_id
from engine.backends.top_n.completer import Answer
from engine.backends.top_n.rows import top_logprobs
from engine.records.engine import EngineTimes

if TYPE_CHECKING:
    from engine.backends.http.client import Client

_MOST_PROMPT = 1 << 20
_BARE: Mapping[str, Any] = {
    "max_tokens": 1,
    "temperature": 0.0,
    "samplers": ["top_k"],
    "top_k": 1,
    "stream": False,
}
"""Of what the server chooses itself nothing is used: its shortest chain will do."""


@dataclass(frozen=True, eq=False)
class Listed:
    """The likeliest tokens that an answer lists, in its order, and the engine's own figures."""

    ids: Sequence[int]
    values: Sequence[float | None]
    data: Mapping[int, bytes]
    ended: bool
    """The token that the server chose ends the text."""
    times: EngineTimes


def request(
    ids: Sequence[int], top: int, *, slot: int | None = None, reuse: bool = True, **more: Any
) -> dict[str, Any]:
    """The request for the distribution behind ``ids``."""
    where = {} if slot is None else {"id_slot": slot}
    return {**_BARE, "prompt": list(ids), "n_probs": top, "cache_prompt": reuse, **where, **more}


def batch_request(texts: Sequence[Sequence[int]], top: int) -> dict[str, Any]:
    """The request to ``/completion``, which tells the slot and the times of each text."""
    prompts = [list(ids) for ids in texts]
    return {**_BARE, "n_predict": 1, "prompt": prompts, "n_probs": top, "cache_prompt": True}


def listed_batch(
    body: Any, count: int, slots: int, parse_ms: float = 0.0
) -> list[tuple[Listed, int]]:
    """Read an answer of ``/completion`` to ``count`` texts: what it lists for each, its slot."""
    found = []
    for answer in Fields({"texts": body}, "the answer").indexed("texts", count):
        position = _only(answer.objects("completion_probabilities", 1), "completion_probabilities")
        slot = answer.count("id_slot")
        if slot is None or slot >= slots:
            raise ServerError("an answer that cannot be used: it names no slot of the server's")
        ended = answer.text("stop_type") == "eos"
        times = _times(answer, parse_ms / count)
        found.append((_listed(position, "logprob", ended=ended, times=times), slot))
    return found


def listed(body: Any, name: str = "logprob", parse_ms: float = 0.0) -> Listed:
    """Read an answer of ``/v1/completions``.

    ``name``: ``logprob`` of the model, or ``prob`` of what its sampler left, where that was asked.
    """
    answer = Fields.of(body, "the answer")
    choice = _only(answer.objects("choices", 1), "choices")
    position = _only(choice.inner("logprobs").objects("content", 1), "logprobs.content")
    ended = choice.text("finish_reason") == "stop"
    return _listed(position, name, ended=ended, times=_times(answer, parse_ms))


def answer_of(found: Listed, top: int, vocab_size: int) -> Answer:
    """The ``top`` likeliest of what was listed. Raises BackendError."""
    values = [-float("inf") if one is None else one for one in found.values]
    return Answer(top_logprobs(found.ids, values, count=top, vocab_size=vocab_size), found.times)


def _listed(position: Fields, name: str, *, ended: bool, times: EngineTimes) -> Listed:
    ids, values, data = [], [], {}
    rows = position.objects("top_logprobs" if name == "logprob" else "top_probs", MOST_VOCAB)
    for row in rows:
        one = token_id(row.values.get("id"), row.where)
        ids.append(one)
        values.append(_value(row, name))
        data[one] = byte_string(row.listed("bytes", 1 << 16), row.where)
    return Listed(ids, values, data, ended, times)


def _value(row: Fields, name: str) -> float | None:
    found = row.values.get(name)
    if found is not None and (isinstance(found, bool) or not isinstance(found, int | float)):
        raise ServerError(f"an answer that cannot be used: {row.where}.{name} is no number")
    return found


def _times(answer: Fields, parse_ms: float) -> EngineTimes:
    times = answer.inner("timings")
    details = answer.inner("usage").inner("prompt_tokens_details")
    cached = times.count("cache_n")
    return EngineTimes(
        cached=details.count("cached_tokens") if cached is None else cached,
        evaluated=times.count("prompt_n"),
        prompt_ms=times.number("prompt_ms"),
        predicted_ms=times.number("predicted_ms"),
        parse_ms=parse_ms,
    )


def _only(found: Sequence[Fields], name: str) -> Fields:
    if not found:
        raise ServerError(
            f"an answer without {name}: this server gives no log-probabilities, "
            "and there is nothing to show without them"
        )
    return found[0]


@dataclass(frozen=True, slots=True)
class Props:
    """Facts of a llama-server and its model, from ``/props`` and ``/v1/models``."""

    model: str
    build: str
    context: int | None
    slots: int
    vocab_size: int
    parameters: int
    nbytes: int
    has_template: bool
    eos: str
    train_context: int | None = None
    embedding: int = 0

    @property
    def identity(self) -> str:
        """Model and size: after a new start of the server, another one has another identity."""
        return f"{self.model}, {self.parameters:,} parameters, {self.nbytes:,} bytes"


def props(answer: Any, models: Any) -> Props:
    """Read both answers. Raises ServerError where they are not llama-server's."""
    fields = Fields.of(answer, "/props")
    rows = Fields.of(models, "/v1/models").objects("data", 10_000)
    meta = rows[0].inner("meta") if rows else Fields({}, "/v1/models")
    if not (fields.has("default_generation_settings") and meta.has("n_vocab")):
        raise ServerError("this is no llama-server: /props and /v1/models do not name a model")
    path = fields.text("model_path") or rows[0].text("id")
    context = fields.inner("default_generation_settings").count("n_ctx")
    return Props(
        model=path.replace("\\", "/").rpartition("/")[2],
        build=fields.text("build_info", "unknown"),
        context=context,
        slots=max(1, fields.count("total_slots") or 1),
        vocab_size=meta.count("n_vocab") or 0,
        parameters=meta.count("n_params") or 0,
        nbytes=meta.count("size") or 0,
        has_template=bool(fields.text("chat_template")),
        eos=fields.text("eos_token"),
        train_context=meta.count("n_ctx_train"),
        embedding=meta.count("n_embd") or 0,
    )


def asked_props(client: Client) -> Props:
    """Ask a server for both."""
    return props(client.get("/props").body, client.get("/v1/models").body)


def tokenized(client: Client, text: str, *, around: bool, special: bool = True) -> tuple[int, ...]:
    """The ids of ``text``; with ``around`` those that the tokenizer puts around it too."""
    body = {"content": text, "add_special": around, "parse_special": special}
    answer = Fields.of(client.post("/tokenize", body).body, "/tokenize")
    return answer.ids("tokens", _MOST_PROMPT)


def detokenized(client: Client, ids: Sequence[int]) -> str:
    """The text of ``ids``, special tokens included; parts of characters as U+FFFD."""
    answer = Fields.of(client.post("/detokenize", {"tokens": list(ids)}).body, "/detokenize")
    return answer.text("content")


def templated(client: Client, text: str, system: str | None) -> str:
    """One turn of a chat in the model's template."""
    messages = [{"role": "user", "content": text}]
    if system is not None:
        messages.insert(0, {"role": "system", "content": system})
    answer = Fields.of(
        client.post("/apply-template", {"messages": messages}).body, "/apply-template"
    )
    return answer.text("prompt")
