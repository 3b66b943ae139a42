"""The backends that the contract suite runs on."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from engine.backends import open_backend
from engine.backends.base import Backend, ForwardPass
from engine.backends.hf.backend import HFBackend
from engine.backends.hf.pool import KVOptions
from engine.backends.scripted import ScriptedBackend
from engine.records.arrays import FloatArray
from engine.records.partial import TopLogprobs
from tests import tiny_gguf, tiny_models
from tests.asked_engine import asked_backend
from tests.fake_servers import backend_on
from tests.tiny_models import CHARACTERS, SPECIALS, VOCAB
from tests.top_backend import TopBackend
from tests.toy_backend import ToyBackend


def scripted() -> ScriptedBackend:
    """Logits that depend on every id and its place, over the tiny models' vocabulary."""

    def logits_of(ids: Sequence[int]) -> FloatArray:
        state = 7
        for token_id in ids:
            state = (state * 31 + token_id + 1) % 1_000_003
        return np.sin(np.arange(VOCAB, dtype=np.float32) * (state % 97 + 1))

    return ScriptedBackend(logits_of, [*SPECIALS, *CHARACTERS], vocab_size=VOCAB)


def asked() -> Backend:
    """An engine that is asked by ids for the 20 likeliest of the same."""
    tokens = scripted()
    return asked_backend(tokens, tokens._logits)[0]


def tiny_llamacpp() -> Backend:
    """A real llama.cpp on a small file, asked for all tokens but one."""
    with tempfile.TemporaryDirectory() as folder:
        path = tiny_gguf.write(Path(folder) / "tiny.gguf")
        wanted = {"model": str(path), "threads": 1, "top": VOCAB - 1, "cache_type": "f32"}
        return open_backend("llamacpp", wanted)


Able = HFBackend | ScriptedBackend
"""Backends with all abilities."""

ABLE: dict[str, Callable[[], Able]] = {
    "scripted": scripted,
    "llama": lambda: tiny_models.backend("llama"),
    "gpt2": lambda: tiny_models.backend("gpt2"),
    "qwen3": lambda: tiny_models.backend("qwen3"),
    "gemma3": lambda: tiny_models.backend("gemma3"),
    "mistral": lambda: tiny_models.backend("mistral"),
    "mamba": lambda: tiny_models.backend("mamba"),
    "deepseek": lambda: tiny_models.backend("deepseek"),
    "llama without a cache": lambda: tiny_models.backend("llama", kv=KVOptions(cached=False)),
}


def vllm() -> Backend:
    """A vLLM server whose tokenizer is on this machine too."""
    path = Path(tempfile.mkdtemp()) / "tokenizer.json"
    tiny_models.tokenizer().backend_tokenizer.save(str(path))
    return backend_on("vllm", scripted(), top=20, tokenizer=str(path))


EVERY: dict[str, Callable[[], Backend]] = {
    "toy": ToyBackend,
    "top 20 of toy": lambda: TopBackend(ToyBackend()),
    "asked": asked,
    "llama-server": lambda: backend_on("llamacpp", scripted(), top=20),
    "vllm server": vllm,
    "llama.cpp": tiny_llamacpp,
    **ABLE,
}

PROMPT = [5, 9, 30, 12, 7, 44, 3, 21, 8]
"""More positions than the tiny models' sliding windows hold."""


def read(backend: Backend, *ids: int, all_positions: bool = False) -> ForwardPass:
    """One pass over ``ids`` behind what the backend is at."""
    return backend.forward(((backend.sequence, ids),), all_positions=all_positions)


def fresh(backend: Backend, ids: Sequence[int]) -> FloatArray:
    """Logits after ``ids``, read in one pass from nothing."""
    backend.seek(())
    return spread(read(backend, *ids).known)


def spread(known: FloatArray | TopLogprobs) -> FloatArray:
    """Logits as far as they are known; those of all other tokens as 0."""
    if not isinstance(known, TopLogprobs):
        return known
    found = np.zeros((*known.ids.shape[:-1], known.vocab_size), np.float32)
    np.put_along_axis(found, known.ids, known.logprobs, axis=-1)
    return found


def assert_alike(found: FloatArray, expected: FloatArray) -> None:
    """Equal within the last bits of float32; a wrong cache differs more."""
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3 * float(expected.std()))
