"""Servers that speak as llama-server, vLLM and OpenAI do, over 300 words and no model.

Their forms are those of the real ones; ``tests/data`` has talks with these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engine.backends import open_backend
from engine.backends.base import Backend, BackendError
from engine.backends.scripted import ScriptedBackend
from engine.records.arrays import FloatArray
from tests.http_server import Asked, reply, started
from tests.top_backend import TOKENS, words

BYTE = 7
"""A token that is a part of a character: its text is U+FFFD."""
END = len(TOKENS) - 1


def some_words() -> ScriptedBackend:
    """300 words, of which one is a part of a character and the last ends a text."""
    own = {BYTE: b"\xe2", END: b"</s>"}
    return ScriptedBackend(words, [own.get(at, one) for at, one in enumerate(TOKENS)])


def logprobs_of(logits: FloatArray) -> FloatArray:
    whole = logits.astype(np.float64)
    return (whole - np.logaddexp.reduce(whole)).astype(np.float32)


@dataclass
class Fake:
    """What all of them have: how they answer, and what they are told to be like."""

    inner: ScriptedBackend = field(default_factory=some_words)
    most: int | None = None
    """Log-probabilities that it gives at most."""
    mode: str = "raw_logprobs"
    context: int = 512
    model: str = "words.gguf"
    metrics: bool = True
    template: bool = True
    batch: bool = True
    """It takes several texts in one request."""
    gives: bool = True
    """It gives log-probabilities at all."""
    override: Callable[[Asked], bytes | None] = field(default=lambda asked: None)
    """An answer in place of its own, for a request that it is to go wrong with."""

    def __call__(self, asked: Asked) -> bytes:
        found = self.override(asked)
        return self.answer(asked) if found is None else found

    def answer(self, asked: Asked) -> bytes:
        raise NotImplementedError

    @property
    def width(self) -> int:
        return self.inner.facts.vocab_size

    @property
    def end(self) -> int:
        tokens = (self.inner.token(one) for one in range(self.width))
        return next((one.id for one in tokens if one.bytes == b"</s>"), -1)

    def text(self, token_id: int) -> str:
        return self.inner.token(token_id).bytes.decode("utf-8", "replace")

    def ids(self, text: str) -> list[int]:
        """The ids of a text; none where it has other characters than the vocabulary."""
        try:
            return self.inner.ids_of(text)
        except BackendError:
            return []

    def logits(self, ids: Sequence[int], body: Mapping[str, Any]) -> FloatArray:
        """What the model says, moved by a bias of the request."""
        logits = self.inner.reference_logits(ids).copy()
        bias = body.get("logit_bias") or {}
        for token_id, value in bias.items() if isinstance(bias, dict) else bias:
            logits[int(token_id)] += value
        return logits

    def values(self, ids: Sequence[int], body: Mapping[str, Any]) -> FloatArray:
        """The figures of the whole vocabulary, as the mode has them."""
        plain = self.logits(ids, {})
        if self.mode == "raw_logits":
            return plain
        if self.mode == "raw_logprobs":
            return logprobs_of(plain)
        return logprobs_of(self.logits(ids, body) / max(body.get("temperature", 1.0), 0.01))


def error(status: int, message: str) -> bytes:
    return reply({"error": {"code": status, "message": message, "type": "error"}}, status)


def first(values: FloatArray, count: int) -> list[int]:
    found: list[int] = np.lexsort((np.arange(values.size), -values))[:count].tolist()
    return found


class FakeLlama(Fake):
    """llama-server."""

    def answer(self, asked: Asked) -> bytes:
        body = asked.body or {}
        match asked.path:
            case "/props":
                return reply(
                    {
                        "default_generation_settings": {"n_ctx": self.context},
                        "total_slots": 2,
                        "model_path": f"/models/{self.model}",
                        "build_info": "b1-fake",
                        "chat_template": "x" if self.template else "",
                        "eos_token": self.text(self.end) if self.end >= 0 else "",
                    }
                )
            case "/v1/models":
                meta = {"n_vocab": self.width, "n_params": 300, "size": 1200, "n_ctx_train": 512}
                return reply({"data": [{"id": self.model, "meta": meta}]})
            case "/tokenize":
                return reply({"tokens": self.ids(body["content"])})
            case "/detokenize":
                return reply({"content": "".join(self.text(one) for one in body["tokens"])})
            case "/apply-template":
                parts = [f" w1{one['content']} w2" for one in body["messages"]]
                return reply({"prompt": "".join(parts)})
            case "/slots":
                return reply([{}, {}])
            case "/metrics" if self.metrics:
                return reply("llamacpp:prompt_tokens_total 5\n")
            case "/v1/completions":
                return self._completed(body)
            case "/completion" if self.batch:
                return self._several(body)
        return error(404, "File Not Found")

    def _several(self, body: Mapping[str, Any]) -> bytes:
        """Texts of one request, the last one's answer first: what tells them apart is the index."""
        found = []
        for at, ids in enumerate(body["prompt"]):
            choice = self._choice(ids, body)
            one = {"index": at, "id_slot": at % 2, "timings": _timings(1), "stop_type": "limit"}
            found.append({**one, "completion_probabilities": choice["logprobs"]["content"]})
        return reply(found[::-1])

    def _completed(self, body: Mapping[str, Any]) -> bytes:
        ids = body["prompt"]
        if len(ids) >= self.context:
            return error(
                400,
                f"request ({len(ids)} tokens) exceeds the available context size "
                f"({self.context} tokens), try increasing it",
            )
        choice = self._choice(ids, body)
        answer = {"choices": [choice], "timings": _timings(len(ids)), "model": self.model}
        return reply(answer)

    def _choice(self, ids: Sequence[int], body: Mapping[str, Any]) -> dict[str, Any]:
        values = self.values(ids, body)
        count = min(body["n_probs"], self.most or self.width)
        rows = [
            {
                "id": one,
                "token": self.text(one),
                "bytes": [] if one == self.end else list(self.inner.token(one).bytes),
                "logprob": float(values[one]),
            }
            for one in first(values, count)
        ]
        chosen = int(np.argmax(self.logits(ids, body)))
        content = [{"id": chosen, "top_logprobs": rows}]
        return {
            "index": 0,
            "finish_reason": "stop" if chosen == self.end else "length",
            "logprobs": {"content": content} if self.gives else None,
        }


def _timings(count: int) -> dict[str, float]:
    return {"cache_n": 0, "prompt_n": count, "prompt_ms": 1.0, "predicted_ms": 0.5}


class FakeVllm(Fake):
    """vLLM's OpenAI server."""

    def answer(self, asked: Asked) -> bytes:
        body = asked.body or {}
        match asked.path:
            case "/v1/models":
                row = {"id": self.model, "root": "/m", "max_model_len": self.context}
                return reply({"data": [row]})
            case "/version":
                return reply({"version": "0.0-fake"})
            case "/tokenize":
                text = body.get("prompt")
                if text is None and not self.template:
                    return error(400, "the model has no chat template")
                if text is None:
                    text = "".join(f" w1{one['content']} w2" for one in body["messages"])
                ids = self.ids(text)
                return reply({"tokens": ids, "count": len(ids), "max_model_len": self.context})
            case "/detokenize":
                return reply({"prompt": "".join(self.text(one) for one in body["tokens"])})
            case "/metrics" if self.metrics:
                return reply('vllm:num_requests_running{engine="0"} 0.0\n')
            case "/v1/completions":
                return self._completed(body)
        return error(404, "Not Found")

    def _completed(self, body: Mapping[str, Any]) -> bytes:
        ids, top = body["prompt"], body["logprobs"]
        if isinstance(ids[0], list):
            if not self.batch:
                return error(400, "one prompt at a time")
            rows = [self._choice(one, body, top) | {"index": at} for at, one in enumerate(ids)]
            return reply({"model": self.model, "choices": rows[::-1], "usage": {}})
        if max(ids) >= self.width:
            return error(400, f"Token id {max(ids)} is out of vocabulary")
        if len(ids) >= self.context:
            return error(
                400,
                f"This model's maximum context length is {self.context} tokens. However, your "
                f"request has {len(ids)} input tokens.",
            )
        if not self.gives or (self.most is not None and not 0 <= top <= self.most):
            return error(400, f"Requested {top} logprobs, the most allowed is {self.most}")
        usage = {"prompt_tokens": len(ids), "completion_tokens": 1}
        choices = [self._choice(ids, body, top)]
        return reply({"model": self.model, "choices": choices, "usage": usage})

    def _choice(self, ids: Sequence[int], body: Mapping[str, Any], top: int) -> dict[str, Any]:
        chosen = int(np.argmax(self.logits(ids, body)))
        choice: dict[str, Any] = {
            "index": 0,
            "finish_reason": "stop" if chosen == self.end else "length",
            "logprobs": {"top_logprobs": [self._row(ids, body, top)], "tokens": ["x"]},
        }
        if "prompt_logprobs" in body:
            count = self.width if body["prompt_logprobs"] < 0 else body["prompt_logprobs"]
            choice["prompt_logprobs"] = [None] + [
                {
                    str(one): {"logprob": value, "rank": 1, "decoded_token": "x"}
                    for one, value in self._listed(ids[:end], body, count)
                }
                for end in range(1, len(ids))
            ]
        return choice

    def _row(self, ids: Sequence[int], body: Mapping[str, Any], top: int) -> dict[str, float]:
        count = self.width if top < 0 else top
        return {f"token_id:{one}": value for one, value in self._listed(ids, body, count)}

    def _listed(
        self, ids: Sequence[int], body: Mapping[str, Any], count: int
    ) -> list[tuple[int, float]]:
        values = self.values(ids, body)
        drawn = int(np.argmin(values))  # vLLM lists the token that it drew itself too
        found = dict.fromkeys([*first(values, count), drawn])
        return [(one, max(float(values[one]), -9999.0)) for one in found]


class FakeOpenai(Fake):
    """A server of completions that knows texts alone."""

    def answer(self, asked: Asked) -> bytes:
        body = asked.body or {}
        if asked.path == "/v1/models":
            return reply({"data": [{"id": self.model}]})
        if asked.path != "/v1/completions":
            return error(404, "no such page")
        top = body["logprobs"]
        if not self.gives:
            return reply({"choices": [{"index": 0, "text": "x", "logprobs": None}], "usage": {}})
        if top > (self.most or 5):
            return error(400, f"logprobs must be at most {self.most or 5}")
        if body.get("echo"):
            tokens = [*(self.text(one) for one in self.ids(body["prompt"])), " w9"]
            return reply({"choices": [{"logprobs": {"tokens": tokens}}]})
        texts = body["prompt"]
        if isinstance(texts, list) and not self.batch:
            return error(400, "prompt must be a string")
        texts = texts if isinstance(texts, list) else [texts]
        choices = []
        for at, text in enumerate(texts):
            values = self.values(self.ids(text) or [0], body)
            row = {self.text(one): float(values[one]) for one in first(values, top)}
            told = {"top_logprobs": [row], "tokens": ["x"]}
            choices.append({"index": at, "text": "x", "logprobs": told})
        return reply({"choices": choices, "usage": {"prompt_tokens": 1}})


FAKES: dict[str, type[Fake]] = {"llamacpp": FakeLlama, "vllm": FakeVllm, "openai": FakeOpenai}


def backend_on(name: str, inner: ScriptedBackend, **options: Any) -> Backend:
    """A backend attached to a server that lasts as long as this process; it has no template."""
    server = started(FAKES[name](inner, template=False))
    return open_backend(name, {"url": server.url, **options})
