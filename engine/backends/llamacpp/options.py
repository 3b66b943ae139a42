"""Options of a llama.cpp that runs in this process, checked before a model is looked for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.backends.base import BackendError

RUNNING = ("threads", "context", "slots", "gpu_layers", "cache_type")
"""Options of running a file, which a server that is attached to has settled at its own start."""
_NAMES = ("model", "top", "offline", *RUNNING)
_OF_A_SERVER = ("url", "api_key_env", "timeout")
TOP = 64
"""Log-probabilities of a pass where nothing else is said; ``bench/engines.py`` has their cost."""
CONTEXT = 4096
"""Positions there is room for where nothing else is said, in all slots together."""
SLOTS = 2
TYPES = {
    "f32": 0,
    "f16": 1,
    "bf16": 30,
    "q8_0": 8,
    "q5_1": 7,
    "q5_0": 6,
    "q4_1": 3,
    "q4_0": 2,
}
"""GGML's numbers of the types that K and V can be kept in."""


@dataclass(frozen=True, slots=True)
class Options:
    """``context`` positions are shared by ``slots`` branches; ``gpu_layers`` None: llama.cpp's."""

    model: str | None
    threads: int
    top: int
    context: int
    slots: int
    gpu_layers: int | None
    cache_type: str
    offline: bool

    def top_of(self, vocab_size: int) -> int:
        """Log-probabilities of a pass, over that many tokens."""
        return min(self.top, vocab_size)


def read(options: Mapping[str, Any], trained: int = 0) -> Options:
    """The options, with defaults for a model of ``trained`` positions. Raises BackendError."""
    unknown = [name for name in options if name not in (*_NAMES, *_OF_A_SERVER)]
    if unknown:
        raise BackendError(f"unknown option {unknown[0]!r}; known: {', '.join(_NAMES)}")
    if any(options.get(name) is not None for name in _OF_A_SERVER):
        raise BackendError("--api-key-env and --timeout need --url: this file is run right here")
    cache_type = options.get("cache_type") or "f16"
    if cache_type not in TYPES:
        raise BackendError(f"unknown type of K and V {cache_type!r}: one of {', '.join(TYPES)}")
    context = options.get("context") or min(CONTEXT, trained or CONTEXT)
    if trained and context > trained:
        raise BackendError(f"--context {context:,}: this model was made for {trained:,} tokens")
    return Options(
        model=options.get("model"),
        threads=int(options.get("threads") or cores()),
        top=int(options.get("top") or TOP),
        context=int(context),
        slots=int(options.get("slots") or SLOTS),
        gpu_layers=options.get("gpu_layers"),
        cache_type=cache_type,
        offline=bool(options.get("offline", False)),
    )


def cores() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
