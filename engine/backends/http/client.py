"""Requests to one server, with limits of time and size; the URL that was given and no other.

Nothing of the environment is used but the variable that holds the key, where one is named: no
proxies, no cookies, no redirects. The key is in no error, record or log, not even where the server
repeats it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import ssl
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import httpcore2

from engine.backends.base import BackendError
from engine.backends.http.address import base_url
from engine.backends.http.errors import ServerError
from engine.text import quote
from engine.timing import now_ms

TIMEOUT_S = 120.0
"""Seconds that an answer may take in all; reading a long prompt is part of it."""
CONNECT_S = 5.0
MOST_BYTES = 64 << 20
"""Bytes of the longest answer: whole vocabularies of 250,000 tokens take less."""
_MOST_SAID = 300
"""Characters shown of what a server says about an error."""
_CHUNK = 1 << 16


@dataclass(frozen=True, eq=False)
class Answer:
    """A server's answer, parsed, and what it cost here.

    ``network_ms`` runs from before the request goes out until the last byte is there, what the
    engine itself took included; ``parse_ms`` is the parsing of ``nbytes`` of JSON.
    """

    body: Any
    network_ms: float
    parse_ms: float = 0.0
    nbytes: int = 0


class Client:
    """One server. ``connections`` counts how often it was connected to."""

    def __init__(
        self,
        url: str,
        *,
        key_variable: str | None = None,
        timeout_s: float = TIMEOUT_S,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        """``url``: where the API begins; ``key_variable`` names the environment variable of a key.

        Raises BackendError for what is no such URL, and where the variable is not set.
        """
        self.url = base_url(url)
        self.timeout_s = timeout_s
        self._most_bytes = most_bytes
        self._key = _key(key_variable)
        self._key_variable = key_variable
        self._network = _Network()
        self._pool = httpcore2.ConnectionPool(
            max_connections=1, retries=0, network_backend=self._network
        )

    @property
    def connections(self) -> int:
        return self._network.connections

    def get(self, path: str) -> Answer:
        """The JSON at ``path``. Raises ServerError."""
        return self._asked("GET", path, None)

    def text(self, path: str) -> str:
        """The text at ``path``, as a server's metrics are. Raises ServerError."""
        data, _ = self._sent("GET", path, None)
        return data.decode("utf-8", "replace")

    def post(self, path: str, body: Mapping[str, Any]) -> Answer:
        """Send JSON to ``path``. Raises ServerError."""
        return self._asked("POST", path, json.dumps(body).encode())

    def close(self) -> None:
        """Close the connection."""
        self._pool.close()

    def _asked(self, method: str, path: str, content: bytes | None) -> Answer:
        data, network_ms = self._sent(method, path, content)
        parsing = now_ms()
        try:
            body = json.loads(data)
        except (ValueError, RecursionError):
            said = self._said(data)
            raise ServerError(f"{self.url}{path} did not answer in JSON: {said}") from None
        return Answer(body, network_ms, now_ms() - parsing, len(data))

    def _sent(self, method: str, path: str, content: bytes | None) -> tuple[bytes, float]:
        """(body, ms) of the answer, whose status says that all is well."""
        started, again = now_ms(), self.connections > 0
        self._network.ends_ms = started + 1000 * self.timeout_s
        while True:
            connected = self.connections
            try:
                return self._once(method, path, content), now_ms() - started
            except httpcore2.ConnectTimeout:
                raise ServerError(
                    f"{self.url} cannot be reached within {CONNECT_S:g} s: is the server up?"
                ) from None
            except httpcore2.TimeoutException:
                raise ServerError(
                    f"{self.url}{path} has not answered within {self.timeout_s:g} s: it may be "
                    "busy with a long prompt; --timeout S waits longer"
                ) from None
            except httpcore2.ConnectError as error:
                raise ServerError(
                    f"{self.url} cannot be reached: {_cause(error)}: is the server up?"
                ) from None
            except (httpcore2.NetworkError, httpcore2.ProtocolError) as error:
                # A server that was started anew has closed the connection of before.
                if again and self.connections == connected:
                    again = False
                    continue
                raise ServerError(
                    f"{self.url}{path} ended in the middle of an answer: {_cause(error)}"
                ) from None

    def _once(self, method: str, path: str, content: bytes | None) -> bytes:
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        if content is not None:
            headers["Content-Type"] = "application/json"
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        with self._pool.stream(
            method,
            self.url + path,
            headers=[(name.encode(), value.encode()) for name, value in headers.items()],
            content=content,
            extensions={"timeout": {"connect": CONNECT_S, "pool": CONNECT_S}},
        ) as response:
            data = self._read(response, path)
            if 200 <= response.status < 300:
                return data
            raise ServerError(self._refusal(response, path, data), response.status)

    def _read(self, response: httpcore2.Response, path: str) -> bytes:
        pieces, size = [], 0
        for piece in response.iter_stream():
            size += len(piece)
            if size > self._most_bytes:
                most = f"{self._most_bytes >> 20} MiB"
                raise ServerError(f"{self.url}{path}: the answer is longer than {most}")
            pieces.append(piece)
        return b"".join(pieces)

    def _refusal(self, response: httpcore2.Response, path: str, data: bytes) -> str:
        """The meaning of an answer that is no success, in one line."""
        status, where = response.status, f"{self.url}{path}"
        headers = {name.lower(): value for name, value in response.headers}
        said = self._said(data)
        if 300 <= status < 400:
            to = self._said(headers.get(b"location", b""))
            return (
                f"{where} sends on to {to}: no other address than the one given is asked; "
                "give that one as --url if it is meant"
            )
        if status in (401, 403):
            wants = (
                f"the key in {self._key_variable} is not accepted"
                if self._key
                else "it wants a key: name the environment variable that has it with --api-key-env"
            )
            return f"{where}: {status}, {wants}{_after(said)}"
        if status == 429:
            wait = re.fullmatch(rb"\d{1,6}", headers.get(b"retry-after", b""))
            when = f"; it asks to wait {int(wait[0]):,} s" if wait else ""
            return f"{where}: 429, too many requests{when}: go on later{_after(said)}"
        return f"{where}: {status}{_after(said)}"

    def _said(self, data: bytes) -> str:
        """The words of a server, short, visible and without the key; or ``nothing``."""
        text = data[:_CHUNK].decode("utf-8", "replace")
        with contextlib.suppress(ValueError, RecursionError):
            text = _message(json.loads(text)) or text
        if self._key:
            text = text.replace(self._key, "(the key)")
        text = " ".join(text.split())
        return quote(text, _MOST_SAID) if text else "nothing"


def _key(variable: str | None) -> str:
    if variable is None:
        return ""
    key = os.environ.get(variable, "").strip()
    if not key:
        raise BackendError(f"--api-key-env {quote(variable, 60)}: that variable is not set")
    if not re.fullmatch(r"[!-~]+", key):
        raise BackendError(f"--api-key-env {quote(variable, 60)}: it holds what no key can have")
    return key


def _message(body: Any) -> str:
    """The words of an error in the forms that servers have for it; "" where there are none."""
    for _ in range(3):
        if not isinstance(body, dict):
            break
        body = next((body[name] for name in ("error", "message", "detail") if name in body), "")
    return body if isinstance(body, str) else ""


def _after(said: str) -> str:
    return "" if said == "nothing" else f": {said}"


def _cause(error: Exception) -> str:
    return quote(" ".join(str(error).split()) or type(error).__name__, 120)


class _Network(httpcore2.NetworkBackend):
    """TCP connections, each of whose reads and writes ends with the request's time.

    A limit on every read alone would let an answer drip in for ever.
    """

    def __init__(self) -> None:
        self.connections = 0
        self.ends_ms = 0.0
        self._inner = httpcore2.SyncBackend()

    def left_s(self) -> float:
        """Seconds that the request may take yet. Raises ReadTimeout where there are none."""
        left = (self.ends_ms - now_ms()) / 1000
        if left <= 0:
            raise httpcore2.ReadTimeout
        return left

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        stream = self._inner.connect_tcp(host, port, timeout, local_address, socket_options)
        self.connections += 1
        return _Stream(stream, self.left_s)


class _Stream(httpcore2.NetworkStream):
    """A connection whose every wait is at most what is left of the request's time."""

    def __init__(self, inner: httpcore2.NetworkStream, left_s: Callable[[], float]) -> None:
        self._inner = inner
        self._left_s = left_s

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, self._left_s())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, self._left_s())

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.NetworkStream:
        return _Stream(
            self._inner.start_tls(ssl_context, server_hostname, self._left_s()), self._left_s
        )

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
