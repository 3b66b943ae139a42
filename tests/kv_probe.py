"""The layout of a model's cache, from one pass: for tests and benchmarks that make a pool by hand."""

from __future__ import annotations

from typing import Any

import torch
from transformers import DynamicCache

from engine.backends.hf.native_cache import argument_of
from engine.kv.layout import Layout, layout_of


def cache_argument(model: Any) -> str:
    """The name under which ``model`` takes its cache."""
    found = argument_of(model)
    assert found is not None, "the model takes no cache"
    return found


def probe(model: Any, token_id: int = 0) -> Layout:
    """The layout of ``model``, from one pass over ``token_id``. Raises Unpooled."""
    config = model.config.get_text_config(decoder=True)
    cache = DynamicCache(config=config)
    ids = torch.tensor([[token_id]], device=model.get_input_embeddings().weight.device)
    with torch.inference_mode():
        model(ids, use_cache=True, **{cache_argument(model): cache})
    return layout_of(cache, hidden_layers=getattr(config, "num_hidden_layers", None))
