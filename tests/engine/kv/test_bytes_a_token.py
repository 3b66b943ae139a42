"""Bytes of K and V for a token, from the real tensors and by the formula, for every kind of heads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.run.stepper import Stepper
from engine.sampling.chain import effective
from inspector.panes.kv.figures import per_token
from tests import tiny_models
from tests.tiny_models import HFBackend, tokenizer

FLOAT32 = 4


def read(backend: HFBackend, positions: int) -> Stepper:
    stepper = Stepper(backend, effective("guide", {"temperature": 0}))
    stepper.submit_ids([at % 8 for at in range(positions)])
    stepper.step()
    return stepper


@pytest.mark.parametrize(("kind", "kv_heads"), [("MHA", 4), ("GQA", 2), ("MQA", 1)])
def test_the_tensors_hold_what_the_formula_says(kind: str, kv_heads: int) -> None:
    """2 x 3 layers x K/V heads x 8 wide x 4 bytes, in blocks of one position."""
    model = tiny_models.llama(num_key_value_heads=kv_heads)
    backend = HFBackend(model, tokenizer(), name=kind)
    stepper = read(backend, 16)
    facts, kv = backend.facts, stepper.nodes[1].kv
    expected = 2 * 3 * kv_heads * 8 * FLOAT32
    assert facts.kv_bytes_per_token_expected == expected
    assert per_token(facts, kv) == expected
    pool = stepper.pool_state()
    assert pool is not None
    assert pool.position_bytes == expected
    backend.close()


def test_mla_keeps_a_latent_and_a_rotary_part_once_for_all_heads() -> None:
    backend = tiny_models.backend("deepseek")
    stepper = read(backend, 16)
    config, facts, kv = backend.model.config, backend.facts, stepper.nodes[1].kv
    latent = config.kv_lora_rank + config.qk_rope_head_dim
    expected = config.num_hidden_layers * latent * FLOAT32
    assert per_token(facts, kv) == expected
    assert facts.kv_bytes_per_token_expected in (None, expected)
    backend.close()


def test_a_recurrent_state_has_no_size_a_token_and_says_why() -> None:
    backend = tiny_models.backend("mamba")
    facts, kv = backend.facts, read(backend, 16).nodes[1].kv
    assert facts.kv_bytes_per_token_expected is None
    assert per_token(facts, kv) is None
    assert "recurrent state" in facts.kv_note
    assert per_token(replace(facts, kv_note=""), replace(kv, nbytes=None)) is None
    backend.close()
