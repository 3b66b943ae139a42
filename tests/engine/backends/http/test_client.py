"""Requests to a server: limits of time and size, and one line for everything that goes wrong."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from engine.backends.base import BackendError
from engine.backends.http.address import base_url
from engine.backends.http.client import Client
from engine.backends.http.errors import ServerError
from tests.hostile import MARKER, acting
from tests.http_server import Asked, Reply, reply, serving

KEY = "sk-secret-4711"


def failure(answer: Reply, *, status: int | None = None, **more: object) -> str:
    """The line for a request that is answered so."""
    with serving(answer) as server:
        client = Client(server.url, **more)  # type: ignore[arg-type]
        with pytest.raises(ServerError) as raised:
            client.post("/x", {"a": 1})
        assert raised.value.status == status
        assert len(str(raised.value).splitlines()) == 1
        return str(raised.value)


def test_an_answer_is_parsed_and_timed() -> None:
    with serving(lambda asked: reply({"sum": asked.body["a"] + 1})) as server:
        answer = Client(server.url).post("/v1/x", {"a": 1})
    assert answer.body == {"sum": 2}
    assert answer.nbytes == len('{"sum": 2}')
    assert answer.network_ms > 0
    assert answer.parse_ms >= 0
    assert [(one.method, one.path) for one in server.asked] == [("POST", "/v1/x")]


def test_one_connection_serves_many_requests() -> None:
    with serving(lambda asked: reply({})) as server:
        client = Client(server.url)
        for _ in range(3):
            client.get("/x")
        assert (client.connections, server.connections) == (1, 1)


def test_a_connection_that_the_server_closed_is_made_anew() -> None:
    """As a server does that was started anew between two steps."""
    with serving(lambda asked: reply({}), closes=True) as server:
        client = Client(server.url)
        for _ in range(4):
            client.get("/x")
        assert client.connections == 4


def test_nobody_at_the_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(ServerError, match=rf"^http://127.0.0.1:{port} cannot be reached: "):
        Client(f"http://127.0.0.1:{port}").get("/x")


def test_a_name_that_nobody_has() -> None:
    with pytest.raises(ServerError, match=r"^http://nobody.invalid cannot be reached: "):
        Client("http://nobody.invalid").get("/x")


def test_a_server_that_answers_nothing() -> None:
    def silent(asked: Asked) -> Iterator[bytes]:
        time.sleep(2)
        yield b""

    started = time.monotonic()
    line = failure(silent, timeout_s=0.3)
    assert "has not answered within 0.3 s" in line
    assert "--timeout" in line
    assert time.monotonic() - started < 1.5


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 X\r\nContent-Length: 1000\r\n\r\n"])
def test_a_server_that_answers_drop_by_drop(head: bytes) -> None:
    """Each byte comes in time, in the headers or in the body; the whole does not."""

    def drips(asked: Asked) -> Iterator[bytes]:
        yield head
        for _ in range(40):
            time.sleep(0.05)
            yield b"H"

    started = time.monotonic()
    assert "has not answered within 0.4 s" in failure(drips, timeout_s=0.4)
    assert time.monotonic() - started < 1.5


def test_half_an_answer() -> None:
    def half(asked: Asked) -> Iterator[bytes]:
        yield b'HTTP/1.1 200 X\r\nContent-Length: 1000\r\n\r\n{"choices": ['

    assert "ended in the middle of an answer" in failure(half)


def test_no_http_at_all() -> None:
    assert "ended in the middle of an answer" in failure(lambda asked: b"\x00\x01hello\r\n\r\n")


@pytest.mark.parametrize("body", ["<html>hello</html>", '{"a": ', "[" * 100_000, b"\xff\xfe"])
def test_an_answer_that_is_no_json(body: str | bytes) -> None:
    assert "did not answer in JSON" in failure(lambda asked: reply(body))


def test_a_giant_answer_is_not_read() -> None:
    sent = 0

    def giant(asked: Asked) -> Iterator[bytes]:
        nonlocal sent
        yield b"HTTP/1.1 200 X\r\n\r\n"
        while sent < 1 << 26:
            sent += 1 << 16
            yield b" " * (1 << 16)

    line = failure(giant, most_bytes=1 << 20)
    assert "the answer is longer than 1 MiB" in line
    assert sent < 1 << 25


def test_a_redirect_is_not_followed() -> None:
    with serving(lambda asked: reply({})) as other:
        line = failure(lambda asked: reply("", 307, Location=f"{other.url}/x"), status=307)
        assert other.asked == []
    assert f'sends on to "{other.url}/x"' in line
    assert "--url" in line


@pytest.mark.parametrize("status", [401, 403])
def test_a_server_that_wants_a_key(status: int) -> None:
    line = failure(lambda asked: reply({"error": {"message": "no key"}}, status), status=status)
    assert line.endswith(
        f"/x: {status}, it wants a key: name the environment variable that has it with "
        '--api-key-env: "no key"'
    )


def test_the_key_is_sent_and_never_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", KEY)
    told = {"error": {"message": f"bad key {KEY}"}}
    with serving(lambda asked: reply(told, 401)) as server:
        client = Client(server.url, key_variable="SECRET")
        with pytest.raises(ServerError) as raised:
            client.get("/x")
    assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"
    assert 'the key in SECRET is not accepted: "bad key (the key)"' in str(raised.value)
    assert KEY not in str(raised.value) + repr(client) + repr(raised.value)


def test_without_a_named_variable_no_key_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with serving(lambda asked: reply({})) as server:
        Client(server.url).get("/x")
    assert "authorization" not in server.asked[0].headers


@pytest.mark.parametrize("value", [None, "", "a b", "a\nHost: evil"])
def test_a_key_that_cannot_be_sent(value: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if value is None:
        monkeypatch.delenv("SECRET", raising=False)
    else:
        monkeypatch.setenv("SECRET", value)
    with pytest.raises(BackendError, match=r'^--api-key-env "SECRET": '):
        Client("http://127.0.0.1:1", key_variable="SECRET")


@pytest.mark.parametrize(("wait", "said"), [("7", "it asks to wait 7 s"), ("soon", "")])
def test_too_many_requests(wait: str, said: str) -> None:
    line = failure(lambda asked: reply({}, 429, Retry_After=wait), status=429)
    assert "429, too many requests" in line
    assert said in line
    assert "soon" not in line


def test_an_error_is_told_in_the_servers_words() -> None:
    told = {"error": {"message": "the context holds 512 tokens,\n you sent 700", "code": 400}}
    line = failure(lambda asked: reply(told, 400), status=400)
    assert line.endswith('/x: 400: "the context holds 512 tokens, you sent 700"')


def test_hostile_words_are_harmless() -> None:
    line = failure(lambda asked: reply({"error": MARKER + "x" * 10_000}, 500), status=500)
    assert acting(line) == ""
    assert len(line) < 500


def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with serving(lambda asked: reply({})) as server:
        assert Client(server.url).get("/x").body == {}


@pytest.mark.parametrize(
    ("given", "base"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("https://host/v1/", "https://host"),
        ("http://[::1]:80/api/v1", "http://[::1]:80/api"),
    ],
)
def test_the_base_of_an_address(given: str, base: str) -> None:
    assert base_url(given) == base


@pytest.mark.parametrize(
    "given",
    [
        *("", "localhost:8080", "ftp://host", "http://", "http://host:port", "http://h:99999"),
        *("http://me:pw@host", "http://h?a=1", "http://h#x", "http://h h", "file:///etc/passwd"),
        *("http://h\x1b]0;x\x07", "http://h\r\nX: y"),
    ],
)
def test_what_is_no_address(given: str) -> None:
    with pytest.raises(BackendError, match=r"^--url ") as raised:
        Client(given)
    assert "pw" not in str(raised.value)
    assert acting(str(raised.value)) == ""
