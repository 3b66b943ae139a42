"""``--web``: a saved session in the browsers of this machine, a process of the app for each tab.

textual-serve runs the processes and brings the terminal that the page draws with. Its own server
answers any site's script and has the page load a font from elsewhere. So the routes are ours: they
lie below a secret, answer only to a local name, and only to their own page's script. The processes
are read-only (``--tab``): see ``inspector.cli.web.tab``.
"""

from __future__ import annotations

import html
import re
import secrets
import shlex
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from string import Template

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler
from textual_serve.app_service import AppService
from textual_serve.server import Server

from engine.plain_files import reason
from engine.text import visible
from inspector.cli.options import UsageError
from inspector.exit_codes import EXIT_OK

ADDRESS = "127.0.0.1"
_LOCAL = re.compile(r"(localhost|127\.0\.0\.1)(:\d{1,5})?")
"""The names under which this machine's browsers reach it; behind a forwarded port another port."""
_PAGE = Path(__file__).with_name("page")
_SHUTDOWN_S = 5.0
"""Seconds that open tabs may take to end."""
_HEARTBEAT_S = 15.0
_MOST_CELLS = 1000

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
        "font-src 'self'; img-src 'self' data:; "
        "connect-src 'self' ws://localhost:* ws://127.0.0.1:*; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    # The secret is in the address.
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@web.middleware
async def _guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse what a foreign page asks for: by a name of its own that leads here, or by a script.

    A browser lets any site's script open a WebSocket anywhere; it tells the site in ``Origin``.
    """
    host, origin = request.headers.get(hdrs.HOST, ""), request.headers.get(hdrs.ORIGIN)
    own = f"http://{host}"
    script = origin is not None or hdrs.UPGRADE in request.headers
    if _LOCAL.fullmatch(host) is None or (script and origin != own):
        raise web.HTTPForbidden(text="only this machine's own page is answered\n")
    return await handler(request)


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)


class _Tab(AppService):
    """The app's process below one tab."""

    async def run(self) -> None:
        await super().run()
        # It may have ended without a word to the browser.
        await self.remote_close()

    async def stop(self) -> None:
        await super().stop()
        if self._process is not None:
            # To the end of its pipes: they would outlive the event loop.
            await self._process.communicate()


class LocalServer(Server):
    """A server of one command's screen. ``secret``: the first part of every path."""

    def __init__(self, command: Sequence[str], title: str) -> None:
        super().__init__(shlex.join(command), host=ADDRESS, title=title)
        self.secret = secrets.token_urlsafe(16)
        self._open: set[web.WebSocketResponse] = set()

    def app(self) -> web.Application:
        """The routes, the guard before them and the headers of every answer."""
        app = web.Application(middlewares=[_guard])
        app.add_routes(
            [
                web.get(f"/{self.secret}/", self._page),
                web.get(f"/{self.secret}/ws", self._tab),
                web.static(f"/{self.secret}/static", self.statics_path),
                web.static(f"/{self.secret}/page", _PAGE),
            ]
        )
        app.on_response_prepare.append(_add_headers)
        app.on_shutdown.append(self._close)
        return app

    async def _page(self, request: web.Request) -> web.Response:
        page = Template((_PAGE / "index.html").read_text("utf-8")).substitute(
            title=html.escape(visible(self.title)),
            socket=f"ws://{request.headers[hdrs.HOST]}/{self.secret}/ws",
        )
        return web.Response(text=page, content_type="text/html")

    async def _tab(self, request: web.Request) -> web.WebSocketResponse:
        """Run a process of the app until it or the tab is closed."""
        websocket = web.WebSocketResponse(heartbeat=_HEARTBEAT_S)

        async def close() -> None:
            await websocket.close()

        await websocket.prepare(request)
        self._open.add(websocket)
        tab = _Tab(
            self.command,
            write_bytes=websocket.send_bytes,
            write_str=websocket.send_str,
            close=close,
            download_manager=self.download_manager,
        )
        try:
            await tab.start(*(_cells(request.query.get(name, "")) for name in ("width", "height")))
            # What makes no sense ends the tab.
            with suppress(AssertionError, LookupError, TypeError, ValueError):
                await self._process_messages(websocket, tab)
        finally:
            self._open.discard(websocket)
            await tab.stop()
            await websocket.close()
        return websocket

    async def _close(self, app: web.Application) -> None:
        for websocket in list(self._open):
            await websocket.close()


def _cells(text: str) -> int:
    return min(int(text), _MOST_CELLS) if text.isdecimal() else 80


def serve(words: Sequence[str], title: str, port: int) -> int:
    """Show what ``llm-inspect WORDS`` shows until ctrl+c. Raises UsageError for a port in use."""
    try:
        listening = socket.create_server((ADDRESS, port))
    except OSError as error:
        raise UsageError(
            f"port {port} cannot be used ({reason(error)}): "
            "--port takes another one, and 0 any that is free"
        ) from None
    server = LocalServer([sys.executable, "-m", "inspector", *words, "--tab"], title)
    with listening:
        where = f"http://{ADDRESS}:{listening.getsockname()[1]}/{server.secret}/"
        print(f"{visible(title)} is at {where}\nread-only, for this machine alone; ctrl+c ends it")
        sys.stdout.flush()
        web.run_app(
            server.app(),
            sock=listening,
            print=None,
            access_log=None,
            shutdown_timeout=_SHUTDOWN_S,
        )
    return EXIT_OK
