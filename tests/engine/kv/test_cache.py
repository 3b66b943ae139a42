"""The pool under real models: whatever was done before, logits are those of a fresh read."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from engine.kv import attention
from engine.kv.branch import OutOfBlocks
from engine.kv.cache import PooledCache
from engine.kv.layout import Layout, Unpooled, layout_of
from engine.records.cache import PrefixReport
from tests.kv_probe import cache_argument, probe
from tests.tiny_models import MODELS, VOCAB

POOLED = ("llama", "gpt2", "qwen3", "gemma3", "mistral")
BLOCK = 4
TOLERANCE = {torch.float32: 1e-4, torch.float16: 0.02, torch.bfloat16: 0.15}
"""Largest difference of two logits, relative to the largest logit."""

Logits = Any

pytestmark = pytest.mark.usefixtures("one_thread")


@functools.cache
def model_of(name: str, dtype: torch.dtype = torch.float32) -> Any:
    return MODELS[name]().to(dtype)


@functools.cache
def layout(name: str, dtype: torch.dtype = torch.float32) -> Layout:
    return probe(model_of(name, dtype))


@functools.lru_cache(maxsize=4096)
def fresh(name: str, ids: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Logits:
    """Logits after ``ids``, read at once by a model without a cache and its own attention."""
    model = model_of(name, dtype)
    with attended(model, False), torch.inference_mode():
        return model(torch.tensor([ids]), use_cache=False).logits[0, -1].float().numpy()


@contextlib.contextmanager
def attended(model: Any, ours: bool) -> Iterator[None]:
    """With our attention or transformers' own, and as it was afterwards."""
    before = model.config._attn_implementation
    if ours:
        assert attention.install(model)
    else:
        attention.uninstall(model)
    try:
        yield
    finally:
        model.set_attn_implementation(before)


class Reader:
    """A model over a pool, as a backend will drive it."""

    def __init__(
        self,
        name: str,
        *,
        blocks: int = 64,
        dtype: torch.dtype = torch.float32,
        ours: bool = True,
        **more: Any,
    ) -> None:
        self.name, self.dtype, self.ours = name, dtype, ours
        self.model = model_of(name, dtype)
        self.argument = cache_argument(self.model)
        plan = layout(name, dtype)
        quantized = more.get("quantized", False)
        each = sum(plan.position_bytes(window, quantized=quantized) for window in plan.windows)
        size = more.setdefault("block_size", BLOCK)
        self.cache = PooledCache(plan, budget=blocks * size * each, identity=name, **more)

    def read(self, ids: Sequence[int]) -> Logits:
        """Logits after ``ids``, read behind the current branch."""
        with (
            attended(self.model, self.ours),
            self.cache.reading(ids) as positions,
            torch.inference_mode(),
        ):
            assert positions.tolist() == [
                list(range(self.cache.length, self.cache.length + len(ids)))
            ]
            output = self.model(
                torch.tensor([list(ids)]),
                position_ids=positions,
                use_cache=True,
                **{self.argument: self.cache},
            )
        return output.logits[0, -1].float().numpy()

    def prompt(self, ids: Sequence[int]) -> tuple[PrefixReport, Logits]:
        report = self.cache.enter_prompt(ids)
        return report, self.read(ids[report.cached :])

    def go(self, ids: Sequence[int]) -> tuple[int, Logits]:
        found = self.cache.enter(ids)
        return found, self.read(ids[found:])

    def check(self, logits: Logits) -> None:
        expected = fresh(self.name, tuple(self.cache.current.ids), self.dtype)
        assert_alike(logits, expected, TOLERANCE[self.dtype])


def assert_alike(logits: Logits, expected: Logits, tolerance: float) -> None:
    assert np.abs(logits - expected).max() <= tolerance * np.abs(expected).max()


PROMPT = [5, 9, 30, 12, 7, 44, 3, 21, 8, 17, 33, 2, 50, 6]


# --- any sequence of operations -----------------------------------------------------------------

TOKEN = st.integers(0, VOCAB - 1)


class AnySequence(RuleBasedStateMachine):
    """Append, go back, fork, force, start again, evict, fail: as a debugger's user would."""

    @initialize(
        name=st.sampled_from(POOLED), ours=st.booleans(), keep=st.sampled_from([None, 0, 3])
    )
    def load(self, name: str, ours: bool, keep: int | None) -> None:
        # Room for about two long branches, so that there is something to evict.
        self.reader = Reader(name, blocks=22, ours=ours, window_keep=keep)
        self.keep = keep
        self.left: list[list[int]] = []

    @property
    def ids(self) -> list[int]:
        return list(self.reader.cache.current.ids)

    @rule(ids=st.lists(TOKEN, min_size=1, max_size=9))
    def append(self, ids: list[int]) -> None:
        if len(self.ids) + len(ids) <= 40:
            self.reader.check(self.reader.read(ids))

    @rule(share=st.floats(0, 1), token=TOKEN)
    def force(self, share: float, token: int) -> None:
        """Take another token somewhere on the way; the old branch stays."""
        at = round(share * len(self.ids))
        self.left.append(self.ids)
        wanted = [*self.ids[:at], token]
        found, logits = self.reader.go(wanted)
        # What a window has given back is read again.
        assert found == at or (found < at and self.keep is not None)
        assert self.ids == wanted
        self.reader.check(logits)

    @rule(data=st.data())
    def return_to_another(self, data: st.DataObject) -> None:
        if self.left:
            wanted = data.draw(st.sampled_from(self.left))
            if wanted:
                self.left.append(self.ids)
                self.reader.check(self.reader.go(wanted)[1])

    @rule(share=st.floats(0, 1))
    def back(self, share: float) -> None:
        cache = self.reader.cache
        length = round(share * cache.length)
        if cache.pool.readable(cache.current, length):
            cache.truncate(length)
        else:
            with pytest.raises(ValueError, match="sliding window"):
                cache.truncate(length)

    @rule(ids=st.lists(TOKEN, min_size=1, max_size=14), share=st.floats(0, 1))
    def edit_the_prompt(self, ids: list[int], share: float) -> None:
        self.left.append(self.ids)
        wanted = [*self.ids[: round(share * len(self.ids))], *ids][:40]
        report, logits = self.reader.prompt(wanted)
        assert report.cached + report.computed == len(wanted)
        self.reader.check(logits)

    @rule()
    def evict(self) -> None:
        self.reader.cache.pool.evict()

    @rule(ids=st.lists(TOKEN, min_size=1, max_size=6))
    def fail(self, ids: list[int]) -> None:
        before = self.ids
        with pytest.raises(KeyboardInterrupt), self.reader.cache.reading(ids):
            raise KeyboardInterrupt
        assert self.ids == before

    @invariant()
    def figures_are_those_of_the_tensors(self) -> None:
        cache = self.reader.cache
        state = cache.state()
        assert state.reserved_bytes == cache.nbytes
        assert state.current is not None
        assert state.current.length == cache.length
        assert state.filled_bytes <= state.used_bytes <= state.reserved_bytes

    def teardown(self) -> None:
        if hasattr(self, "reader"):
            cache = self.reader.cache
            cache.clear()
            assert all(not any(blocks.refs) for blocks in cache.pool.groups)


TestAnySequence = AnySequence.TestCase
TestAnySequence.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", POOLED)
def test_half_precision_agrees_within_its_tolerance(name: str, dtype: torch.dtype) -> None:
    reader = Reader(name, dtype=dtype)
    reader.check(reader.read(PROMPT))
    for token in (4, 40, 11):
        reader.check(reader.read([token]))
    _, logits = reader.go([*PROMPT[:7], 9])
    reader.check(logits)
    for token in (4, 40, 11):
        reader.check(reader.read([token]))


@pytest.mark.parametrize("name", POOLED)
def test_scattered_blocks_are_gathered(name: str) -> None:
    """Two branches that grow by turns, in a pool without room to keep them apart."""
    reader = Reader(name, blocks=17)
    reader.read(PROMPT[:3])
    other = reader.cache.fork(2)
    for token in range(20):
        for branch in (reader.cache.current, other):
            reader.cache.switch(branch)
            reader.check(reader.read([token]))
    assert reader.cache.state().pieces > 1 or name in ("gemma3", "mistral")
    # So many pieces that they are gathered by index rather than copied one by one.
    reader.check(reader.read(PROMPT[:1]))


# --- the cases of the trackers ------------------------------------------------------------------


def test_case_22_removing_positions_is_exact() -> None:
    reader = Reader("llama")
    reader.read([5, 9, 30])
    cache = reader.cache
    cache.crop(0)
    assert cache.length == 3
    cache.crop(-1)
    assert cache.length == 2
    reader.check(reader.read([7]))
    cache.crop(-5)
    assert cache.length == 0
    with pytest.raises(ValueError, match="negative number"):
        cache.crop(2)
    reader.check(reader.read([5, 9]))
    # What was accepted stays in every layer, and not one position more.
    assert [cache.get_seq_length(layer) for layer in range(len(cache.layers))] == [2, 2, 2]


def test_case_23_seen_and_stored_differ_in_a_window() -> None:
    reader = Reader("mistral", block_size=1, window_keep=0)
    cache = reader.cache
    returned: list[int] = []
    update = cache.layers[0].store.update

    def spy(*args: Any) -> Any:
        keys, values = update(*args)
        returned.append(keys.shape[2])
        return keys, values

    cache.layers[0].store.update = spy
    for ids in ([1, 2, 3], [4], [5], [6], [7]):
        reader.check(reader.read(ids))
    assert cache.get_seq_length() == cache.length == 7
    assert cache.size_of(cache.current)[0] == 3
    assert returned == [3, 4, 4, 4, 4]


def test_case_23_a_hybrid_model_has_its_own_numbers_for_each_group() -> None:
    reader = Reader("gemma3", block_size=1, window_keep=0)
    reader.read(PROMPT)
    state = reader.cache.state()
    full, sliding = state.groups
    assert (full.window, full.layers) == (None, (2,))
    assert (sliding.window, sliding.layers) == (4, (0, 1))
    assert state.current is not None
    assert [int((table >= 0).sum()) for table in state.current.tables] == [14, 3]


def test_case_25_sizes_are_those_of_real_heads() -> None:
    config = transformers.LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=576,
        intermediate_size=8,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        head_dim=64,
    )
    plan = probe(transformers.LlamaForCausalLM(config))
    assert plan.position_bytes(None) == 46_080
    cache = PooledCache(plan, budget=46_080 * 64)
    assert cache.nbytes == 46_080 * 64
    assert cache.state().position_bytes == 46_080
    # One byte a number and a two-byte scale per position and head, for K and for V.
    assert plan.position_bytes(None, quantized=True) == 2 * 30 * 3 * (64 + 2) == 11_880


@pytest.mark.parametrize(("keep", "found"), [(0, 0), (None, 5)])
@pytest.mark.parametrize("name", ["mistral", "gemma3"])
def test_case_27_going_back_beyond_the_window(name: str, keep: int | None, found: int) -> None:
    """Window 4, twelve tokens, back to token 5: read again in full where the window is gone."""
    reader = Reader(name, block_size=2, window_keep=keep)
    ids = PROMPT[:12]
    reader.prompt(ids)
    at, logits = reader.go([*ids[:5], 63])
    assert at == found
    reader.check(logits)
    reader.check(reader.read([1]))


def test_case_28_in_parts_and_at_once_differ_by_rounding_only() -> None:
    reader = Reader("llama")
    reader.read(PROMPT[:-1])
    in_parts = reader.read(PROMPT[-1:])
    at_once = fresh("llama", tuple(PROMPT))
    assert np.abs(in_parts - at_once).max() <= 1e-4 * np.abs(at_once).max()
    assert in_parts.argmax() == at_once.argmax()


def test_case_52_compared_runs_are_never_padded() -> None:
    """Two branches of different lengths get the positions that each would have alone."""
    reader = Reader("gpt2")
    reader.read(PROMPT[:6])
    reader.cache.fork(2)
    reader.check(reader.read([9]))
    reader.check(reader.go([*PROMPT[:6], 9])[1])


def test_case_54_eight_bits_are_cut_back_like_any_other() -> None:
    reader = Reader("llama", quantized=True)
    reader.read(PROMPT)
    after = reader.read([7])
    reader.cache.truncate(len(PROMPT) - 6)
    reader.read(PROMPT[-6:])
    again = reader.read([7])
    assert_alike(again, after, 1e-4)


def test_case_55_only_the_last_logits_are_asked_for() -> None:
    reader = Reader("llama")
    with reader.cache.reading(PROMPT), torch.inference_mode():
        output = reader.model(
            torch.tensor([PROMPT]), logits_to_keep=1, **{reader.argument: reader.cache}
        )
    assert output.logits.shape == (1, 1, VOCAB)


def test_case_69_a_recurrent_model_is_refused_by_reason() -> None:
    # Older releases of transformers give Mamba's cache a name of its own.
    with pytest.raises(
        Unpooled, match=r"takes no cache of K and V|recurrent state of constant size"
    ):
        probe(MODELS["mamba"]())
    jamba = transformers.JambaConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        attn_layer_period=2,
        attn_layer_offset=1,
        use_mamba_kernels=False,
        num_experts=1,
        mamba_d_state=4,
        mamba_dt_rank=4,
    )
    with pytest.raises(Unpooled, match="recurrent state of constant size"):
        probe(transformers.JambaForCausalLM(jamba).eval())


def test_case_72_soft_capped_scores_stay_capped() -> None:
    """Whoever attends: some releases of transformers run this model in sdpa, without the cap."""
    config = transformers.Gemma2Config(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        sliding_window=4,
        attn_logit_softcapping=2.0,
        initializer_range=0.3,
    )
    torch.manual_seed(0)
    model = transformers.Gemma2ForCausalLM(config).eval()
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        expected = model(torch.tensor([PROMPT]), use_cache=False).logits[0, -1].numpy()
    for theirs in ("eager", "sdpa"):
        model.set_attn_implementation("eager")
        with contextlib.suppress(ValueError):  # this release knows that sdpa cannot do it
            model.set_attn_implementation(theirs)
        attention.install(model)
        cache = PooledCache(probe(model), budget=1 << 20, block_size=BLOCK)
        argument = cache_argument(model)
        with torch.inference_mode():
            for piece in (PROMPT[:9], PROMPT[9:13], PROMPT[13:]):
                with cache.reading(piece):
                    output = model(torch.tensor([piece]), use_cache=True, **{argument: cache})
        assert_alike(output.logits[0, -1].numpy(), expected, 1e-4)


# --- models with shapes of their own ------------------------------------------------------------


def test_latent_attention_keeps_two_tensors_of_different_width() -> None:
    """What they are (the latent and the rotated part, or K and V expanded) is up to transformers."""
    config = transformers.DeepseekV3Config(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=32,
        moe_intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        n_routed_experts=2,
        num_experts_per_tok=1,
        n_group=1,
        topk_group=1,
        first_k_dense_replace=2,
        kv_lora_rank=8,
        q_lora_rank=None,
        qk_rope_head_dim=4,
        qk_nope_head_dim=12,
        v_head_dim=8,
        initializer_range=0.3,
    )
    torch.manual_seed(0)
    model = transformers.DeepseekV3ForCausalLM(config).eval()
    plan = probe(model)
    shape = plan.layers[0]
    assert shape is not None
    assert shape.key_dim != shape.value_dim
    argument = cache_argument(model)
    with torch.inference_mode():
        expected = model(torch.tensor([PROMPT]), use_cache=False).logits[0, -1].numpy()
    for quantized, tolerance in ((False, 1e-4), (True, 0.05)):
        cache = PooledCache(plan, budget=1 << 20, block_size=BLOCK, quantized=quantized)
        with attended(model, True), torch.inference_mode():
            for piece in (PROMPT[:9], PROMPT[9:13], PROMPT[13:]):
                # A fork in the middle of a block, so that the blocks lie apart.
                cache.fork(cache.length)
                with cache.reading(piece):
                    output = model(torch.tensor([piece]), use_cache=True, **{argument: cache})
        assert cache.state().pieces > 1
        assert_alike(output.logits[0, -1].numpy(), expected, tolerance)


def test_layers_that_read_what_another_has_written() -> None:
    config = transformers.Gemma3nTextConfig(
        vocab_size=VOCAB,
        vocab_size_per_layer_input=VOCAB,
        hidden_size=32,
        hidden_size_per_layer_input=8,
        intermediate_size=[48] * 6,
        num_hidden_layers=6,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        sliding_window=4,
        num_kv_shared_layers=2,
        laurel_rank=4,
        altup_num_inputs=2,
        layer_types=["sliding_attention", "full_attention"] * 3,
        activation_sparsity_pattern=[0.0] * 6,
        initializer_range=0.3,
    )
    torch.manual_seed(0)
    model = transformers.Gemma3nForCausalLM(config).eval()
    plan = probe(model)
    assert plan.shared
    assert [layer.window for layer in plan.layers if layer] == [4, None, 4, None]
    cache = PooledCache(plan, budget=1 << 20, block_size=BLOCK)
    argument = cache_argument(model)
    with torch.inference_mode():
        expected = model(torch.tensor([PROMPT]), use_cache=False).logits[0, -1].numpy()
        with attended(model, True):
            for piece in (PROMPT[:6], PROMPT[6:9], PROMPT[9:13], PROMPT[13:]):
                # Apart, so that what is read is a copy, which must last until the others read it.
                cache.fork(cache.length)
                with cache.reading(piece):
                    output = model(torch.tensor([piece]), use_cache=True, **{argument: cache})
    assert cache.state().pieces > 1
    assert_alike(output.logits[0, -1].numpy(), expected, 1e-4)


def test_an_empty_or_foreign_cache_has_no_layout() -> None:
    with pytest.raises(Unpooled, match="keeps no cache"):
        layout_of(object())
    with pytest.raises(Unpooled, match="keeps no cache"):
        layout_of(transformers.DynamicCache())


# --- using it wrongly ---------------------------------------------------------------------------


def test_a_pass_outside_reading_is_refused() -> None:
    reader = Reader("llama")
    with pytest.raises(RuntimeError, match="inside `reading` only"), torch.inference_mode():
        reader.model(torch.tensor([[1]]), use_cache=True, **{reader.argument: reader.cache})


def test_a_pass_that_did_not_use_the_cache_is_noticed() -> None:
    reader = Reader("llama")
    with (
        pytest.raises(RuntimeError, match="layer 0 of the model did not use the cache"),
        reader.cache.reading([1, 2]),
    ):
        pass
    assert reader.cache.length == 0


def test_a_full_pool_is_one_line_and_the_branch_stays() -> None:
    reader = Reader("llama", blocks=3)
    reader.read(PROMPT[:10])
    with pytest.raises(OutOfBlocks, match="raise the KV budget"):
        reader.read([1, 2, 3])
    assert reader.cache.length == 10
    reader.check(reader.read([1]))


def test_what_was_evicted_is_read_again_and_the_report_says_so() -> None:
    reader = Reader("llama", blocks=6)
    reader.prompt(PROMPT[:12])
    reader.prompt([1] * 16)
    assert reader.cache.state().evicted_branches == 1
    report, logits = reader.prompt(PROMPT[:12])
    assert (report.cached, report.computed, report.evicted_blocks) == (0, 12, 3)
    assert report.reason == "3 blocks of it were evicted to make room"
    reader.check(logits)


def test_a_budget_without_room_for_a_block_says_so() -> None:
    with pytest.raises(ValueError, match="holds no block of 16 positions"):
        PooledCache(layout("llama"), budget=100)
