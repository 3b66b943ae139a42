"""Opening the transformers backend: which model, on which device, in which dtype.

torch is imported only once opening has begun, so that its seconds count as loading.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from engine.backends.base import BackendError
from engine.models import resolve as models
from engine.models.folder import read_object
from engine.models.weights import available_memory, stored_weights, weights_bytes
from engine.progress import Progress
from engine.records.cache import LARGEST_BLOCK
from engine.records.model import KV_DTYPES, DtypeTrial
from engine.timing import now_ms

if TYPE_CHECKING:
    from engine.backends.hf.backend import HFBackend
    from engine.backends.hf.dtype import Choice
    from engine.backends.hf.pool import KVOptions


OPTIONS = (
    *("model", "device", "dtype", "trust_remote_code", "threads", "offline"),
    *("cache", "block_size", "kv_budget", "kv_dtype"),
)

_ROOM = 1.2
"""Free memory that loading in float32 must leave untouched, as a factor on the weights."""
_WORTH_TIMING = 20 << 20
"""Bytes of weights in float32 below which a pass is nearly all overhead, whatever the dtype."""
_ALIASES = {"fp32": "float32", "fp16": "float16", "half": "float16", "bf16": "bfloat16"}


def open_backend(options: Mapping[str, Any], progress: Progress) -> HFBackend:
    """Open a real model. Raises ModelError or BackendError, each one line.

    Options, all of them optional: ``model`` (hub id, folder or .gguf file), ``device`` (auto, cpu,
    cuda, cuda:1, mps), ``dtype`` (auto, measure, float32, float16, bfloat16; see ``load``),
    ``trust_remote_code``, ``threads`` (of the CPU), ``offline``; ``cache`` (False: every step
    reads everything again), ``block_size`` (positions), ``kv_budget`` (bytes), ``kv_dtype`` (auto,
    int8).
    """
    started = now_ms()
    unknown = [name for name in options if name not in OPTIONS]
    if unknown:
        raise BackendError(f"unknown option {unknown[0]!r}; known: {', '.join(OPTIONS)}")
    progress("load", None, "starting torch")
    import torch

    from engine.backends.hf.backend import HFBackend
    from engine.backends.hf.facts import pick_device

    if threads := options.get("threads"):
        torch.set_num_threads(int(threads))
    device = pick_device(options.get("device") or "auto")
    resolved = models.resolve(
        options.get("model"), progress, offline=bool(options.get("offline", False))
    )
    loaded = load(
        resolved,
        options.get("dtype") or "auto",
        device,
        trust_remote_code=bool(options.get("trust_remote_code", False)),
        progress=progress,
    )
    progress("load", None, "first passes")
    return HFBackend(
        loaded.model,
        loaded.tokenizer,
        name=resolved.label,
        identity=resolved.identity,
        dtype_reason=loaded.dtype_reason,
        trials=loaded.trials,
        notes=resolved.notes,
        started=started,
        kv=_kv_options(options),
    )


def _kv_options(options: Mapping[str, Any]) -> KVOptions:
    """Read the options for keeping K and V. Raises BackendError for impossible ones."""
    from engine.backends.hf.pool import KVOptions

    size, budget = options.get("block_size"), options.get("kv_budget")
    kind = options.get("kv_dtype") or "auto"
    if kind not in KV_DTYPES:
        raise BackendError(f"unknown KV dtype {kind!r}: give {' or '.join(KV_DTYPES)}")
    if size is not None and not 1 <= int(size) <= LARGEST_BLOCK:
        raise BackendError(f"a KV block holds 1 to {LARGEST_BLOCK:,} positions, not {size}")
    made = KVOptions(cached=bool(options.get("cache", True)), eight_bits=kind == "int8")
    if size is not None:
        made = replace(made, block_size=int(size))
    return made if budget is None else replace(made, budget=int(budget))


@dataclass(frozen=True, eq=False)
class Loaded:
    """A model in its final dtype on its device, its tokenizer, and how the dtype was chosen."""

    model: Any
    tokenizer: Any
    dtype_reason: str
    trials: tuple[DtypeTrial, ...] = ()


def load(
    resolved: models.ResolvedModel,
    dtype: str,
    device: str,
    *,
    trust_remote_code: bool,
    progress: Progress,
) -> Loaded:
    """Load ``resolved`` on ``device``. Raises ModelError.

    ``auto`` takes the stored dtype on an accelerator, and on the CPU the dtype in which the
    model's own decode steps are fastest: timed once, and kept for the next starts. ``measure`` is
    ``auto`` that times them again.
    """
    dtype = _ALIASES.get(dtype, dtype)

    def loaded_in(wanted: str) -> tuple[Any, Any]:
        return models.load(
            resolved, wanted, device, trust_remote_code=trust_remote_code, progress=progress
        )

    if dtype not in ("auto", "measure"):
        model, tokenizer = loaded_in(dtype)
        note = models.dtype_note(dtype, model)
        return Loaded(model, tokenizer, f"{models.loaded_dtype(model)}: {note or 'asked for'}")
    obstacle = "" if device != "cpu" else _obstacle(resolved)
    if device != "cpu" or obstacle:
        model, tokenizer = loaded_in("auto")
        reason = f"{models.loaded_dtype(model)}: as stored{obstacle and f'; {obstacle}'}"
        return Loaded(model, tokenizer, reason)
    from engine.backends.hf import dtype_kept as hf_dtype_kept

    key, path = hf_dtype_kept.key_of(resolved.identity), hf_dtype_kept.default_path()
    kept = hf_dtype_kept.find(path, key)
    if kept is not None and dtype == "auto":
        model, tokenizer = loaded_in(kept.dtype)
        return Loaded(model, tokenizer, kept.reason, kept.trials)
    model, tokenizer = loaded_in("float32")
    progress("load", None, "timing decode steps in each dtype")
    choice = _measured(model, tokenizer, kept.dtype if kept else "float32")
    with contextlib.suppress(OSError):  # then the next start times them again
        hf_dtype_kept.save(path, key, choice, datetime.now(UTC))
    return Loaded(model, tokenizer, choice.reason, choice.trials)


def _measured(model: Any, tokenizer: Any, kept: str) -> Choice:
    """Choose the dtype of ``model``, loaded in float32 on the CPU, and convert it to that."""
    from engine.backends.hf import dtype as hf_dtype
    from engine.backends.hf.dtype_trial import time_steps
    from engine.backends.hf.facts import probe_ids

    ids = probe_ids(model, tokenizer, 5)
    times = time_steps(model, ids, hf_dtype.TRIED, available_memory())
    choice = hf_dtype.choose(
        model, tokenizer, ids, times.rounds, kept=kept, free=available_memory()
    )
    trials = tuple(replace(one, rows_ms=times.rows.get(one.dtype)) for one in choice.trials)
    choice = replace(choice, trials=trials)
    if times.layers < times.of_layers:
        part = f"estimated from {times.layers} of {times.of_layers} layers, for want of memory"
        choice = replace(choice, reason=f"{choice.reason}; {part}")
    hf_dtype.convert(model, choice.dtype)
    return choice


def _obstacle(resolved: models.ResolvedModel) -> str:
    """The reason for which dtypes are not tried out on this machine; empty where they are."""
    config = read_object(resolved.path / "config.json")
    if config.get("quantization_config"):
        return "a quantised model is not converted"
    nbytes = weights_bytes(stored_weights(resolved.path), "float32")
    if nbytes < _WORTH_TIMING:
        return "too small a model for its dtype to matter"
    free = available_memory()
    if free is not None and nbytes * _ROOM > free:
        return (
            f"float32, to measure against, would need {nbytes * _ROOM / 1e9:.1f} GB "
            f"and {free / 1e9:.1f} GB is free"
        )
    return ""
