"""A small HTTP server whose every answer a test decides, down to its bytes."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Asked:
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


Reply = Callable[[Asked], bytes | Iterator[bytes]]


def reply(body: Any, status: int = 200, **headers: str) -> bytes:
    """An answer of JSON, or of the bytes or text given."""
    data = body if isinstance(body, bytes) else None
    data = body.encode() if isinstance(body, str) else data
    data = json.dumps(body).encode() if data is None else data
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(data)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


@dataclass
class Server:
    """It answers each request with what ``answer`` gives, and notes it in ``asked``."""

    answer: Reply
    listening: socket.socket
    asked: list[Asked] = field(default_factory=list)
    closes: bool = False
    """Close each connection behind its answer, without having said so."""
    connections: int = 0

    def __post_init__(self) -> None:
        self.url = f"http://127.0.0.1:{self.listening.getsockname()[1]}"

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream, contextlib.suppress(OSError):
            while (asked := _read(stream)) is not None:
                self.asked.append(asked)
                answer = self.answer(asked)
                for piece in (answer,) if isinstance(answer, bytes) else answer:
                    connection.sendall(piece)
                if self.closes or not isinstance(answer, bytes):
                    connection.shutdown(socket.SHUT_RDWR)
                    return


def _read(stream: Any) -> Asked | None:
    first = stream.readline().decode().split()
    if len(first) != 3:
        return None
    headers = {}
    while line := stream.readline().decode().strip():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    data = stream.read(int(headers.get("content-length", 0)))
    return Asked(first[0], first[1], headers, json.loads(data) if data else None)


def started(answer: Reply, **more: Any) -> Server:
    """A server on a free port, until its ``listening`` is closed or the process ends."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = Server(answer, listening, **more)
    threading.Thread(target=server.serve, daemon=True).start()
    return server


@contextlib.contextmanager
def serving(answer: Reply, **more: Any) -> Iterator[Server]:
    """A server on a free port, for as long as the block runs."""
    server = started(answer, **more)
    try:
        yield server
    finally:
        with contextlib.suppress(OSError):
            server.listening.shutdown(socket.SHUT_RDWR)
        server.listening.close()
