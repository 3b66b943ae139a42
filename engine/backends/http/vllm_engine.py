"""A running vLLM server as an engine: attached to, tried out, and asked for distributions."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from engine.backends.base import BackendError, Encoded
from engine.backends.http import vllm as api
from engine.backends.http.client import Answer as JsonAnswer
from engine.backends.http.client import Client
from engine.backends.http.errors import ServerError
from engine.backends.http.facts import facts_of, identity_note
from engine.backends.http.fields import MOST_VOCAB, Fields
from engine.backends.http.names import KNOWN_ENDS, TokenNames, encoded, ends_of, token_of
from engine.backends.http.open import names_of, opened
from engine.backends.http.probing import (
    MOST_TOP,
    Values,
    accepted,
    alike,
    batch_row,
    largest,
    log_sum,
    metrics_row,
    posted,
    values_are,
)
from engine.backends.top_n.backend import TopBackend
from engine.backends.top_n.completer import BATCH, Abilities, Answer, Batch
from engine.backends.top_n.rows import stacked, top_logprobs
from engine.models.tokenizer_file import Names
from engine.progress import Progress
from engine.records.engine import EngineTimes, Probed
from engine.records.model import ModelFacts
from engine.records.partial import TopLogprobs
from engine.records.vocabulary import Token, TokenKind, Vocabulary

_PATH = "/v1/completions"
_WHOLE = -1
_NAMED = 256
"""Tokens whose texts are asked for at once."""


class VllmServer:
    """Distributions and tokens of a model that vLLM serves. Make one by ``attach``.

    ``names``: the model's own tokenizer, where this machine has it; the server tells the text of
    a token, but not the bytes of one that is a part of a character.
    """

    def __init__(self, client: Client, served: api.Served, names: Names | None = None) -> None:
        self.client = client
        self.served = served
        self.abilities = Abilities()
        self.vocab_size = MOST_VOCAB
        self.kind = Values.LOGPROBS
        self.has_template = False
        self._connected = client.connections
        self._exact = names
        self._names = TokenNames(self._asked_token)
        self._listed: tuple[int, ...] = ()
        """The tokens of the last answer: where one's text is wanted, that of others will be."""
        self._between: tuple[int, str] | None = None
        """A token, and its text, that keeps others apart when several are asked for."""

    # --- distributions --------------------------------------------------------------------------

    def next_token(self, ids: Sequence[int], top: int, *, slot: int, reuse: bool) -> Answer:
        # Logits say nothing about the mass of the rest: they are read whole.
        whole = self.kind is Values.LOGITS or top >= self.vocab_size
        more = {} if reuse else {"cache_salt": secrets.token_hex(8)}
        found = self.asked(ids, _WHOLE if whole else top, **more)
        return Answer(self._row(found, top), found.times)

    def batch(self, texts: Sequence[Sequence[int]], top: int) -> Batch:
        body = api.request(self.served.name, [list(ids) for ids in texts], top)
        answer = self._post(body)
        found = api.listed_batch(answer.body, len(texts), answer.parse_ms)
        self._listed = tuple(token_id for one in found for token_id in one.ids)
        return Batch(tuple(Answer(self._row(one, top), one.times) for one in found))

    def positions(self, ids: Sequence[int], start: int, top: int, *, slot: int) -> Answer:
        whole = self.kind is Values.LOGITS or top >= self.vocab_size
        asked = _WHOLE if whole else top
        body = api.request(self.served.name, ids, asked, prompt_logprobs=asked)
        answer = self._post(body)
        rows = api.prompt_rows(answer.body)
        if len(rows) != len(ids):
            raise ServerError(f"prompt_logprobs of {len(rows):,} positions for {len(ids):,}")
        last = api.listed(answer.body, answer.parse_ms)
        found = [*(one for one in rows[start + 1 :] if one is not None), last]
        return Answer(stacked([self._row(one, top) for one in found]), last.times)

    def asked(self, ids: Sequence[int], top: int, **more: Any) -> api.Listed:
        """One request, and what its answer lists; ``more`` are settings of vLLM's sampler."""
        answer = self._post(api.request(self.served.name, ids, top, **more))
        found = api.listed(answer.body, answer.parse_ms)
        self._listed = tuple(found.ids)
        return found

    def _row(self, found: api.Listed, top: int) -> TopLogprobs:
        values = np.asarray(found.values, np.float64)
        if self.kind is Values.LOGITS:
            values = values - log_sum(values)
        return top_logprobs(found.ids, values.tolist(), count=top, vocab_size=self.vocab_size)

    def _post(self, body: Mapping[str, Any]) -> JsonAnswer:
        """The answer of the model that was attached to. Raises ServerError for another's."""
        return posted(self.client, _PATH, body, self._check_model)

    def _check_model(self) -> None:
        """A new connection may lead to a server that was started anew, with another model."""
        if self._connected == self.client.connections:
            return
        there = api.served(self.client.get("/v1/models").body)
        if self.served not in there:
            now = ", ".join(one.name for one in there) or "none"
            raise ServerError(identity_note(self.client.url, now, self.served.name))
        self._connected = self.client.connections

    def close(self) -> None:
        self.client.close()

    # --- tokens ---------------------------------------------------------------------------------

    def tokenize(self, text: str, *, chat: bool, system: str | None) -> Encoded:
        notes = []
        if chat and not self.has_template:
            notes.append("this model has no chat template: the prompt is read as it is")
            chat = False
        if system and not chat:
            notes.append("the system text is left out: it needs the chat template (--chat)")
        name = self.served.name
        own, _ = api.tokenized(self.client, name, text, around=False)
        if chat:
            ids = api.templated(self.client, name, text, system)
        else:
            ids, _ = api.tokenized(self.client, name, text, around=True)
        return encoded(ids, own, chat=chat, notes=notes)

    def token(self, token_id: int) -> Token:
        if self._exact is not None:
            if token_id >= self._exact.size:
                return Token(token_id, b"", TokenKind.UNUSED)
            return self._exact.token(token_id)
        return self._names.token(token_id)

    def _asked_token(self, token_id: int) -> Token:
        others = (one for one in self._listed if one != token_id and one not in self._names)
        ids = [token_id, *islice(others, _NAMED - 1)]
        texts = self.texts(ids) or self.texts(ids[:1])
        data = {one: text.encode("utf-8", "replace") for one, text in zip(ids, texts, strict=False)}
        self._names.learn(data)
        return token_of(token_id, data[token_id])

    def texts(self, ids: Sequence[int]) -> list[str]:
        """The text of each token, by one request; empty where that does not keep them apart."""
        name = self.served.name
        if len(ids) == 1:
            return [api.detokenized(self.client, name, ids)]
        if self._between is None:
            return []
        between, text = self._between
        joined = [between, *(one for token_id in ids for one in (token_id, between))]
        first, *found, last = api.detokenized(self.client, name, joined).split(text)
        return found if len(found) == len(ids) and not first + last else []

    def find_between(self, ends: Iterable[int], ids: Sequence[int]) -> None:
        """Find a token that keeps the texts of others apart; ``ids`` are some to try it with."""
        alone = [self.texts([one])[0] for one in ids]
        for end in ends:
            self._between = end, self.texts([end])[0]
            if self._between[1] and self.texts(ids) == alone:
                return
        self._between = None

    def vocabulary(self) -> Vocabulary:
        if self._exact is None:
            raise BackendError(
                "vLLM does not list its vocabulary: give the model's tokenizer by --tokenizer"
            )
        return Vocabulary.pack(self.token(one) for one in range(self.vocab_size))


def attach(
    client: Client, model: str | None, names: Names | None, progress: Progress
) -> tuple[VllmServer, ModelFacts]:
    """Find out what a vLLM server is and can. Raises ServerError."""
    progress("attach", None, client.url)
    server = VllmServer(client, chosen(api.served(client.get("/v1/models").body), model), names)
    version = _version(client)
    ids, context = api.tokenized(
        client, server.served.name, "The capital of France is", around=True
    )
    ids = ids or (0,)
    progress("attach", 0.2, "how many log-probabilities it gives")
    most = _most(server, ids)
    _find_vocabulary(server, ids, most)
    first = server.asked(ids, most or _WHOLE)
    server.kind = values_are(first.values, whole=most is None)
    if server.kind is Values.LOGITS and most is not None:
        raise ServerError(
            f"{client.url} gives logits, of only {most:,} tokens: what the others hold cannot be "
            "told from them; start vLLM with --logprobs-mode raw_logprobs, or --max-logprobs -1"
        )
    raw = alike(_pairs(first), _pairs(server.asked(ids, most or _WHOLE, temperature=0.5)))
    progress("attach", 0.6, "which tokens end a text")
    ends = dict.fromkeys(_ends(server, ids), "vLLM ends a text there")
    if names is None:
        server.find_between(ends, ids)
    server.has_template = accepted(lambda: api.templated(client, server.served.name, "Hi", None))
    prompt = accepted(
        lambda: api.prompt_rows(
            client.post(_PATH, api.request(server.served.name, ids, 1, prompt_logprobs=1)).body
        )
    )
    if server.kind is Values.LOGITS:
        batch = Probed(BATCH, "", "logits are read of the whole vocabulary, a text at a time")
    else:
        batch = batch_row(lambda: server.batch([ids, ids[:1]], 1))
    server.abilities = Abilities(
        most_top=most,
        slots=0,
        prompt_logprobs=prompt,
        batch=batch.given,
        table=_table(client, server, first.times, batch, raw=raw, most=most, prompt=prompt),
    )
    served = server.served
    progress("attach", 1.0, served.name)
    return server, facts_of(
        backend="vllm",
        name=served.name,
        identity=served.root or served.name,
        url=client.url,
        vocab_size=server.vocab_size,
        tokenizer_size=None if names is None else names.size,
        context=served.context or context,
        ends=ends,
        template=server.has_template,
        versions={"vllm": version},
        notes=()
        if names is not None
        else ("a token that is a part of a character shows as \ufffd: --tokenizer has its bytes",),
    )


def _version(client: Client) -> str:
    try:
        return Fields.of(client.get("/version").body, "/version").text("version", "unknown")
    except ServerError as error:
        if error.status != 404:
            raise
        others = "--engine llamacpp attaches to a llama-server, openai to others"
        raise ServerError(f"{client.url} is no vLLM: {others}", 404) from None


def chosen(there: Sequence[api.Served], wanted: str | None) -> api.Served:
    """The model that is meant. Raises ServerError where it is not there, or one of several."""
    names = ", ".join(one.name for one in there[:8])
    if not there:
        raise ServerError("the server has no model")
    if wanted is None and len(there) > 1:
        raise ServerError(f"the server has several models: choose one by --model: {names}")
    found = [one for one in there if wanted in (None, one.name)]
    if not found:
        raise ServerError(f"the server has no model {wanted}; it has {names}")
    return found[0]


def _table(
    client: Client,
    server: VllmServer,
    times: EngineTimes,
    batch: Probed,
    *,
    raw: bool,
    most: int | None,
    prompt: bool,
) -> tuple[Probed, ...]:
    values = f"{'raw' if raw else 'after its sampler'} {server.kind}"
    how = "a temperature moves them not" if raw else "asked for with a sampler that changes nothing"
    return (
        Probed("ids in and out", "yes", "prompt and answer by token ids"),
        Probed("log-probabilities", values, how),
        Probed(
            "candidates",
            "any number" if most is None else f"{most:,}",
            "tried" if most is None else "start it with --max-logprobs -1 for more",
        ),
        Probed("prompt log-probabilities", "yes" if prompt else "", "tried"),
        batch,
        Probed(
            "cached tokens",
            "" if times.cached is None else "yes",
            "start it with --enable-prompt-tokens-details" if times.cached is None else "in usage",
        ),
        Probed("own milliseconds", "", "vLLM tells none of a request"),
        Probed("slots", "", "vLLM keeps what it has room for; nobody says where"),
        metrics_row(client, "it has no /metrics"),
        Probed("chat template", "yes" if server.has_template else "", "tried"),
        Probed(
            "own sampler", "", "what vLLM's chain leaves is not asked for: llama.cpp's alone is"
        ),
    )


def _most(server: VllmServer, ids: Sequence[int]) -> int | None:
    """Most log-probabilities that it gives; None for the whole vocabulary's."""
    if accepted(lambda: server.asked(ids, _WHOLE)):
        return None
    most = largest(lambda count: accepted(lambda: server.asked(ids, count)), MOST_TOP)
    if not most:
        raise ServerError("the server gives no log-probabilities: there is nothing to show")
    return most


def _find_vocabulary(server: VllmServer, ids: Sequence[int], most: int | None) -> None:
    """Set the size of the vocabulary: from a whole distribution, else by which ids are refused."""
    if most is None:
        server.vocab_size = max(server.asked(ids, _WHOLE).ids) + 1
    else:
        server.vocab_size = 1 + largest(
            lambda last: accepted(lambda: server.asked([last], 1)), MOST_VOCAB - 1
        )


def _pairs(found: api.Listed) -> dict[int, float]:
    """The likeliest of what is listed."""
    pairs = sorted(zip(found.ids, found.values, strict=True), key=lambda one: -one[1])
    return dict(pairs[:10])


def _ends(server: VllmServer, ids: Sequence[int]) -> list[int]:
    name = server.served.name
    return ends_of(
        KNOWN_ENDS,
        lambda text: api.tokenized(server.client, name, text, around=False)[0],
        lambda one: server.asked(ids, 1, logit_bias={str(one): 100.0}, temperature=0.0).ended,
    )


def open_backend(options: Mapping[str, Any], progress: Progress) -> TopBackend:
    """Attach to the server at the option ``url``. Raises BackendError."""
    model, tokenizer = options.get("model"), options.get("tokenizer")
    return opened(
        "vllm", options, lambda client: attach(client, model, names_of(tokenizer), progress)
    )
