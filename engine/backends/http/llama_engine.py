"""A running llama-server as an engine: attached to, tried out, and asked for distributions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.backends.base import BackendError, Encoded
from engine.backends.http import llama_server as api
from engine.backends.http.client import Answer as JsonAnswer
from engine.backends.http.client import Client
from engine.backends.http.errors import ServerError
from engine.backends.http.facts import facts_of, identity_note
from engine.backends.http.names import KNOWN_ENDS, TokenNames, encoded, ends_of, token_of
from engine.backends.http.open import opened
from engine.backends.http.probing import (
    accepted,
    alike,
    batch_row,
    metrics_row,
    posted,
    values_are,
)
from engine.backends.llamacpp.dials import sampler_request
from engine.backends.top_n.backend import TopBackend
from engine.backends.top_n.completer import Abilities, Answer, Batch
from engine.progress import Progress
from engine.records.engine import Probed
from engine.records.model import ModelFacts
from engine.records.vocabulary import Token, TokenKind, Vocabulary

_PATH = "/v1/completions"


class LlamaServer:
    """Distributions and tokens of a llama-server. Make one by ``attach``."""

    def __init__(self, client: Client, props: api.Props) -> None:
        self.client = client
        self.props = props
        self.abilities = Abilities()
        self._connected = client.connections
        self._names = TokenNames(self._asked_token)

    # --- distributions --------------------------------------------------------------------------

    def next_token(self, ids: Sequence[int], top: int, *, slot: int, reuse: bool) -> Answer:
        found = self.asked(ids, top, slot=slot, reuse=reuse)
        return api.answer_of(found, top, self.props.vocab_size)

    def batch(self, texts: Sequence[Sequence[int]], top: int) -> Batch:
        answer = self._post("/completion", api.batch_request(texts, top))
        found = api.listed_batch(answer.body, len(texts), self.props.slots, answer.parse_ms)
        for one, _ in found:
            self._names.learn(one.data)
        answers = (api.answer_of(one, top, self.props.vocab_size) for one, _ in found)
        return Batch(tuple(answers), tuple(slot for _, slot in found))

    def positions(self, ids: Sequence[int], start: int, top: int, *, slot: int) -> Answer:
        raise BackendError("llama-server tells the distribution behind a text alone")

    def asked(
        self,
        ids: Sequence[int],
        top: int,
        *,
        slot: int | None = None,
        reuse: bool = True,
        name: str = "logprob",
        **more: Any,
    ) -> api.Listed:
        """One request, and what its answer lists; ``more`` are dials of the server's sampler."""
        body = api.request(ids, top, slot=slot, reuse=reuse, **more)
        answer = self._post(_PATH, body)
        found = api.listed(answer.body, name, answer.parse_ms)
        self._names.learn(found.data)
        return found

    def sampled(
        self, ids: Sequence[int], dials: Mapping[str, Any], count: int
    ) -> Mapping[int, float]:
        """See ``OwnSampler``."""
        more = {**sampler_request(dials), "post_sampling_probs": True}
        found = self.asked(ids, count, name="prob", **more)
        pairs = zip(found.ids, found.values, strict=True)
        return {one: value for one, value in pairs if value is not None and value > 0.0}

    def _post(self, path: str, body: Mapping[str, Any]) -> JsonAnswer:
        """The answer of the model that was attached to. Raises ServerError for another's."""
        return posted(self.client, path, body, self._check_model)

    def _check_model(self) -> None:
        """A new connection may lead to a server that was started anew, with another model."""
        if self._connected == self.client.connections:
            return
        now = api.asked_props(self.client)
        if now.identity != self.props.identity:
            raise ServerError(identity_note(self.client.url, now.identity, self.props.identity))
        self._connected = self.client.connections

    def close(self) -> None:
        self.client.close()

    # --- tokens ---------------------------------------------------------------------------------

    def tokenize(self, text: str, *, chat: bool, system: str | None) -> Encoded:
        notes = []
        if chat and not self.props.has_template:
            notes.append("this model has no chat template: the prompt is read as it is")
            chat = False
        if system and not chat:
            notes.append("the system text is left out: it needs the chat template (--chat)")
        own = api.tokenized(self.client, text, around=False)
        whole = api.templated(self.client, text, system) if chat else text
        ids = api.tokenized(self.client, whole, around=True)
        if len(ids) > 1 and chat and ids[0] == ids[1]:
            # The template has written the beginning of text already.
            ids = api.tokenized(self.client, whole, around=False)
        return encoded(ids, own, chat=chat, notes=notes)

    def token(self, token_id: int) -> Token:
        return self._names.token(token_id)

    def _asked_token(self, token_id: int) -> Token:
        data = api.detokenized(self.client, [token_id]).encode("utf-8", "replace")
        # What a completion writes as nothing is a control token.
        return replace(token_of(token_id, data), kind=TokenKind.SPECIAL)

    def vocabulary(self) -> Vocabulary:
        """Every token: all are in the answer that lists the whole vocabulary."""
        self.asked([0], self.props.vocab_size)
        return Vocabulary.pack(self.token(one) for one in range(self.props.vocab_size))


def attach(client: Client, model: str | None, progress: Progress) -> tuple[LlamaServer, ModelFacts]:
    """Find out what a llama-server is and can. Raises ServerError.

    ``model``: the file's name that it is meant to have.
    """
    progress("attach", None, client.url)
    try:
        props = api.asked_props(client)
    except ServerError as error:
        if error.status == 404:
            raise ServerError(f"{client.url} is no llama-server: {error}", 404) from None
        raise
    if model is not None and Path(model).name != props.model:
        raise ServerError(f"{client.url} has the model {props.model}, and not {model}")
    server = LlamaServer(client, props)
    ids = api.tokenized(client, "The capital of France is", around=True) or (0,)
    progress("attach", 0.2, "how many log-probabilities it gives")
    whole = server.asked(ids, props.vocab_size)
    count = len(whole.ids)
    kind = values_are([one for one in whole.values if one is not None], whole=True)
    raw = _is_raw(server, ids)
    slots = props.slots
    progress("attach", 0.6, "which tokens end a text")
    ends = dict.fromkeys(_ends(server, ids), "llama-server ends a text there")
    rows = (
        Probed("ids in and out", "yes", "prompt and answer by token ids, with exact bytes"),
        Probed(
            "log-probabilities",
            f"{'raw' if raw else 'after its sampler'} {kind}",
            f"the whole vocabulary's add up to 1; {'not ' if raw else ''}moved by a bias",
        ),
        Probed("candidates", "any number" if count >= props.vocab_size else f"{count:,}", "tried"),
        Probed("prompt log-probabilities", "", "llama-server tells the last position's alone"),
        batch := batch_row(lambda: server.batch([ids, ids[:1]], 1)),
        _cached(server, ids),
        Probed("slots", f"{slots:,}", "texts in its cache side by side, asked for by number"),
        metrics_row(client, "start it with --metrics"),
        _slots_row(client),
        Probed("chat template", "yes" if props.has_template else "", "/apply-template"),
        Probed("own sampler", "yes", "probabilities after its chain, for sample --against"),
    )
    server.abilities = Abilities(
        most_top=None if count >= props.vocab_size else count,
        slots=slots,
        batch=batch.given,
        table=rows,
    )
    facts = facts_of(
        backend="llamacpp",
        name=props.model,
        identity=props.identity,
        url=client.url,
        vocab_size=props.vocab_size,
        context=props.context,
        ends=ends,
        template=props.has_template,
        versions={"llama.cpp": props.build},
        parameters=props.parameters,
        weight_bytes=props.nbytes,
        hidden_size=props.embedding,
    )
    progress("attach", 1.0, props.model)
    return server, facts


def _is_raw(server: LlamaServer, ids: Sequence[int]) -> bool:
    """True if what its sampler is told to do does not move the figures."""
    before = server.asked(ids, 10)
    bias = [[before.ids[0], -5.0]]
    after = server.asked(ids, 10, logit_bias=bias, samplers=["temperature"], temperature=0.5)
    return alike(_pairs(before), _pairs(after))


def _pairs(found: api.Listed) -> dict[int, float]:
    pairs = zip(found.ids, found.values, strict=True)
    return {one: value for one, value in pairs if value is not None}


def _ends(server: LlamaServer, ids: Sequence[int]) -> list[int]:
    return ends_of(
        (server.props.eos, *KNOWN_ENDS),
        lambda text: api.tokenized(server.client, text, around=False),
        lambda one: server.asked(ids, 1, logit_bias=[[one, 100.0]]).ended,
    )


def _cached(server: LlamaServer, ids: Sequence[int]) -> Probed:
    known = server.asked(ids, 1).times.cached
    value = "" if known is None else "yes"
    return Probed("cached tokens", value, "its own count, with its own milliseconds")


def _slots_row(client: Client) -> Probed:
    if accepted(lambda: client.get("/slots")):
        return Probed("slot states", "yes", "/slots")
    return Probed("slot states", "", "it was started with --no-slots")


def open_backend(options: Mapping[str, Any], progress: Progress) -> TopBackend:
    """Attach to the server at the option ``url``. Raises BackendError."""
    model = options.get("model")
    return opened("llamacpp", options, lambda client: attach(client, model, progress))
