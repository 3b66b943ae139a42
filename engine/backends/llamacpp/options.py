"""Options of a llama.cpp that runs in this process, checked before a model is looked for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.backends.base import BackendError
from engine.backends.top_n.room import whole_steps

RUNNING = ("threads", "context", "slots", "gpu_layers", "cache_type")
"""Options of running a file, which a server that is attached to has settled at its own start."""
_NAMES = ("model", "top", "offline", "max_tokens", *RUNNING)
_OF_A_SERVER = ("url", "api_key_env", "timeout")
TOP = 64
"""Log-probabilities of a pass where nothing else is said; ``bench/engines.py`` has their cost."""
CONTEXT = 4096
"""Positions that a model has which does not say how many, and the most that are kept unasked."""
_PROMPT, _MAX_TOKENS = 128, 256
"""Room for a prompt and a run's tokens where nothing is known of them."""
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
    """``room`` positions at first, ``most`` in the end, are shared by ``slots`` branches.

    ``spare`` of them are for a run's own tokens. ``gpu_layers`` None: llama.cpp's.
    """

    model: str | None
    threads: int
    top: int
    room: int
    most: int
    spare: int
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
    context = options.get("context")
    if trained and context and context > trained:
        raise BackendError(f"--context {context:,}: this model was made for {trained:,} tokens")
    most = int(context or trained or CONTEXT)
    spare = int(options.get("max_tokens") or _MAX_TOKENS)
    return Options(
        model=options.get("model"),
        threads=int(options.get("threads") or cores()),
        top=int(options.get("top") or TOP),
        room=int(context or min(most, whole_steps(_PROMPT + spare), CONTEXT)),
        most=most,
        spare=min(spare, CONTEXT),
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
