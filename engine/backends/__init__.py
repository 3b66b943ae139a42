"""Backends: where next-token logits come from."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from engine.backends.base import Backend, BackendError
from engine.progress import Progress, silent

BACKENDS = {
    "hf": "engine.backends.hf.load",
    "scripted": "engine.backends.scripted_open",
}
"""Backend name -> the module whose ``open_backend(options, progress)`` opens it.

Modules by name, imported when first asked for: naming a backend must not import torch.
"""


def open_backend(
    name: str, options: Mapping[str, Any] | None = None, progress: Progress | None = None
) -> Backend:
    """Open the backend called ``name`` with its own ``options`` (plain values that can be pickled).

    Raises BackendError for an unknown name and for whatever keeps the backend from opening, and
    ``engine.models.resolve.ModelError`` where it is the model's fault.
    """
    if name not in BACKENDS:
        near = difflib.get_close_matches(name, BACKENDS, 1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(BACKENDS)}"
        raise BackendError(f"unknown backend {name!r}; {hint}")
    opener: Callable[[Mapping[str, Any], Progress], Backend]
    opener = import_module(BACKENDS[name]).open_backend
    return opener(options or {}, progress or silent)
