"""``--web``: which requests are answered, what a tab's process may do, and that it ends."""

from __future__ import annotations

import asyncio
import re
import socket
import sys
from pathlib import Path

import pytest
from aiohttp import ClientSession, ClientWebSocketResponse, WSMsgType, WSServerHandshakeError
from aiohttp.test_utils import TestServer

from engine.commands import Configure, Open, Submit
from inspector.actions.replay import request_of
from inspector.cli import main as cli
from inspector.cli.config import Config
from inspector.cli.open import Opener
from inspector.cli.web.server import HEADERS, LocalServer
from inspector.cli.web.tab import TabDriver
from inspector.keys import USES_FILES
from inspector.state.request import Request
from sessions import open_session
from sessions.examples import example
from tests.inspector.test_app import press

ECHO = """
import sys
packets = sys.stdin.buffer
print("__GANGLION__", flush=True)
while kind := packets.read(1):
    body = packets.read(int.from_bytes(packets.read(4), "big"))
    if b"quit" in body:
        break
    sys.stdout.buffer.write(b"D" + len(body).to_bytes(4, "big") + body)
    sys.stdout.flush()
"""
"""A process that speaks as an app's does, and sends back all that it gets, until it has to quit."""


@pytest.fixture
def site() -> LocalServer:
    return LocalServer([sys.executable, "-c", ECHO], "<a title>")


def paths(site: LocalServer) -> list[str]:
    return [f"/{site.secret}/{path}" for path in ("", "ws", "static/js/textual.js", "page/keys.js")]


@pytest.mark.parametrize(
    ("host", "origin", "answered"),
    [
        ("{}", None, True),
        ("{}", "http://{}", True),
        ("localhost:8123", None, True),  # a port forwarded from elsewhere
        ("localhost:8123", "http://localhost:8123", True),
        # DNS rebinding: the attacker's name leads to this machine
        ("evil.example", None, False),
        ("evil.example:8000", "http://evil.example:8000", False),
        ("127.0.0.1.evil.example", None, False),
        ("localhost:80@evil.example", None, False),
        ("", None, False),
        # another site's script, or another program's page on this machine
        ("{}", "http://evil.example", False),
        ("{}", "null", False),
        ("{}", "http://127.0.0.1:1", False),
        ("{}", "https://{}", False),
    ],
)
async def test_only_the_pages_of_this_machine_are_answered(
    site: LocalServer, host: str, origin: str | None, answered: bool
) -> None:
    async with TestServer(site.app()) as server, ClientSession() as client:
        where = f"127.0.0.1:{server.port}"
        headers = {"Host": host.format(where)}
        if origin is not None:
            headers["Origin"] = origin.format(where)
        for path in (*paths(site), "/"):
            if not path.endswith("/ws"):
                reply = await client.get(f"http://{where}{path}", headers=headers)
                assert reply.status == (403 if not answered else 404 if path == "/" else 200), path
        if not answered:
            with pytest.raises(WSServerHandshakeError, match="403"):
                await client.ws_connect(f"http://{where}/{site.secret}/ws", headers=headers)


async def test_a_socket_needs_its_page_and_the_secret(site: LocalServer) -> None:
    async with TestServer(site.app()) as server, ClientSession() as client:
        where = f"http://127.0.0.1:{server.port}"
        with pytest.raises(WSServerHandshakeError, match="403"):
            await client.ws_connect(f"{where}/{site.secret}/ws")
        for path in ("/ws", "/static/js/textual.js", "/download/x", f"/{site.secret[:-1]}/"):
            assert (await client.get(where + path, headers={"Origin": where})).status == 404, path
    assert len(site.secret) >= 16


async def test_the_page_loads_nothing_from_elsewhere(site: LocalServer) -> None:
    async with TestServer(site.app()) as server, ClientSession() as client:
        where = f"127.0.0.1:{server.port}/{site.secret}/"
        reply = await client.get(f"http://{where}")
        page = await reply.text()
        assert HEADERS.items() <= dict(reply.headers).items()
        assert "&lt;a title&gt;" in page
        assert "<a title>" not in page
        assert re.findall(r"\w+://[^\"]*", page) == [f"ws://{where}ws"]
        linked = re.findall(r"(?:src|href)=\"([^\"]+)\"|url\(\"([^\"]+)\"\)", page)
        for path in (one or other for one, other in linked):
            if path != "data:,":
                assert (await client.get(f"http://{where}{path}")).status == 200, path
    allowed = HEADERS["Content-Security-Policy"].split("; ")
    assert "default-src 'none'" in allowed
    assert "script-src 'self'" in allowed
    assert "frame-ancestors 'none'" in allowed


async def heard(socket: ClientWebSocketResponse, words: bytes) -> bytes:
    """All that comes until ``words`` have come."""
    got = b""
    async with asyncio.timeout(60):
        while words not in got:
            message = await socket.receive()
            assert message.type is WSMsgType.BINARY, (message, got)
            got += message.data
    return got


async def test_a_tab_is_a_process_that_ends_with_it(site: LocalServer) -> None:
    async with TestServer(site.app()) as server, ClientSession() as client:
        where = f"http://127.0.0.1:{server.port}"
        url = f"{where}/{site.secret}/ws?width=100&height=30"
        async with client.ws_connect(url, headers={"Origin": where}) as tab:
            await tab.send_json(["stdin", "grüße"])
            await heard(tab, "grüße".encode())
        async with client.ws_connect(url, headers={"Origin": where}) as tab:
            await tab.send_str("no message")
            assert (await tab.receive(timeout=60)).type is WSMsgType.CLOSE
        async with client.ws_connect(url, headers={"Origin": where}) as tab:
            await tab.send_json(["stdin", "quit"])
            assert (await tab.receive(timeout=60)).type is WSMsgType.CLOSE, "it has ended by itself"


async def test_the_app_is_shown_and_q_ends_it() -> None:
    site = LocalServer([sys.executable, "-m", "inspector", "replay", "capital", "--tab"], "capital")
    async with TestServer(site.app()) as server, ClientSession() as client:
        where = f"http://127.0.0.1:{server.port}"
        url = f"{where}/{site.secret}/ws?width=100&height=30"
        async with client.ws_connect(url, headers={"Origin": where}) as tab:
            shown = await heard(tab, b"Quit")
            assert b"Transcript" in shown
            assert b"Export" not in shown
            await tab.send_json(["stdin", "q"])
            async with asyncio.timeout(60):
                while (await tab.receive()).type is WSMsgType.BINARY:
                    pass


async def test_no_key_writes_a_file_or_leads_to_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written = tmp_path / "config.toml"
    session = open_session(example("capital"))
    asked = request_of(session, Request(Open(), Configure(), Submit("")))
    app = Opener(asked, Config(path=written), None).replay(session, read_only=True)
    async with app.run_test(size=(80, 24)) as pilot:
        for key in ("e", "w", "o", "I", "ctrl+z"):
            await press(pilot, key)
            assert len(app.screen_stack) == 1, key
        active = {one.binding.action for one in app.screen.active_bindings.values()}
        assert not active & USES_FILES
        await press(pilot, "L", "w", *"mine", "enter", "escape", "escape")
        await press(pilot, "B", *"rank > 1", "enter", "escape", "n", "b")
    assert list(tmp_path.iterdir()) == []


def test_the_driver_hands_the_browser_nothing_but_the_screen() -> None:
    driver = TabDriver.__new__(TabDriver)
    sent: list[object] = []
    driver.write_meta = sent.append  # type: ignore[method-assign]
    driver.open_url("http://evil.example")
    with example("capital").open("rb") as file:
        driver.deliver_binary(file, delivery_key="a", save_path=Path("a"))
        assert file.closed
    assert sent == []


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["capital", "--web", "--live"], "--web only shows what is recorded: leave --live out"),
        (["capital", "--port", "1"], "--port needs --web"),
        (["nothing", "--web"], "there is no session nothing: see `llm-inspect sessions list`"),
        (["capital", "--web", "--port", "x"], "takes a number up to 65535, not 'x'"),
    ],
)
def test_what_cannot_be_served_is_one_line(
    words: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["replay", *words]) == 2
    assert line in capsys.readouterr().err


def test_a_port_in_use_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert cli.main(["replay", "capital", "--web", "--port", str(port)]) == 2
    assert f"port {port} cannot be used" in capsys.readouterr().err


def test_without_the_extra_it_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "textual_serve.server", None)
    monkeypatch.delitem(sys.modules, "inspector.cli.web.server")
    assert cli.main(["replay", "capital", "--web"]) == 2
    assert "--web needs textual-serve: pip install" in capsys.readouterr().err
