"""Small random models of several architectures, and a tokenizer of single characters."""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import Any

import torch
import transformers
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors

from engine.backends.hf.backend import HFBackend

VOCAB = 64
"""Width of the models' logits; the tokenizer knows fewer, as real ones often do."""
BOS, EOS = 1, 2
SPECIALS = ["<unk>", "<bos>", "<eos>"]
CHARACTERS = [*string.ascii_lowercase, *string.digits, *" .,:;!?'\"-+*/=()[]<>", "\n"]
KNOWN = len(SPECIALS) + len(CHARACTERS)

CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '[' + message['role'] + ':' + message['content'] + ']' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '[assistant:' }}{% endif %}"
)


def tokenizer(*, bos: bool = False, template: str | None = None) -> Any:
    """One token a character; with ``bos``, a ``<bos>`` in front of every text."""
    vocabulary = {token: index for index, token in enumerate([*SPECIALS, *CHARACTERS])}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    made.decoder = decoders.Fuse()
    if bos:
        made.post_processor = processors.TemplateProcessing(
            single="<bos> $A", special_tokens=[("<bos>", BOS)]
        )
    wrapped = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<bos>", eos_token="<eos>", unk_token="<unk>"
    )
    wrapped.chat_template = template
    return wrapped


# Wide initial weights: logits that differ enough for a wrong cache to show.
_COMMON: dict[str, Any] = {
    "vocab_size": VOCAB,
    "bos_token_id": BOS,
    "eos_token_id": EOS,
    "initializer_range": 0.3,
}
DECODER: dict[str, Any] = {
    **_COMMON,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
}


def llama(**more: Any) -> Any:
    """Grouped-query attention: four query heads on two key/value heads."""
    return built(transformers.LlamaForCausalLM, transformers.LlamaConfig(**{**DECODER, **more}))


def gpt2() -> Any:
    """Learned positions, and linear layers stored the other way round."""
    config = transformers.GPT2Config(**_COMMON, n_embd=32, n_layer=2, n_head=4, n_positions=64)
    return built(transformers.GPT2LMHeadModel, config)


def qwen3() -> Any:
    """Heads wider than hidden / heads."""
    return built(transformers.Qwen3ForCausalLM, transformers.Qwen3Config(**DECODER, head_dim=16))


def gemma3() -> Any:
    """Two layers that see four positions, and one that sees all."""
    config = transformers.Gemma3TextConfig(
        **DECODER,
        head_dim=8,
        sliding_window=4,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"],
    )
    return built(transformers.Gemma3ForCausalLM, config)


def mistral() -> Any:
    """Every layer sees four positions."""
    config = transformers.MistralConfig(**DECODER, head_dim=8, sliding_window=4)
    return built(transformers.MistralForCausalLM, config)


def mamba() -> Any:
    """No attention: a recurrent state."""
    config = transformers.MambaConfig(
        **_COMMON, hidden_size=32, num_hidden_layers=2, state_size=8, conv_kernel=4
    )
    return built(transformers.MambaForCausalLM, config)


def deepseek() -> Any:
    """Multi-head latent attention: one small vector a position is kept for all heads."""
    config = transformers.DeepseekV3Config(
        **{**DECODER, "num_hidden_layers": 2, "num_key_value_heads": 4},
        moe_intermediate_size=16,
        n_shared_experts=1,
        n_routed_experts=4,
        num_experts_per_tok=2,
        n_group=1,
        topk_group=1,
        first_k_dense_replace=1,
        kv_lora_rank=8,
        q_lora_rank=16,
        qk_rope_head_dim=4,
        qk_nope_head_dim=8,
        v_head_dim=8,
    )
    return built(transformers.DeepseekV3ForCausalLM, config)


MODELS: dict[str, Callable[[], Any]] = {
    build.__name__: build for build in (llama, gpt2, qwen3, gemma3, mistral, mamba, deepseek)
}


def built(kind: Any, config: Any) -> Any:
    """A model of class ``kind`` with random weights, the same at each call."""
    torch.manual_seed(0)
    return kind(config).eval()


def backend(name: str, **more: Any) -> HFBackend:
    """A backend on the tiny model called ``name``, with the character tokenizer."""
    return HFBackend(MODELS[name](), tokenizer(), name=name, **more)
