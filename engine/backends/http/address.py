"""The address of a server, checked before anything is sent to it."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from engine.backends.base import BackendError
from engine.text import quote


def base_url(url: str) -> str:
    """``url`` without what every path begins with. Raises BackendError for what is no address."""
    example = "such as http://127.0.0.1:8080"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise BackendError(
            f"--url {quote(url, 80)} is not an address: give one {example}"
        ) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BackendError(f"--url {quote(url, 80)} is not an address: give one {example}")
    if parts.username is not None or parts.password is not None:
        raise BackendError("--url holds a name or password: give a key by --api-key-env NAME")
    if parts.query or parts.fragment or not re.fullmatch(r"[!-~]+", url):
        raise BackendError(f"--url {quote(url, 80)}: give it without a query or spaces, {example}")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    path = parts.path.rstrip("/").removesuffix("/v1")
    return f"{parts.scheme}://{host}{f':{port}' if port else ''}{path}"
