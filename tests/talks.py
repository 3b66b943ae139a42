"""Talks with real servers, kept as files: what was asked, and the very bytes of each answer.

A talk is a gzipped JSON list of ``[method, path, body, status, answer]``. ``recording`` makes one,
``replayed`` answers as the server did; what was not asked then is answered with 500.
"""

from __future__ import annotations

import contextlib
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from engine.backends.http.client import Client
from engine.backends.http.errors import ServerError
from tests.http_server import Asked, Reply, reply

_DATA = Path(__file__).parent / "data"
_VARIES = ("cache_salt",)


@contextlib.contextmanager
def recording(path: Path, hide: str) -> Iterator[None]:
    """Write down what every client asks and is told inside ``with``; ``hide`` is a path in it."""
    talk: list[Any] = []
    sent = Client._sent

    def noted(self: Client, method: str, where: str, content: bytes | None) -> tuple[bytes, float]:
        body = None if content is None else json.loads(content)
        try:
            data, ms = sent(self, method, where, content)
        except ServerError as error:
            if error.status is not None:
                told = str(error).partition(f": {error.status}: ")[2].strip('"')
                answer = json.dumps({"error": {"message": told}})
                talk.append([method, where, body, error.status, answer])
            raise
        talk.append([method, where, body, 200, data.decode()])
        return data, ms

    with mock.patch.object(Client, "_sent", noted):
        yield
    text = json.dumps(talk, ensure_ascii=False).replace(hide, "/models/it")
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def replayed(name: str) -> Reply:
    """The answers of a talk in ``tests/data``, each to what it was the answer to."""
    talk = json.loads(gzip.decompress((_DATA / name).read_bytes()))
    answers = {_key(*row[:3]): row[3:] for row in talk}

    def answer(asked: Asked) -> bytes:
        found = answers.get(_key(asked.method, asked.path, asked.body))
        return reply(found[1], found[0]) if found else reply({"error": "never asked"}, 500)

    return answer


def _key(method: str, path: str, body: Any) -> str:
    kept = {name: one for name, one in (body or {}).items() if name not in _VARIES}
    return json.dumps([method, path, kept], sort_keys=True)
