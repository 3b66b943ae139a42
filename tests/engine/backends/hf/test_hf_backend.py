"""The transformers backend beyond the contract: facts, prompts, caches, dtypes, failures."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from engine.backends import open_backend
from engine.backends.base import BackendError
from engine.backends.hf import dtype as hf_dtype
from engine.backends.hf import facts as hf_facts
from engine.backends.hf import layer_timer as hf_layers
from engine.backends.hf import native_cache as hf_cache
from engine.backends.hf import upcast as hf_wide
from engine.backends.hf.backend import HFBackend
from engine.backends.hf.pool import KVOptions
from engine.kv.cache import PooledCache
from engine.records.prompt import Origin
from engine.records.vocabulary import TokenKind
from engine.run.stepper import Stepper
from engine.sampling.chain import effective
from tests import tiny_models
from tests.tiny_models import BOS, CHAT_TEMPLATE, EOS, KNOWN, VOCAB

IDS = [5, 9, 30, 12, 7, 44, 3, 21, 8]


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def llama() -> HFBackend:
    return tiny_models.backend("llama")


def chatting(template: str = CHAT_TEMPLATE, **more: Any) -> HFBackend:
    return HFBackend(
        tiny_models.llama(), tiny_models.tokenizer(template=template, **more), name="chat"
    )


# --- facts --------------------------------------------------------------------------------------


def test_sizes_are_those_of_the_model(llama: HFBackend) -> None:
    facts = llama.facts
    assert (facts.layers, facts.query_heads, facts.kv_heads, facts.head_dim) == (3, 4, 2, 8)
    assert (facts.hidden_size, facts.context_length) == (32, 256)
    assert (facts.vocab_size, facts.tokenizer_size) == (VOCAB, KNOWN)
    assert facts.architecture == "LlamaForCausalLM"
    assert facts.device == "cpu"
    assert facts.device_name
    assert facts.backend == "hf"
    assert facts.threads == 1
    assert facts.load_ms > 0
    assert {"torch", "transformers", "python", "numpy"} <= set(facts.versions)
    assert facts.notes == ()


def test_bytes_per_token_is_the_formula_and_what_the_cache_really_takes(llama: HFBackend) -> None:
    # 2 x 3 layers x 2 heads x 8 numbers x 4 bytes
    assert llama.facts.kv_bytes_per_token_expected == 384
    llama.prefill(IDS)
    assert llama.kv() == (9, 9 * 384)


def test_a_head_dim_set_apart_counts() -> None:
    backend = tiny_models.backend("qwen3")
    assert (backend.facts.hidden_size, backend.facts.head_dim) == (32, 16)
    assert backend.facts.kv_bytes_per_token_expected == 2 * 3 * 2 * 16 * 4


def test_tied_weights_count_once() -> None:
    untied = tiny_models.llama()
    tied = tiny_models.llama(tie_word_embeddings=True)
    count, size = hf_facts.weights_of(tied)
    assert hf_facts.weights_of(untied)[0] - count == VOCAB * 32
    assert size == count * 4
    assert count == tied.num_parameters()


@pytest.mark.parametrize(
    ("name", "kind", "rewinds"),
    [
        ("llama", "full attention", True),
        ("gpt2", "full attention", True),
        ("mistral", "sliding window", True),
        ("gemma3", "hybrid: full attention + sliding window", True),
        ("mamba", "recurrent state", False),
    ],
)
def test_the_kind_of_cache_is_told_from_the_cache(name: str, kind: str, rewinds: bool) -> None:
    facts = tiny_models.backend(name).facts
    assert (facts.cache_kind, facts.can_rewind) == (kind, rewinds)
    assert (facts.kv_bytes_per_token_expected is None) == (not rewinds)
    assert bool(facts.kv_note) == (not rewinds)


def test_a_sliding_window_stores_less_than_it_has_seen() -> None:
    backend = tiny_models.backend("mistral", kv=KVOptions(window_keep=0, block_size=1))
    assert not backend.facts.can_rewind
    backend.prefill(IDS[:3])
    for token_id in IDS[3:7]:
        backend.decode(token_id)
    assert backend.length == 7
    stored, size = backend.kv()
    assert stored == 3  # the window of 4 less the position that is being read
    assert size == 3 * 384


def test_layers_of_different_kinds_count_by_the_one_that_stores_most() -> None:
    backend = tiny_models.backend("gemma3", kv=KVOptions(window_keep=0, block_size=1))
    backend.prefill(IDS)
    # one layer of nine positions and two of three, each 2 x 2 heads x 8 numbers x 4 bytes
    assert backend.kv() == (9, (9 + 3 + 3) * 128)


@pytest.mark.parametrize("name", ["llama", "gemma3", "mistral", "gpt2"])
@pytest.mark.parametrize(
    "kv",
    [
        KVOptions(pooled=False),
        KVOptions(cached=False),
        KVOptions(eight_bits=True),
        KVOptions(block_size=3, window_keep=0),
    ],
    ids=["own cache", "no cache", "8 bits", "small blocks"],
)
def test_however_k_and_v_are_kept_the_answer_is_the_same(name: str, kv: KVOptions) -> None:
    expected = tiny_models.backend(name).prefill(IDS).logits
    backend = tiny_models.backend(name, kv=kv)
    backend.prefill(IDS[:4])
    for token_id in IDS[4:]:
        logits = backend.decode(token_id).logits
    tolerance = 0.1 if kv.eight_bits else 1e-3
    np.testing.assert_allclose(logits, expected, atol=tolerance * float(expected.std()))
    assert backend.length == len(IDS)
    assert (backend.pool_state() is not None) == (kv.cached and kv.pooled)


def test_another_branch_of_the_run_is_still_there() -> None:
    backend = tiny_models.backend("llama")
    backend.prefill(IDS)
    trunk = backend.decode(4).logits
    assert backend.seek([*IDS[:5], 9]) == 5
    backend.decode(9)
    # Back to the trunk: all of it but the last is there, though the cache was elsewhere.
    assert backend.seek([*IDS, 4]) == len(IDS)
    np.testing.assert_allclose(backend.decode(4).logits, trunk, atol=1e-5)
    state = backend.pool_state()
    assert state is not None
    assert len(state.branches) == 3
    assert state.branch_bytes == backend.kv()[1] + state.wasted_bytes


def test_stop_ids_are_the_union_of_all_who_declare_one() -> None:
    model, tokenizer = tiny_models.llama(), tiny_models.tokenizer()
    model.config.eos_token_id = [2, 3]
    model.generation_config.eos_token_id = [3, 4]
    assert hf_facts.stop_ids(tokenizer, model) == {
        2: "tokenizer and config",
        3: "config and generation config",
        4: "generation config",
    }
    model.config.eos_token_id = model.generation_config.eos_token_id = 2
    assert hf_facts.stop_ids(tokenizer, model) == {2: "tokenizer, config and generation config"}
    tokenizer.eos_token = None
    model.config.eos_token_id = model.generation_config.eos_token_id = None
    assert hf_facts.stop_ids(tokenizer, model) == {}


def test_the_generation_config_is_what_was_set_and_no_defaults() -> None:
    model = tiny_models.llama()
    model.generation_config = transformers.GenerationConfig(top_k=1, temperature=0.1)
    assert hf_facts.generation_settings(model) == {"top_k": 1, "temperature": 0.1}


def test_an_unknown_context_is_unknown() -> None:
    assert tiny_models.backend("mamba").facts.context_length is None
    assert hf_facts.context_length(SimpleNamespace(n_positions=64)) == 64


@pytest.mark.parametrize(
    ("scaling", "limit", "said"),
    [
        ({"rope_type": "dynamic", "factor": 4.0}, 256, "64, scaled by 4 (dynamic NTK)"),
        (
            {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
            *(256, "64, scaled by 4 (YaRN)"),
        ),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}, 64, ""),
        ({"rope_type": "linear", "factor": 4.0}, 64, "does not say whether"),
        (
            {"rope_type": "longrope", "factor": 4.0, "original_max_position_embeddings": 16},
            *(64, ""),
        ),
        ({"rope_type": "llama3", "factor": 8.0}, 64, ""),
        ({"rope_type": "default"}, 64, ""),
        ({"rope_type": "dynamic", "factor": "much"}, 64, ""),
        ({"rope_type": "dynamic", "factor": 1e30}, 64, ""),
        ({"full_attention": {"rope_type": "dynamic", "factor": 2.0}}, 128, "scaled by 2"),
        ("nonsense", 64, ""),
    ],
)
def test_the_context_of_a_scaled_model_is_the_scaled_one_a2(
    scaling: Any, limit: int, said: str
) -> None:
    """A2: the scaled model reads on; where it cannot be known, which limit is meant is said."""
    config = SimpleNamespace(max_position_embeddings=64, rope_parameters=scaling)
    assert hf_facts.context_length(config) == limit
    note = hf_facts.context_note(config)
    assert said in note
    assert bool(said) == bool(note)


def test_a_dynamic_ntk_model_reads_on_past_its_unscaled_context_a2() -> None:
    """A2: 16 positions and a factor of 4 are a context of 64."""
    scaling = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0}
    model = tiny_models.llama(max_position_embeddings=16, rope_parameters=scaling)
    backend = HFBackend(model, tiny_models.tokenizer())
    assert backend.facts.context_length == 64
    assert any("context of 64" in note for note in backend.facts.notes)
    stepper = Stepper(backend, effective("guide", {"temperature": 0}), max_tokens=60)
    stepper.submit_ids([5] * 30)
    assert stepper.step().stop is None


# --- other kinds of model -----------------------------------------------------------------------

_SMALL: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "initializer_range": 0.3,
}


def mla() -> Any:
    config = transformers.DeepseekV3Config(
        **_SMALL,
        moe_intermediate_size=16,
        n_routed_experts=4,
        num_experts_per_tok=2,
        n_group=1,
        topk_group=1,
        kv_lora_rank=16,
        q_lora_rank=16,
        qk_rope_head_dim=8,
        qk_nope_head_dim=8,
        v_head_dim=8,
    )
    return transformers.DeepseekV3ForCausalLM(config)


def hybrid() -> Any:
    config = transformers.Lfm2Config(**_SMALL, layer_types=["conv", "full_attention", "conv"])
    return transformers.Lfm2ForCausalLM(config)


def both_in_one_layer() -> Any:
    config = transformers.FalconH1Config(
        **_SMALL, head_dim=8, mamba_d_ssm=32, mamba_n_heads=4, mamba_d_head=8, mamba_d_state=8
    )
    return transformers.FalconH1ForCausalLM(config)


def rwkv() -> Any:
    config = transformers.RwkvConfig(
        vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, intermediate_size=64
    )
    return transformers.RwkvForCausalLM(config)


def no_cache() -> Any:
    config = transformers.OpenAIGPTConfig(
        vocab_size=VOCAB, n_positions=64, n_embd=32, n_layer=2, n_head=4, initializer_range=0.3
    )
    return transformers.OpenAIGPTLMHeadModel(config)


@pytest.mark.parametrize(
    ("build", "kind", "note"),
    [
        (mla, "full attention", "which the usual formula does not give"),
        (hybrid, "hybrid: full attention + recurrent state", "2 of 3 layers keep a recurrent"),
        (both_in_one_layer, "hybrid: full attention + recurrent state", "3 of 3 layers keep a"),
        (rwkv, "recurrent state", "recurrent state, constant size"),
        (no_cache, "none", "no KV cache"),
    ],
)
def test_other_caches_are_read_right_and_never_given_a_wrong_figure(
    build: Callable[[], Any], kind: str, note: str
) -> None:
    torch.manual_seed(0)
    backend = HFBackend(build().eval(), tiny_models.tokenizer())
    assert backend.facts.cache_kind == kind
    assert backend.facts.kv_bytes_per_token_expected is None
    assert note in backend.facts.kv_note
    whole = backend.prefill(IDS).logits
    backend.rollback(len(IDS))
    backend.prefill(IDS[:3])
    backend.prefill(IDS[3:6])
    for token_id in IDS[6:]:
        stepped = backend.decode(token_id).logits
    np.testing.assert_allclose(stepped, whole, atol=1e-3 * float(whole.std()))


def test_a_model_without_a_cache_reads_everything_again_and_says_so() -> None:
    torch.manual_seed(0)
    backend = HFBackend(no_cache().eval(), tiny_models.tokenizer())
    assert any("reads the whole text again" in note for note in backend.facts.notes)
    assert backend.facts.can_rewind
    backend.prefill(IDS)
    assert backend.kv() == (0, None)
    backend.decode(4)
    backend.decode(5)
    assert not backend.decode(6).warmup


class OldNames(transformers.LlamaForCausalLM):  # type: ignore[misc]
    """As before transformers 5.24: the cache goes in and comes out as ``past_key_values``."""

    def forward(  # type: ignore[override]
        self,
        input_ids: Any = None,
        past_key_values: Any = None,
        use_cache: bool | None = None,
        return_dict: bool | None = None,
    ) -> Any:
        name = hf_cache.argument_of(transformers.LlamaForCausalLM)
        assert name is not None
        output = super().forward(
            input_ids, use_cache=use_cache, return_dict=return_dict, **{name: past_key_values}
        )
        return SimpleNamespace(logits=output.logits, past_key_values=getattr(output, name))


def test_the_caches_older_name_works_too(llama: HFBackend) -> None:
    model = tiny_models.llama()
    model.__class__ = OldNames
    backend = HFBackend(model, tiny_models.tokenizer())
    assert backend.facts.cache_kind == "full attention"
    # It knows no logits_to_keep, so its head reads all positions: other shapes, other last bits.
    for ours, theirs in (
        (backend.prefill(IDS), llama.prefill(IDS)),
        (backend.decode(4), llama.decode(4)),
    ):
        np.testing.assert_allclose(ours.logits, theirs.logits, atol=1e-4)


def test_learned_positions_are_not_run_past() -> None:
    backend = tiny_models.backend("gpt2")
    backend.prefill([3] * 63)
    backend.decode(4)
    with pytest.raises(BackendError, match="64 learned positions"):
        backend.decode(4)
    with pytest.raises(BackendError, match="64 learned positions"):
        backend.prefill([4, 4])
    assert backend.length == 64


# --- prompts ------------------------------------------------------------------------------------


def origins(backend: HFBackend, text: str, **how: Any) -> tuple[str, str]:
    """(the text that the prompt stands for, one letter a token for who put it there)."""
    encoded = backend.tokenize(text, chat=how.get("chat", True), system=how.get("system"))
    shown = b"".join(backend.token(i).bytes for i in encoded.ids).decode()
    letters = {Origin.USER: "u", Origin.TEMPLATE: "t", Origin.TOKENIZER: "k"}
    return shown, "".join(letters[one] for one in encoded.origins)


def test_the_template_s_tokens_are_told_from_the_user_s() -> None:
    shown, marks = origins(chatting(), "hi user")
    assert shown == "[user:hi user][assistant:"
    assert marks == "tttttt" + "uuuuuuu" + "t" * 12


def test_the_system_text_is_the_user_s_own() -> None:
    shown, marks = origins(chatting(), "hi", system="be brief")
    assert shown == "[system:be brief][user:hi][assistant:"
    assert marks == "t" * 8 + "u" * 8 + "t" * 7 + "uu" + "t" * 12


def test_a_template_may_trim_what_it_is_given() -> None:
    template = "{% for m in messages %}<{{ m['content'] | trim }}>{% endfor %}"
    assert origins(chatting(template), "  a b \n") == ("<a b>", "tuuut")


def test_a_template_that_rewrites_the_prompt_is_named() -> None:
    template = "{% for m in messages %}<{{ m['content'] | upper | lower }}>{% endfor %}"
    encoded = chatting(template).tokenize("hi", chat=True, system=None)
    assert encoded.notes == ()
    template = "{% for m in messages %}<{{ m['content'] | replace('h', 'j') }}>{% endfor %}"
    encoded = chatting(template).tokenize("hi", chat=True, system=None)
    assert set(encoded.origins) == {Origin.TEMPLATE}
    assert any("rewrites the prompt" in note for note in encoded.notes)


def test_a_system_message_that_the_template_inserts_is_shown() -> None:
    template = (
        "{% if messages[0]['role'] != 'system' %}[system:you are x]{% endif %}" + CHAT_TEMPLATE
    )
    backend = chatting(template)
    encoded = backend.tokenize("hi", chat=True, system=None)
    assert encoded.notes == ('the template inserts a system message of its own: "you are x"',)
    assert backend.tokenize("hi", chat=True, system="y").notes == ()


def test_a_template_that_takes_no_system_message_says_so() -> None:
    template = (
        "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
        + CHAT_TEMPLATE
    )
    backend = chatting(template)
    assert backend.tokenize("hi", chat=True, system=None).notes == ()
    with pytest.raises(BackendError, match="no system role; leave --system out"):
        backend.tokenize("hi", chat=True, system="y")


def test_what_the_tokenizer_adds_is_marked() -> None:
    backend = HFBackend(tiny_models.llama(), tiny_models.tokenizer(bos=True))
    encoded = backend.tokenize("hi", chat=False, system=None)
    assert encoded.ids[0] == BOS
    assert encoded.origins == (Origin.TOKENIZER, Origin.USER, Origin.USER)
    assert backend.token(BOS).kind is TokenKind.SPECIAL


def test_a_rendered_template_gets_no_second_bos() -> None:
    backend = chatting("<bos>" + CHAT_TEMPLATE, bos=True)
    encoded = backend.tokenize("hi", chat=True, system=None)
    assert encoded.ids.count(BOS) == 1
    assert encoded.origins[0] is Origin.TEMPLATE


def test_a_bos_that_is_there_twice_is_pointed_out() -> None:
    backend = HFBackend(tiny_models.llama(), tiny_models.tokenizer(bos=True))
    encoded = backend.tokenize("<bos>hi", chat=False, system=None)
    assert encoded.ids[:2] == (BOS, BOS)
    assert any("twice" in note for note in encoded.notes)


def test_special_tokens_in_the_user_s_own_text_are_pointed_out(llama: HFBackend) -> None:
    encoded = llama.tokenize("a<eos>b", chat=False, system=None)
    assert EOS in encoded.ids
    assert set(encoded.origins) == {Origin.USER}
    assert any('special tokens ("<eos>")' in note for note in encoded.notes)


def test_system_text_without_a_template_is_not_swallowed_in_silence(llama: HFBackend) -> None:
    for chat in (False, True):
        encoded = llama.tokenize("hi", chat=chat, system="be brief")
        assert len(encoded.ids) == 2
        assert any("system text is left out" in note for note in encoded.notes)


def test_a_tokenizer_without_offsets_marks_the_template_too() -> None:
    backend = chatting()

    class NoOffsets:
        """The same tokenizer, as a slow one: it can only encode and render."""

        is_fast = False

        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        def __call__(self, text: str, *, add_special_tokens: bool = True) -> Any:
            return self._inner(text, add_special_tokens=add_special_tokens)

    backend._tokenizer = NoOffsets(backend._tokenizer)
    assert origins(backend, "hi user") == (
        "[user:hi user][assistant:",
        "tttttt" + "uuuuuuu" + "t" * 12,
    )


# --- passes -------------------------------------------------------------------------------------


def test_the_first_pass_of_a_kind_is_warm_up(llama: HFBackend) -> None:
    assert llama.prefill(IDS[:5]).warmup
    assert llama.decode(4).warmup
    assert not llama.decode(4).warmup
    assert not llama.prefill(IDS[:6]).warmup  # 4 to 7 positions are one kind
    assert llama.prefill(IDS).warmup
    llama.rollback(llama.length)
    assert not llama.prefill(IDS[:5]).warmup


def test_layers_are_timed_and_add_up(llama: HFBackend) -> None:
    result = llama.prefill(IDS)
    assert len(result.layers) == 3
    assert sum(layer.total_ms for layer in result.layers) < result.ms
    for layer in result.layers:
        assert layer.attention_ms is not None
        assert layer.mlp_ms is not None
        assert 0 < layer.attention_ms + layer.mlp_ms < layer.total_ms
    assert result.layers_note == ""


@pytest.mark.parametrize("name", ["llama", "gpt2", "qwen3", "gemma3", "mistral"])
def test_attention_and_mlp_are_found(name: str) -> None:
    result = tiny_models.backend(name).prefill(IDS)
    assert all(layer.attention_ms and layer.mlp_ms for layer in result.layers)


def test_a_recurrent_layer_is_not_called_attention() -> None:
    result = tiny_models.backend("mamba").prefill(IDS)
    assert [layer.attention_ms for layer in result.layers] == [None, None]
    assert all(layer.total_ms > 0 for layer in result.layers)


def hooks(model: Any) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


def test_hooks_are_there_for_one_pass_only(
    llama: HFBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = llama._parts.model
    llama.prefill(IDS)
    assert hooks(model) == 0
    monkeypatch.setattr(model.model.layers[1].mlp, "forward", _raising(ValueError("broken")))
    with pytest.raises(BackendError):
        llama.prefill(IDS)
    assert hooks(model) == 0


def test_a_model_whose_layers_are_not_found_is_read_all_the_same(llama: HFBackend) -> None:
    expected = llama.prefill(IDS).logits
    llama.rollback(len(IDS))
    llama._parts.layers = ()
    result = llama.prefill(IDS)
    assert (result.logits == expected).all()
    assert (result.layers, result.layers_note) == ((), "the model's layers could not be found")


def test_layers_of_an_accelerator_are_timed_by_its_own_clock() -> None:
    """The device's work is waited for before the clock is read; here by a counting stand-in."""
    waited: list[int] = []
    watch = hf_layers.stopwatch("mps", lambda: waited.append(1))
    model = tiny_models.llama()
    layers = hf_layers.find_layers(model, 3)
    with hf_layers.LayerTimer(layers, {}, watch) as timer, torch.inference_mode():
        model(torch.tensor([IDS]))
    assert len(waited) == 3 * 3 * 2
    assert len(timer.times()) == 3


def _pool(backend: HFBackend) -> PooledCache:
    assert backend.pool is not None
    return backend.pool


def _raising(error: BaseException) -> Callable[..., Any]:
    def forward(*_: Any, **__: Any) -> Any:
        raise error

    return forward


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried 3 GiB"), "out of memory in a pass of 1"),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
            "out of memory",
        ),
        (RuntimeError("shapes\n\ndo not fit."), "the forward pass failed: shapes (RuntimeError)"),
    ],
)
def test_a_failed_pass_is_one_line_and_leaves_the_run_as_it_was(
    llama: HFBackend, monkeypatch: pytest.MonkeyPatch, error: Exception, message: str
) -> None:
    llama.prefill(IDS)
    expected = llama.decode(4).logits
    llama.rollback(1)
    with monkeypatch.context() as patch:
        # The first layer has read the token by then, the last has not.
        patch.setattr(_pool(llama).layers[2], "update", _raising(error))
        with pytest.raises(BackendError) as caught:
            llama.decode(4)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
    assert llama.length == len(IDS)
    again = llama.decode(4)
    np.testing.assert_allclose(again.logits, expected, atol=1e-4)
    assert not again.warmup  # an ordinary step: nothing but its own position was lost
    assert llama.length == len(IDS) + 1
    assert llama.kv()[0] == len(IDS) + 1


def test_an_interrupt_in_a_pass_is_passed_on_and_leaves_the_run_as_it_was(
    llama: HFBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    llama.prefill(IDS)
    with monkeypatch.context() as patch:
        patch.setattr(_pool(llama).layers[2], "update", _raising(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            llama.decode(4)
    assert llama.length == len(IDS)
    llama.decode(4)
    assert llama.kv()[0] == len(IDS) + 1


def test_logits_that_are_not_finite_are_an_error(llama: HFBackend) -> None:
    llama.prefill(IDS)
    with torch.no_grad():
        llama._parts.model.lm_head.weight[7, 3] = float("nan")
    with pytest.raises(BackendError, match="not finite in float32"):
        llama.decode(4)
    assert llama.length == len(IDS)


def test_a_crop_that_does_not_do_what_it_says_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    llama = tiny_models.backend("llama", kv=KVOptions(pooled=False))
    llama.prefill(IDS)
    expected = llama.decode(4).logits
    with monkeypatch.context() as patch:
        patch.setattr(type(llama._reader.cache), "crop", lambda *_: None)
        with pytest.raises(BackendError, match="layer 0 holds 10 positions, not 9"):
            llama.rollback(1)
    assert llama.length == len(IDS) + 1
    llama.rollback(1)
    np.testing.assert_allclose(llama.decode(4).logits, expected, atol=1e-4)


def test_a_model_that_cannot_be_run_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_models.llama()
    monkeypatch.setattr(model.model.layers[0], "forward", _raising(ValueError("no kernel")))
    with pytest.raises(BackendError, match="no kernel"):
        HFBackend(model, tiny_models.tokenizer())


def test_closing_frees_the_model(llama: HFBackend) -> None:
    weight = llama._parts.model.lm_head.weight
    llama.prefill(IDS)
    llama.close()
    gc.collect()
    holders = [one for one in gc.get_referrers(weight) if isinstance(one, dict)]
    assert holders == []


# --- dtypes -------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tiny model as a folder, its weights stored in float32."""
    tiny_models.llama(tie_word_embeddings=True).save_pretrained(tmp_path)
    tiny_models.tokenizer(template=CHAT_TEMPLATE).save_pretrained(tmp_path)
    return tmp_path


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("build", [tiny_models.llama, tiny_models.gpt2])
def test_widened_products_are_the_plain_ones(build: Callable[[], Any], dtype: Any) -> None:
    model = build()
    hf_dtype.convert(model, str(dtype).removeprefix("torch."))
    prompt = torch.tensor([IDS])
    with torch.inference_mode():
        plain = model(prompt).logits.float()
        with hf_wide.Upcast(rows=4):
            widened = model(prompt).logits.float()
        with hf_wide.Upcast(rows=len(IDS) + 1):
            untouched = model(prompt).logits.float()
    assert torch.equal(untouched, plain)
    tolerance = (0.02 if dtype == torch.float16 else 0.2) * float(plain.std())
    torch.testing.assert_close(widened, plain, atol=tolerance, rtol=0.0)


def test_a_long_pass_is_widened_where_that_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.backends.hf.upcast.is_worth_it", lambda _: True)
    model = tiny_models.llama()
    hf_dtype.convert(model, "float16")
    backend = HFBackend(model, tiny_models.tokenizer())
    assert any("multiply in float32" in note for note in backend.facts.notes)
    used: list[int] = []
    inner = hf_wide.Upcast._widen
    monkeypatch.setattr(
        hf_wide.Upcast, "_widen", lambda self, weight: used.append(1) or inner(self, weight)
    )
    short = backend.prefill(IDS).logits
    assert used == []
    backend.rollback(len(IDS))
    backend.prefill((IDS * 9)[: hf_wide.ROWS])
    assert len(used) == 3 * 7  # the head reads one position only
    backend.rollback(backend.length)
    assert (backend.prefill(IDS).logits == short).all()


# --- opening ------------------------------------------------------------------------------------


def test_a_folder_opens_quietly_and_says_where_it_is(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    phases: list[str] = []
    backend = open_backend("hf", {"model": str(folder)}, lambda phase, *_: phases.append(phase))
    backend.prefill(IDS)
    backend.decode(4)
    assert capfd.readouterr() == ("", "")
    assert phases
    facts = backend.facts
    assert facts.name == folder.name
    assert facts.identity
    assert facts.has_chat_template
    assert facts.dtype == "float32"
    assert facts.dtype_reason.startswith("float32: as stored; too small a model")


@pytest.mark.parametrize(
    ("asked", "got"), [("float16", "float16"), ("fp32", "float32"), ("bf16", "bfloat16")]
)
def test_a_dtype_that_is_asked_for_is_not_tried_out(folder: Path, asked: str, got: str) -> None:
    facts = open_backend("hf", {"model": str(folder), "dtype": asked}).facts
    assert (facts.dtype, facts.dtype_reason) == (got, f"{got}: asked for")
    assert facts.dtype_trials == ()
    assert facts.kv_bytes_per_token_expected == (384 if got == "float32" else 192)


def test_without_memory_for_float32_the_stored_dtype_stays(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.backends.hf.load.available_memory", lambda: 1000)
    monkeypatch.setattr("engine.backends.hf.load._WORTH_TIMING", 0)
    facts = open_backend("hf", {"model": str(folder)}).facts
    assert facts.dtype == "float32"
    assert facts.dtype_reason.startswith("float32: as stored; float32, to measure against, would")


def test_what_cannot_be_opened_is_named() -> None:
    with pytest.raises(BackendError, match="unknown backend 'script'; did you mean scripted"):
        open_backend("script")
    with pytest.raises(BackendError, match="unknown option 'modle'"):
        open_backend("hf", {"modle": "x"})
    with pytest.raises(BackendError, match="unknown device 'gpu7': this machine has cpu"):
        open_backend("hf", {"device": "gpu7"})
    with pytest.raises(BackendError, match="there is no device 'cuda:99' on this machine"):
        open_backend("hf", {"device": "cuda:99"})
    assert hf_facts.pick_device("cpu") == "cpu"


def test_naming_a_backend_imports_no_torch() -> None:
    import subprocess
    import sys

    code = "import sys, engine.backends; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


# --- the default model --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def smollm(default_model_dir: Path) -> HFBackend:
    backend = open_backend("hf", {"model": str(default_model_dir)})
    assert isinstance(backend, HFBackend)
    return backend


@pytest.mark.model
def test_the_default_model_s_facts(smollm: HFBackend) -> None:
    facts = smollm.facts
    assert (facts.layers, facts.query_heads, facts.kv_heads, facts.head_dim) == (30, 9, 3, 64)
    each = {"float32": 46_080, "float16": 23_040, "bfloat16": 23_040}[facts.dtype]
    assert facts.kv_bytes_per_token_expected == each
    assert facts.parameters == 134_515_008
    assert facts.weight_bytes == facts.parameters * each // 11_520
    assert facts.stop_ids == {2: "tokenizer, config and generation config"}
    assert facts.context_length == 8192
    assert facts.cache_kind == "full attention"
    assert facts.can_rewind
    smollm.prefill(range(100, 150))
    assert smollm.kv() == (50, 50 * each)
    smollm.rollback(50)


@pytest.mark.model
def test_a_bare_hi_becomes_31_ids_of_which_one_is_the_user_s(smollm: HFBackend) -> None:
    encoded = smollm.tokenize("hi", chat=True, system=None)
    assert len(encoded.ids) == 31
    assert encoded.origins.count(Origin.USER) == 1
    assert any("You are a helpful AI assistant" in note for note in encoded.notes)


@pytest.mark.model
def test_the_pieces_of_a_character_are_the_user_s_own(smollm: HFBackend) -> None:
    raw = smollm.tokenize("😊", chat=False, system=None)
    assert raw.ids == (10813, 242, 228)
    assert [smollm.token(i).bytes for i in raw.ids] == [b"\xf0\x9f", b"\x98", b"\x8a"]
    encoded = smollm.tokenize("é 😊 日本語", chat=True, system=None)
    own = [i for i, o in zip(encoded.ids, encoded.origins, strict=True) if o is Origin.USER]
    assert b"".join(smollm.token(i).bytes for i in own) == "é 😊 日本語".encode()


@pytest.mark.model
@pytest.mark.parametrize("chat", [False, True])
def test_greedy_decoding_is_generate_s(
    smollm: HFBackend, default_model_dir: Path, chat: bool
) -> None:
    dtype = getattr(torch, smollm.facts.dtype)
    model = transformers.AutoModelForCausalLM.from_pretrained(default_model_dir, dtype=dtype)
    ids = smollm.tokenize("The capital of France is", chat=chat, system=None).ids
    expected = model.generate(torch.tensor([ids]), do_sample=False, max_new_tokens=12)[0]
    smollm.rollback(smollm.length)
    logits = smollm.prefill(ids).logits
    found = []
    for _ in range(12):
        found.append(int(logits.argmax()))
        if found[-1] in smollm.facts.stop_ids:
            break
        logits = smollm.decode(found[-1]).logits
    assert found == expected[len(ids) :].tolist()


@pytest.mark.model
def test_the_whole_vocabulary_is_packed(smollm: HFBackend) -> None:
    vocabulary = smollm.vocabulary()
    assert len(vocabulary) == 49152
    assert vocabulary.token(7042).bytes == b" Paris"
    assert vocabulary.token(212).bytes == b"\x1b"
    assert vocabulary.token(2).kind is TokenKind.SPECIAL
