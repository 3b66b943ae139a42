"""Every causal architecture of transformers against its own ``generate()`` (A9).

``tiny_architectures`` lists what is left out, and why.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from engine.backends.hf.backend import HFBackend
from engine.records.arrays import FloatArray
from tests import tiny_architectures, tiny_models
from tests.backends import fresh, read

PROMPT = [5, 9, 30, 12, 7, 44, 3, 21]
TOKENS = 5
EXACT = 1e-3
"""Of the logits' standard deviation: what sums in another order may cost, in float32."""

CACHE_DIFFERS = {
    "cpmant": "what it keeps of the prompt is not what it would compute again",
    "moshi": "its cache drops what has left the window, which its mask would let be seen",
    "nemotron_h": "its recurrent layers sum up a text otherwise than they step through it",
    "prophetnet": "its n-gram stream is another with the cache",
}
"""Where ``generate()`` itself gives other logits with the model's cache than without."""


pytestmark = pytest.mark.usefixtures("one_thread")


def generated(model: Any, *, cached: bool) -> list[FloatArray] | str:
    """The logits of each step of a greedy ``generate()``, or why there are none."""
    try:
        with torch.inference_mode():
            told = model.generate(
                torch.tensor([PROMPT]),
                do_sample=False,
                max_new_tokens=TOKENS,
                min_new_tokens=TOKENS,
                use_cache=cached,
                return_dict_in_generate=True,
                output_logits=True,
            )
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return [one[0].float().numpy() for one in told.logits]


def ours(backend: HFBackend, expected: list[FloatArray], *chunks: int) -> float:
    """How far our steps lie from ``expected``, in its standard deviations; the same tokens."""
    backend.clear()
    at = 0
    for count in chunks:
        result = backend.prefill(PROMPT[at : at + count], profile=False)
        at += count
    worst = 0.0
    for number, wanted in enumerate(expected):
        if number:
            result = backend.decode(int(expected[number - 1].argmax()))
        worst = max(worst, distance(result.logits, wanted))
        if worst < EXACT:
            assert result.logits.argmax() == wanted.argmax()
    return worst


def rows_apart(backend: HFBackend) -> float:
    """How far texts of unlike lengths, read on in one call, lie from what each gives alone."""
    texts, more = (PROMPT, [4, 11], [*PROMPT, *range(30, 40)]), ([6], [7, 8, 9], [13, 14])
    alone, held = [], []
    for ids, new in zip(texts, more, strict=True):
        fresh(backend, ids)
        held.append(backend.fork(backend.sequence))
        alone.append(read(backend, *new).logits)
    rows = backend.forward(list(zip(held, more, strict=True))).rows
    return max(distance(row.values, one) for row, one in zip(rows, alone, strict=True))


def distance(left: FloatArray, right: FloatArray) -> float:
    finite = np.isfinite(right)
    return float(np.abs(left - right)[finite].max() / right[finite].std())


@pytest.mark.parametrize("kind", tiny_architectures.TRIED)
@pytest.mark.filterwarnings("ignore")
def test_logits_are_those_of_generate_with_a_cache_and_without_a9(kind: str) -> None:
    """A9: 8 tokens, then greedy ones, in float32; also with the prompt in two chunks."""
    model = tiny_architectures.build(kind)
    cached, uncached = generated(model, cached=True), generated(model, cached=False)
    assert not isinstance(uncached, str), uncached
    backend = HFBackend(model, tiny_models.tokenizer())
    with backend.side_sequence(cached=False):
        assert ours(backend, uncached, len(PROMPT)) < EXACT
    if isinstance(cached, str) or not backend.facts.keeps_cache:
        # A cache that fails or is none: each step reads all, and a note says so.
        assert any("each step reads the whole text" in note for note in backend.facts.notes)
        cached = uncached
    apart = max(distance(one, other) for one, other in zip(cached, uncached, strict=True))
    assert (apart < EXACT) == (kind not in CACHE_DIFFERS or not backend.facts.keeps_cache)
    assert ours(backend, cached, len(PROMPT)) < EXACT
    assert ours(backend, cached, 3, 5) < max(EXACT, apart)
    # Without a pool a row is read again at once, which recurrent layers sum in larger pieces.
    assert rows_apart(backend) < (EXACT if backend.pool is not None else 5 * EXACT)


def test_what_is_left_out_is_known_to_transformers_a9() -> None:
    """A9: a type that transformers gives up, or gets, is noticed here."""
    known = set(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
    assert set(tiny_architectures.LEFT_OUT) <= known
    assert set(tiny_architectures._OWN) <= known
    assert set(CACHE_DIFFERS) <= set(tiny_architectures.TRIED)


def test_linear_attention_is_called_so_a9() -> None:
    """A9: MiniMax keeps its linear layers' states beside the cache's layers."""
    facts = HFBackend(tiny_architectures.build("minimax"), tiny_models.tokenizer()).facts
    assert facts.cache_kind == "hybrid: full attention + recurrent state"
    assert "1 of 2 layers keep a recurrent state" in facts.kv_note
    assert not facts.can_rewind
