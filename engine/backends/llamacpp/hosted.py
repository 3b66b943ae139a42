"""llama.cpp's server inside this process, behind no door but ours."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import secrets
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.backends.base import BackendError
from engine.models.checks import ModelError
from engine.text import quote

_ASK_S = 60.0
"""Seconds that the tokenizer may take."""
_LONGEST_ANSWER = 256 << 20
_OK = 200
_WATCH_S = 0.002
_LOG_S = 0.3
"""Seconds in which llama.cpp's log, which a thread writes, has come to its end."""
_M_ARENA_MAX = -8
"""Of malloc.h."""


def package() -> Any:
    """The package that llama.cpp comes in. Raises BackendError where it cannot be imported."""
    try:
        import xllamacpp
    except ImportError as error:
        raise BackendError(
            f"the package xllamacpp does not run here: {quote(str(error), 200)}"
        ) from None
    return xllamacpp


def keep_memory_small() -> None:
    """Give freed memory back, and have what is freed from now on serve whoever needs some next.

    glibc gives new threads arenas of their own, and what was freed in an old one stays there: some
    25 MiB at each opening. Elsewhere, or with another allocator, nothing is done.
    """
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
        ctypes.CDLL(None).malloc_trim(0)


class Hosted:
    """A model in llama.cpp's server, which ends with this object, or with the process.

    The server cannot be had without a socket to listen on. It is given one in a folder that only
    this user can enter, which is removed as soon as the socket is there: we keep a handle on it,
    by which Linux lets us connect, and nobody else finds it. Elsewhere the folder stays until
    ``close``. Either way it asks for a key that is made up at each start.
    """

    def __init__(self, params: Any, name: str) -> None:
        """Load the model that ``params`` names. Raises ModelError."""
        self._key = secrets.token_hex(32)
        self._folder = Path(tempfile.mkdtemp(prefix="llm-inspect-"))
        self._path = self._folder / "llama.sock"
        self._handle: int | None = None
        params.hostnames = [str(self._path)]
        params.api_keys = [self._key]
        params.ui = False
        params.endpoint_slots = False
        params.endpoint_props = False
        params.n_threads_http = 1
        loading = True

        def hide() -> None:
            while loading and not self._path.exists():
                threading.Event().wait(_WATCH_S)
            self._hide()

        watch = threading.Thread(target=hide, name="llamacpp-socket", daemon=True)
        watch.start()
        try:
            with _words() as words:
                self._server: Any = package().Server(params)
        except Exception:  # a RuntimeError that says nothing; what it means is in its log
            raise ModelError(f"llama.cpp cannot load {name}: {_reason(words)}") from None
        finally:
            loading = False
            watch.join()

    def _hide(self) -> None:
        """Take the socket out of the file system, and keep a handle on it, where that can be."""
        with contextlib.suppress(OSError):
            if hasattr(os, "O_PATH") and self._path.exists():
                self._handle = os.open(self._path, os.O_PATH)
                self._remove()

    def _remove(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)
            self._folder.rmdir()

    def complete(self, asked: Mapping[str, Any]) -> bytes:
        """The answer to a request of ``answers.request``, as JSON, through no socket.

        Raises BackendError.
        """
        found: list[bytes] = []
        try:
            self._server.handle_completions(json.dumps(asked).encode(), found.append)
        except Exception as error:
            raise BackendError(f"llama.cpp failed: {quote(str(error), 200)}") from None
        if len(found) != 1:
            raise BackendError("llama.cpp gave no answer")
        return found[0]

    def complete_several(self, asked: Mapping[str, Any]) -> Any:
        """The parsed answer to a request with several prompts. Raises BackendError."""
        return self._post("/completion", asked, None)

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        """The ids of a text; with ``special``, those that the model wants around it too."""
        whole = text.encode("utf-8", "replace").decode()
        asked = {"content": whole, "add_special": special, "parse_special": True}
        found = self._post("/tokenize", asked)
        tokens = found.get("tokens") if isinstance(found, Mapping) else None
        if not isinstance(tokens, list) or not all(type(one) is int for one in tokens):
            raise BackendError("llama.cpp's tokenizer gave no ids")
        return tokens

    def _post(self, path: str, asked: Mapping[str, Any], limit_s: float | None = _ASK_S) -> Any:
        place = str(self._path) if self._handle is None else f"/proc/self/fd/{self._handle}"
        body = json.dumps(asked).encode()
        head = f"POST {path} HTTP/1.0\r\nAuthorization: Bearer {self._key}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        try:
            status, data = _exchanged(place, head.encode() + body, limit_s)
            if status != _OK:
                raise BackendError(f"llama.cpp's {path} failed with {status}")
            return json.loads(data)
        except (OSError, ValueError) as error:
            raise BackendError(f"llama.cpp's {path} failed: {quote(str(error), 200)}") from None

    def close(self) -> None:
        """End the server, and leave nothing behind."""
        self._server = None
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
        self._remove()


def _exchanged(place: str, request: bytes, limit_s: float | None) -> tuple[int, bytes]:
    """(status, body) of the answer at a socket of the file system. Raises OSError, ValueError.

    By hand, as http.client and what it imports are 3 MiB, for few and short questions.
    """
    with socket.socket(socket.AF_UNIX) as door:
        door.settimeout(limit_s)
        door.connect(place)
        door.sendall(request)
        data = bytearray()
        while (more := door.recv(1 << 16)) and len(data) < _LONGEST_ANSWER:
            data += more
    head, _, body = data.partition(b"\r\n\r\n")
    return int(head.split(None, 2)[1] if head else 0), bytes(body)


@contextlib.contextmanager
def _words() -> Iterator[list[str]]:
    """Everything that is written to standard error inside ``with``, line by line, once it ended.

    It goes on to where it was meant for.
    """
    lines: list[str] = []
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield lines
        except Exception:
            time.sleep(_LOG_S)
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            file.seek(0)
            data = file.read()
            lines += data.decode("utf-8", "replace").splitlines()
            with contextlib.suppress(OSError):
                os.write(2, data)


def _reason(lines: Sequence[str]) -> str:
    """The line of llama.cpp's log that says most about why it failed."""
    telling = [line for line in lines if "error" in line.lower() or "failed" in line.lower()]
    if not telling:
        return "its log does not say why"
    # The first is what went wrong; those behind it are what that led to.
    return quote(telling[0].split(": ", 1)[-1].strip(), 200)
