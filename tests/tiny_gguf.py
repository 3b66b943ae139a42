"""A small random Llama as a GGUF file, over the tiny models' vocabulary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFWriter, TokenType

from tests.tiny_models import BOS, CHARACTERS, EOS, KNOWN, SPECIALS, VOCAB

_LAYERS, _HEADS, _KV_HEADS, _HEAD, _WIDE = 2, 4, 2, 8, 48
HIDDEN = _HEADS * _HEAD
CONTEXT = 256
_LETTERS = {" ": "Ġ", "\n": "Ċ"}
"""Byte-level BPE's own letters for bytes that are none; the others stand for themselves."""


def write(
    path: Path, *, template: str | None = None, seed: int = 0, context: int = CONTEXT
) -> Path:
    """Write the model: float32, byte-level BPE without merges, so that a character is a token."""
    rng = np.random.default_rng(seed)
    writer = GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(context)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(_LAYERS)
    writer.add_feed_forward_length(_WIDE)
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv(_KV_HEADS)
    writer.add_rope_dimension_count(_HEAD)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_file_type(0)
    writer.add_vocab_size(VOCAB)
    _add_tokenizer(writer, template)
    for name, shape in _shapes().items():
        writer.add_tensor(name, _weights(name, shape, rng))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_tokenizer(writer: Any, template: str | None) -> None:
    unused = [f"[UNUSED{number}]" for number in range(VOCAB - KNOWN)]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([*SPECIALS, *(_LETTERS.get(one, one) for one in CHARACTERS), *unused])
    normal = [TokenType.NORMAL] * len(CHARACTERS)
    kinds = [*[TokenType.CONTROL] * len(SPECIALS), *normal, *[TokenType.UNUSED] * len(unused)]
    writer.add_token_types(kinds)
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(BOS)
    writer.add_eos_token_id(EOS)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(False)
    if template is not None:
        writer.add_chat_template(template)


def _shapes() -> dict[str, tuple[int, ...]]:
    kv = _KV_HEADS * _HEAD
    layer: dict[str, tuple[int, ...]] = {
        "attn_norm": (HIDDEN,),
        "attn_q": (HIDDEN, HIDDEN),
        "attn_k": (kv, HIDDEN),
        "attn_v": (kv, HIDDEN),
        "attn_output": (HIDDEN, HIDDEN),
        "ffn_norm": (HIDDEN,),
        "ffn_gate": (_WIDE, HIDDEN),
        "ffn_up": (_WIDE, HIDDEN),
        "ffn_down": (HIDDEN, _WIDE),
    }
    layers = {
        f"blk.{number}.{name}.weight": shape
        for number in range(_LAYERS)
        for name, shape in layer.items()
    }
    table = {"token_embd.weight": (VOCAB, HIDDEN), "output.weight": (VOCAB, HIDDEN)}
    return {**table, "output_norm.weight": (HIDDEN,), **layers}


def _weights(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    if "norm" in name:
        return np.ones(shape, np.float32)
    # Wide enough for a wrong cache to show in the logits.
    return rng.normal(0.0, 0.3, shape).astype(np.float32)
