"""Opening an engine behind a URL, whichever it is: its client, a tokenizer, the backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from engine.backends.base import BackendError
from engine.backends.http.client import TIMEOUT_S, Client
from engine.backends.top_n.backend import TopBackend
from engine.backends.top_n.completer import Completer, Tokens
from engine.models.checks import ModelError
from engine.models.resolve import resolve
from engine.models.tokenizer_file import FILE, Names, TokenizerError
from engine.records.model import ModelFacts
from engine.timing import now_ms

DEFAULT_TOP = 100
"""Log-probabilities that are asked for at each step."""


class Attached(Completer, Tokens, Protocol):
    """A server: it tells distributions and tokens."""


def _client_of(options: Mapping[str, Any], engine: str) -> Client:
    """The client for the URL of the options. Raises BackendError where there is none."""
    url = options.get("url")
    if not url:
        raise BackendError(
            f"--engine {engine} attaches to a running server: say where it is by --url, "
            "such as --url http://127.0.0.1:8000"
        )
    timeout = options.get("timeout")
    return Client(
        str(url),
        key_variable=options.get("api_key_env"),
        timeout_s=TIMEOUT_S if timeout is None else float(timeout),
    )


def names_of(wanted: str | None) -> Names | None:
    """The tokenizer that names tokens exactly: a folder, a file, or a model that is here."""
    if wanted is None:
        return None
    path = Path(wanted).expanduser()
    try:
        if path.suffix != ".json":
            path = (path if path.is_dir() else resolve(wanted, offline=True).path) / FILE
        return Names(path)
    except (ModelError, TokenizerError) as error:
        raise BackendError(f"--tokenizer: {error}") from None


def opened(
    engine: str,
    options: Mapping[str, Any],
    attach: Callable[[Client], tuple[Attached, ModelFacts]],
) -> TopBackend:
    """The backend of the server at the option ``url``. Raises BackendError, the client closed."""
    started, client = now_ms(), _client_of(options, engine)
    try:
        server, facts = attach(client)
        return _backend_of(server, facts, options, started)
    except BaseException:
        client.close()
        raise


def _backend_of(
    server: Attached, facts: ModelFacts, options: Mapping[str, Any], started_ms: float
) -> TopBackend:
    """The backend of a server that was attached to since ``started_ms``."""
    asked, most = options.get("top"), server.abilities.most_top
    top = DEFAULT_TOP if asked is None else int(asked)
    if most is not None and asked is not None and top > most:
        raise BackendError(f"--top {top:,}: this server gives at most {most:,} log-probabilities")
    top = min(top, most or top, facts.vocab_size - 1)
    return TopBackend(
        server,
        server,
        replace(
            facts,
            top=top,
            probed=server.abilities.table,
            load_ms=now_ms() - started_ms,
        ),
    )
