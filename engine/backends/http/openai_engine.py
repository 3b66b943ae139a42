"""Any server with OpenAI's completions as an engine: it knows texts, so tokens get numbers here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from engine.backends.base import BackendError, Encoded
from engine.backends.http import openai as api
from engine.backends.http.client import Client
from engine.backends.http.errors import ServerError
from engine.backends.http.facts import facts_of
from engine.backends.http.names import KNOWN_ENDS, token_of
from engine.backends.http.open import opened
from engine.backends.http.probing import (
    accepted,
    alike,
    batch_row,
    largest,
    metrics_row,
    values_are,
)
from engine.backends.top_n.backend import TopBackend
from engine.backends.top_n.completer import Abilities, Answer, Batch
from engine.backends.top_n.rows import top_logprobs
from engine.progress import Progress
from engine.records.engine import Probed
from engine.records.model import ModelFacts
from engine.records.partial import TopLogprobs
from engine.records.prompt import Origin
from engine.records.vocabulary import Token, TokenKind, Vocabulary

_PATH = "/v1/completions"
MOST_TOKENS = 1 << 18
"""More tokens than the vocabularies that such servers have; the real number they do not tell."""
_TRIED = 128


class TextServer:
    """Distributions of a server that knows texts. Make one by ``attach``.

    A token's number is its place among those that were seen, the known ends of texts first. A text
    is sent as a whole, and the server makes tokens of it anew: they need not be those it was built
    from.
    """

    def __init__(self, client: Client, model: str) -> None:
        self.client = client
        self.model = model
        self.abilities = Abilities()
        self._tokens: list[Token] = []
        self._ids: dict[bytes, int] = {}
        for text in KNOWN_ENDS:
            self._id(text.encode(), TokenKind.SPECIAL)

    @property
    def ends(self) -> dict[int, str]:
        """Ids of texts that end a text in some model."""
        return {self._ids[text.encode()]: "its text" for text in KNOWN_ENDS}

    def next_token(self, ids: Sequence[int], top: int, *, slot: int, reuse: bool) -> Answer:
        found = self.asked(self._data(ids), top)
        return Answer(self._row(found, top), found.times)

    def batch(self, texts: Sequence[Sequence[int]], top: int) -> Batch:
        prompts = [self._data(ids).decode("utf-8", "replace") for ids in texts]
        answer = self.client.post(_PATH, api.request(self.model, prompts, top))
        found = api.listed_batch(answer.body, len(texts), answer.parse_ms)
        return Batch(tuple(Answer(self._row(one, top), one.times) for one in found))

    def _data(self, ids: Sequence[int]) -> bytes:
        return b"".join(self._tokens[one].bytes for one in ids)

    def positions(self, ids: Sequence[int], start: int, top: int, *, slot: int) -> Answer:
        raise BackendError("this server tells the distribution behind a text alone")

    def asked(self, data: bytes, top: int, **more: float) -> api.Listed:
        """One request, and what its answer lists."""
        text = data.decode("utf-8", "replace")
        answer = self.client.post(_PATH, api.request(self.model, text, top, **more))
        return api.listed(answer.body, answer.parse_ms)

    def _row(self, found: api.Listed, top: int) -> TopLogprobs:
        order = sorted(found.values, key=lambda one: (-found.values[one], one))[:top]
        if found.ambiguous:
            sure = api.certain([found.values[one] for one in order])
            if not sure:
                raise ServerError(
                    "the server gives several tokens one text, and which of them are the likeliest "
                    "cannot be told: force a token to go on"
                )
            order = order[:sure]
        ids = [self._id(one) for one in order]
        values = [found.values[one] for one in order]
        return top_logprobs(ids, values, count=top, vocab_size=MOST_TOKENS)

    def _id(self, data: bytes, kind: TokenKind = TokenKind.NORMAL) -> int:
        if data not in self._ids:
            number = len(self._tokens)
            if number >= MOST_TOKENS:
                raise ServerError(f"the server gave more than {MOST_TOKENS:,} different tokens")
            token = token_of(number, data)
            self._tokens.append(Token(number, data, kind) if kind != TokenKind.NORMAL else token)
            self._ids[data] = number
        return self._ids[data]

    def learn(self, tokens: Iterable[Token]) -> None:
        """See ``Numbering``. What lies between the numbers of a run was in none of its records."""
        for token in tokens:
            if token.id < MOST_TOKENS:
                for number in range(len(self._tokens), token.id + 1):
                    self._tokens.append(Token(number, b"", TokenKind.UNUSED))
                self._tokens[token.id] = token
                self._ids[token.bytes] = token.id

    def close(self) -> None:
        self.client.close()

    # --- tokens ---------------------------------------------------------------------------------

    def tokenize(self, text: str, *, chat: bool, system: str | None) -> Encoded:
        notes = []
        if chat:
            notes.append("completions have no chat template: the prompt is read as it is")
        data = text.encode("utf-8", "surrogatepass")
        pieces = self._pieces(text) or ([data] if data else [])
        if len(pieces) == 1 and len(data) > 1:
            notes.append("the server does not tell a prompt's tokens: it counts as one")
        ids = tuple(self._id(one) for one in pieces)
        return Encoded(ids, (Origin.USER,) * len(ids), tuple(notes))

    def _pieces(self, text: str) -> list[bytes]:
        """The prompt's own tokens, where an echo tells them."""
        if not text:
            return []
        found: list[bytes] = []

        def ask() -> None:
            body = api.request(self.model, text, 1, echo=True)
            found.extend(api.prompt_tokens(self.client.post(_PATH, body).body))

        accepted(ask)
        data = text.encode("utf-8", "surrogatepass")
        for end in (len(found), len(found) - 1):
            if end > 0 and b"".join(found[:end]) == data:
                return found[:end]
        return []

    def token(self, token_id: int) -> Token:
        if token_id < len(self._tokens):
            return self._tokens[token_id]
        return Token(token_id, b"", TokenKind.UNUSED)

    def vocabulary(self) -> Vocabulary:
        raise BackendError("a server of texts does not list its vocabulary")


def attach(client: Client, model: str | None, progress: Progress) -> tuple[TextServer, ModelFacts]:
    """Find out what a server of completions can. Raises ServerError."""
    progress("attach", None, client.url)
    server = TextServer(client, _chosen(client, model))
    probe = b"The capital of France is"
    progress("attach", 0.3, "how many log-probabilities it gives")
    most = largest(lambda count: accepted(lambda: server.asked(probe, count)), _TRIED)
    if not most:
        # Asked once more: its own words say why.
        server.asked(probe, 1)
        raise ServerError("the server gives no log-probabilities: there is nothing to show")
    first = server.asked(probe, most)
    count = len(first.values)
    values = list(first.values.values())
    kind = values_are(values, whole=False)
    raw = alike(_pairs(first), _pairs(server.asked(probe, most, temperature=0.5)))
    echo = len(server._pieces(probe.decode())) > 0
    cached = first.times.cached
    batch = batch_row(
        lambda: api.listed_batch(
            client.post(_PATH, api.request(server.model, [probe.decode(), "The"], 1)).body, 2
        )
    )
    table = (
        Probed("ids in and out", "", "texts alone: tokens have numbers of ours"),
        Probed(
            "log-probabilities",
            f"{'raw' if raw else 'after its sampler'} {kind}",
            "asked for at temperature 1",
        ),
        Probed("candidates", f"{count:,}", "tried"),
        Probed("prompt log-probabilities", "", "not asked for"),
        batch,
        Probed("prompt's tokens", "yes" if echo else "", "" if echo else "it gives no echo"),
        Probed("cached tokens", "" if cached is None else "yes", "" if cached else "not in usage"),
        Probed("own milliseconds", "", "OpenAI's answers have none"),
        metrics_row(client, "it has no /metrics"),
        Probed("chat template", "", "completions have none"),
        Probed("own sampler", "", "its chain is not told"),
    )
    server.abilities = Abilities(most_top=count, slots=0, batch=batch.given, table=table)
    progress("attach", 1.0, server.model)
    return server, facts_of(
        backend="openai",
        name=server.model,
        identity=f"{server.model} at {client.url}",
        url=client.url,
        vocab_size=MOST_TOKENS,
        context=None,
        ends=server.ends,
        template=False,
        versions={},
        notes=(
            (
                "the server knows texts: ids are numbers given here, and bounds are those of a "
                f"vocabulary of at most {MOST_TOKENS:,}"
            ),
        ),
    )


def _chosen(client: Client, wanted: str | None) -> str:
    """The model that is meant; the one that there is where none is named."""
    there: list[str] = []
    listed = accepted(lambda: there.extend(api.models(client.get("/v1/models").body)))
    if wanted is None:
        if len(there) == 1:
            return there[0]
        has = f"; it has {', '.join(there[:8])}" if there else ""
        raise ServerError(f"which of the server's models? name one by --model{has}")
    if listed and there and wanted not in there:
        raise ServerError(f"the server has no model {wanted}; it has {', '.join(there[:8])}")
    return wanted


def _pairs(found: api.Listed) -> dict[bytes, float]:
    return dict(sorted(found.values.items(), key=lambda one: -one[1])[:10])


def open_backend(options: Mapping[str, Any], progress: Progress) -> TopBackend:
    """Attach to the server at the option ``url``. Raises BackendError."""
    model = options.get("model")
    return opened("openai", options, lambda client: attach(client, model, progress))
