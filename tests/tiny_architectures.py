"""A tiny random model of every causal architecture that transformers knows, or why there is none."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

_TEXT_PART = "reads more than text; its text part has a type of its own, which is tried"

LEFT_OUT: dict[str, str] = {
    **dict.fromkeys(
        (
            *("dots3_note", "emu3", "gemma3", "gemma3n", "gemma4"),
            *("gemma4_unified", "llama4", "mllama", "qwen3_5", "qwen3_5_moe", "qwen4_exp"),
        ),
        _TEXT_PART,
    ),
    **dict.fromkeys(
        ("fuyu", "git", "got_ocr2", "moss_transcribe_diarize", "phi4_multimodal"),
        "reads pictures or sound and cannot be made tiny by the sizes of its text part",
    ),
    **dict.fromkeys(
        ("gemma4_assistant", "gemma4_unified_assistant"),
        "drafts for another model out of that one's hidden states",
    ),
    **dict.fromkeys(("musicgen", "musicgen_melody"), "writes sound in several codebooks at once"),
    "blt": "takes bytes in patches that another model of its own finds",
    "dory": "generate() fails in transformers 5.24 with the model's own cache",
    "xlm": "generate() asks for the token under a mask behind the text, not for the next one",
    "xlnet": "refused: its positions see what comes after them",
}
"""Types of MODEL_FOR_CAUSAL_LM that are not tried, and why."""

_SIZES: dict[str, Any] = {
    **dict.fromkeys(("vocab_size", "vocab_size_per_layer_input", "unpadded_vocab_size"), 64),
    **dict.fromkeys(
        ("hidden_size", "n_embd", "d_model", "dim", "embedding_size", "attention_hidden_size"), 32
    ),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size", "d_ff"), 48),
    **dict.fromkeys(("decoder_ffn_dim", "encoder_ffn_dim"), 48),
    **dict.fromkeys(
        (
            *("moe_intermediate_size", "shared_expert_intermediate_size", "expert_ffn_hidden_size"),
            *("moe_shared_expert_intermediate_size", "q_lora_rank"),
        ),
        16,
    ),
    **dict.fromkeys(
        ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers"), 2
    ),
    **dict.fromkeys(("encoder_layers", "num_decoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads"), 4),
    **dict.fromkeys(("decoder_attention_heads", "encoder_attention_heads"), 4),
    **dict.fromkeys(("swa_num_attention_heads", "linear_num_heads"), 4),
    **dict.fromkeys(("num_key_value_heads", "swa_num_key_value_heads"), 2),
    **dict.fromkeys(("linear_num_key_heads", "linear_num_value_heads"), 2),
    **dict.fromkeys(("head_dim", "swa_head_dim", "linear_head_dim", "qk_nope_head_dim"), 8),
    **dict.fromkeys(("v_head_dim", "kv_lora_rank", "state_size", "ssm_state_size"), 8),
    **dict.fromkeys(("mamba_d_state", "linear_key_head_dim", "linear_value_head_dim"), 8),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx"), 256),
    **dict.fromkeys(("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "moe_topk", "moe_k", "zero_expert_num"), 2),
    **dict.fromkeys(("n_group", "topk_group", "n_shared_experts", "first_k_dense_replace"), 1),
    # Shorter than the texts that are read.
    **dict.fromkeys(("sliding_window", "sliding_window_size", "attention_chunk_size"), 6),
    **dict.fromkeys(("pronunciation_embed_dim", "shape_embed_dim"), 8),
    **dict.fromkeys(("pronunciation_vocab_size", "shape_vocab_size"), 64),
    "qk_rope_head_dim": 4,
    "hidden_size_per_layer_input": 8,
    # Wide initial weights: logits that differ enough for a wrong cache to show.
    "is_decoder": True,
    "initializer_range": 0.3,
    "bos_token_id": 1,
    "eos_token_id": None,
    "pad_token_id": 0,
}
"""Sizes by the names that configurations have for them; what a type does not know it is not given."""

_NOT_GIVEN = object()
_LATENT = {"num_key_value_heads": 4, "head_dim": _NOT_GIVEN}
_LINEAR = {"layer_types": ["linear_attention", "full_attention"]}
_CONV = {"layer_types": ["conv", "full_attention"]}
_ROPE = {"rope_type": "default", "rope_theta": 10000.0}
_MAMBA = {"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_expand": 2, "mamba_n_groups": 1}

_OWN: dict[str, dict[str, Any]] = {
    **dict.fromkeys(
        (
            *("axk1", "axk2", "deepseek_v2", "deepseek_v3", "deepseek_v32", "glm4_moe_lite"),
            *("dots3_note_text", "glm_moe_dsa", "minicpm3", "sarvam_mla", "youtu"),
        ),
        _LATENT,
    ),
    **dict.fromkeys(("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"), _LINEAR),
    **dict.fromkeys(("lfm2", "lfm2_moe", "lfm3"), _CONV),
    "bailing_hybrid": {**_LATENT, **_LINEAR},
    "bamba": {**_MAMBA, "attn_layer_indices": [1]},
    "codegen": {"rotary_dim": 8},
    "cohere_compass_text": {
        "layer_types": ["sliding_attention", "full_attention"],
        "rope_parameters": dict.fromkeys(("sliding_attention", "full_attention"), _ROPE),
    },
    "dbrx": {
        "attn_config": {"kv_n_heads": 2, "rope_theta": 10000.0, "clip_qkv": 8.0},
        "ffn_config": {"ffn_hidden_size": 16, "moe_num_experts": 4, "moe_top_k": 2},
    },
    "falcon_h1": {**_MAMBA, "mamba_d_ssm": 64},
    "gemma3n_text": {
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "num_hidden_layers": 4,
        "num_kv_shared_layers": 2,
    },
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 6},
    "gptj": {"rotary_dim": 8},
    "granitemoehybrid": {**_MAMBA, "layer_types": ["mamba", "attention"]},
    "jamba": {
        "attn_layer_period": 2,
        "attn_layer_offset": 1,
        "expert_layer_period": 2,
        "expert_layer_offset": 1,
    },
    "kimi_linear": {**_LATENT, **_LINEAR},
    "longcat_flash": {"num_key_value_heads": _NOT_GIVEN, "head_dim": 4},
    "mamba2": {"num_heads": 8, "head_dim": 8, "expand": 2, "n_groups": 1},
    # Its own cache ignores a window where the first layer is linear; no checkpoint has both.
    "minimax": {**_LINEAR, "sliding_window": None},
    "nemotron_h": {
        "layers_block_type": ["mamba", "attention"],
        "num_hidden_layers": _NOT_GIVEN,
        "mamba_num_heads": 4,
        "mamba_head_dim": 16,
        "n_groups": 1,
        "sliding_window": None,
    },
    "recurrent_gemma": {
        "block_types": ["recurrent", "attention"],
        "attention_window_size": 6,
        "lru_width": 32,
    },
    "reformer": {
        "axial_pos_embds": False,
        "attn_layers": ["local", "lsh"],
        "num_hashes": 1,
        "feed_forward_size": 48,
        "attention_head_size": 8,
        "num_buckets": 2,
    },
    "xlstm": {"num_blocks": 2, "ffn_round_up_to_multiple_of": 8},
    "xmod": {"languages": ["en"], "default_language": "en"},
    "zamba": {
        "layers_block_type": ["linear_attention", "hybrid", "hybrid"],
        "num_hidden_layers": 3,
        "num_key_value_heads": 4,
        "attention_head_dim": 16,
        "attention_hidden_size": 64,
    },
    "zamba2": {
        "layers_block_type": ["linear_attention", "hybrid"],
        "num_key_value_heads": 4,
        "n_mamba_heads": 4,
        "mamba_ngroups": 1,
        "adapter_rank": 8,
    },
    "zaya": {"num_experts_per_tok": 1},
}
"""Settings of a type beside the sizes."""

TRIED = sorted(set(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES) - set(LEFT_OUT))


def build(kind: str) -> Any:
    """A model of two layers or so, in float32, with the same random weights each time."""
    config = CONFIG_MAPPING[kind]
    known = {name for one in config.__mro__ for name in getattr(one, "__annotations__", ())}
    given = {name: value for name, value in _SIZES.items() if name in known}
    given = {**given, **_OWN.get(kind, {})}
    made = config(**{name: value for name, value in given.items() if value is not _NOT_GIVEN})
    named = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[kind]
    torch.manual_seed(0)
    return getattr(transformers, named if isinstance(named, str) else named[0])(made).eval()
