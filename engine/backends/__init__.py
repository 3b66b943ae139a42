"""Backends: where next-token logits come from."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from engine.backends.abilities import Measurable, Pooled, Profiled, Shallow, Widening
from engine.backends.base import Backend, BackendError
from engine.progress import Progress, silent


@dataclass(frozen=True, slots=True)
class Engine:
    """A backend of the registry: where it is, what it takes and what it can do.

    ``module`` has ``open_backend(options, progress)``. It is imported when first asked for: naming
    a backend must not import torch. ``options``: command-line option -> the backend's own.
    """

    module: str
    summary: str
    options: Mapping[str, str] = field(default_factory=dict)
    abilities: tuple[type, ...] = ()
    needs_url: bool = False
    """It is a server, and there is nothing to open without its address."""
    package: str = ""
    """The package that it needs where it runs in this process, which ``extra`` installs."""
    extra: str = ""

    @property
    def missing(self) -> str:
        """The command that installs what this engine lacks here; empty where it lacks nothing."""
        if not self.package or find_spec(self.package) is not None:
            return ""
        return f'pip install "llm-inspect-tui[{self.extra}]"'


_MODEL = ("model", "device", "dtype", "threads", "trust_remote_code")
_KV = ("cache", "block_size", "kv_budget", "kv_dtype")
_LLAMACPP = ("threads", "context", "slots", "gpu_layers", "cache_type", "max_tokens")
_SERVER = ("url", "api_key_env", "timeout", "model", "top")
DEFAULT_ENGINE = "hf"
BACKENDS = {
    "hf": Engine(
        "engine.backends.hf.load",
        "transformers on torch: the logits of the whole vocabulary",
        {name: name for name in (*_MODEL, *_KV)},
        (Pooled, Measurable, Profiled, Shallow),
    ),
    "llamacpp": Engine(
        "engine.backends.llamacpp.load",
        "llama.cpp: a .gguf file as it is, in this process, or a running llama-server (--url)",
        {name: name for name in (*_SERVER, *_LLAMACPP)},
        (Widening,),
        package="xllamacpp",
        extra="llamacpp",
    ),
    "vllm": Engine(
        "engine.backends.http.vllm_engine",
        "a vLLM server (--url): by token ids",
        {name: name for name in (*_SERVER, "tokenizer")},
        (Widening,),
        needs_url=True,
    ),
    "openai": Engine(
        "engine.backends.http.openai_engine",
        "any server with OpenAI's completions and log-probabilities (--url): by texts",
        {name: name for name in _SERVER},
        (Widening,),
        needs_url=True,
    ),
    "scripted": Engine(
        "engine.backends.scripted_open",
        "no model: logits from a JSON file (--model FILE), or all equal",
        {"model": "file"},
        (Pooled, Measurable, Profiled),
    ),
}
"""Backend name -> what is known of it without importing it."""


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
    if (missing := BACKENDS[name].missing) and not (options or {}).get("url"):
        raise BackendError(f"--engine {name} needs the package {BACKENDS[name].package}: {missing}")
    opener: Callable[[Mapping[str, Any], Progress], Backend]
    opener = import_module(BACKENDS[name].module).open_backend
    return opener(options or {}, progress or silent)
