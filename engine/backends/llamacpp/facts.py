"""Facts of a GGUF file that llama.cpp runs, and what is known of the engine."""

from __future__ import annotations

import platform
from collections.abc import Mapping

from engine.backends.llamacpp.hosted import package
from engine.backends.llamacpp.options import Options
from engine.models.ggml_types import type_bytes
from engine.models.gguf_model import GgufModel
from engine.records.engine import Probed
from engine.records.model import ModelFacts

ENGINE = "llamacpp"


def facts_of(
    model: GgufModel,
    options: Options,
    *,
    label: str,
    identity: str,
    ends: Mapping[int, str],
    notes: tuple[str, ...],
    table: tuple[Probed, ...],
    load_ms: float,
) -> ModelFacts:
    """Everything about a loaded model that its file and its options say."""
    heads = model.size("attention.head_count")
    dtype = model.quantisation
    trained = model.size("context_length")
    if options.room < options.most:
        room = f"room for {options.room:,} tokens at first, and for more when they are read"
        notes = (*notes, f"{room}: the model is opened again then, which --context N spares")
    elif options.most < trained:
        notes = (*notes, f"context of {options.most:,}, of {trained:,}: --context sets it")
    return ModelFacts(
        name=label,
        identity=identity,
        architecture=model.architecture,
        device="cpu" if not options.gpu_layers else "gpu",
        device_name=_device(options),
        dtype=dtype,
        dtype_reason=f"{dtype}: as the file has it; K and V in {options.cache_type}",
        dtype_trials=(),
        backend=ENGINE,
        vocab_size=model.vocab_size,
        tokenizer_size=model.vocab_size - model.unused,
        layers=model.size("block_count"),
        query_heads=heads,
        kv_heads=_kv_heads(model),
        head_dim=_head_dim(model),
        hidden_size=model.size("embedding_length"),
        context_length=options.most,
        parameters=model.parameters,
        weight_bytes=model.weight_bytes,
        kv_bytes_per_token_expected=kv_bytes(model, options.cache_type),
        kv_note="" if kv_bytes(model, options.cache_type) else "layers differ in their heads",
        cache_kind=f"llama.cpp, {options.slots} slots side by side",
        can_rewind=True,
        stop_ids=dict(ends),
        has_chat_template=model.chat_template is not None,
        load_ms=load_ms,
        notes=notes,
        versions={"xllamacpp": package().__version__, "python": platform.python_version()},
        threads=options.threads,
        top=options.top_of(model.vocab_size),
        probed=table,
    )


def kv_bytes(model: GgufModel, cache_type: str) -> int | None:
    """Bytes of K and V of one position, by the sizes in the file; None where they differ."""
    wide = model.size("block_count") * _kv_heads(model) * _head_dim(model)
    return 2 * type_bytes(cache_type.upper(), wide) or None


def _kv_heads(model: GgufModel) -> int:
    if model.own("attention.head_count_kv") is None:
        return model.size("attention.head_count")
    return model.size("attention.head_count_kv")


def _head_dim(model: GgufModel) -> int:
    heads = model.size("attention.head_count")
    return model.size("attention.key_length") or (
        model.size("embedding_length") // heads if heads else 0
    )


def _device(options: Options) -> str:
    where = platform.processor() or platform.machine()
    return (
        f"{where}, {options.gpu_layers} layers on the accelerator" * bool(options.gpu_layers)
        or where
    )
