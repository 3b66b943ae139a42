"""Specifications, presets and the effective settings."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.records.events import Setting
from engine.sampling.chain import (
    PRESETS,
    Chain,
    SpecError,
    build,
    effective,
    parse_dials,
    parse_spec,
)
from engine.sampling.stages import DIALS, STAGES, Border, StageContext, Ties

EMPTY = StageContext()


class TestSpec:
    def test_dials_keep_the_preset_s_order(self):
        order, dials = parse_spec("temperature=0.8 top_k=40, top-p=0.95")
        assert order == PRESETS["guide"].order
        assert dials == {"temperature": 0.8, "top_k": 40, "top_p": 0.95}

    def test_an_order_of_its_own(self):
        order, dials = parse_spec("top_k=40 > top_p=0.95>temperature=0.8")
        assert order == ("top_k", "top_p", "temperature")
        assert dials == {"top_k": 40, "top_p": 0.95, "temperature": 0.8}

    def test_nothing_is_the_preset(self):
        assert parse_spec("  ") == (PRESETS["guide"].order, {})

    def test_several_dials_of_one_stage(self):
        order, dials = parse_spec("xtc_probability=0.5 xtc_threshold=0.2 > temperature=1")
        assert order == ("xtc", "temperature")
        assert dials["xtc_threshold"] == 0.2

    def test_an_order_of_one_stage_or_none(self):
        assert parse_spec("top_k=40 >") == (("top_k",), {"top_k": 40})
        assert parse_spec(">") == ((), {})
        assert Chain(()).spec == ">"

    def test_quotes(self):
        dials = parse_dials('regex="a > b, \\"c\\"" bad_words=\'1 2, 3\' logit_bias=5:-1')
        assert dials == {"regex": 'a > b, "c"', "bad_words": "1 2, 3", "logit_bias": "5:-1"}
        assert parse_spec("regex='a > b' > top_k=3")[0] == ("grammar", "top_k")

    def test_a_stage_with_one_dial_lends_it_its_name(self):
        assert parse_dials("typical=0.9 epsilon=0.1") == {"typical_p": 0.9, "epsilon_cutoff": 0.1}

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("temprature=1", "unknown dial 'temprature'; did you mean temperature?"),
            ("topk=4", "unknown dial 'topk'; did you mean top_k?"),
            ("zzz=4", "unknown dial 'zzz'; known: "),
            ("temperature", "'temperature' is not a dial: write name=value"),
            ("=4", "'=4' is not a dial"),
            ("temperature=warm", "temperature takes a number, not 'warm'"),
            ("top_k=4.5", "top_k takes a whole number, not '4.5'"),
            ("top_p=1.5", "top_p=1.5 is out of range: 0 to 1"),
            ("top_k=-2", "top_k=-2 is out of range: -1, or 0 or more"),
            ("typical_p=0", "typical_p=0 is out of range: above 0 to 1"),
            ("epsilon_cutoff=1", "epsilon_cutoff=1 is out of range: 0 to below 1"),
            ("min_p=nan", "min_p=nan is out of range: 0 to 1"),
            ("temperature=inf", "temperature=inf is out of range: 0 to 100"),
            ("top_k=1 top_k=2", "top_k is given twice"),
            ("top_k=1 > top_k=2", "top_k is given twice"),
            ("top_k=1 > > top_p=1", "part 2 of the order names nothing, not exactly one stage"),
            ("top_k=1 top_p=1 > min_p=0", "part 1 of the order names top_k and top_p, not exactly"),
            ("logit_bias=5", "logit_bias: '5' lacks a number: write ids or 'text'"),
            ("logit_bias=5:inf", "logit_bias: inf is not allowed"),
            ("logit_bias=x:1", "logit_bias: cannot read 'x:1'"),
            ("bad_words=1:2", "bad_words: cannot read ':2'"),
            ('suppress="1 2"', "suppress: '1 2' is a sequence"),
            ('json_schema="{"', "json_schema: not JSON"),
        ],
    )
    def test_errors_are_one_line_that_says_what_to_write(self, text, message):
        with pytest.raises(SpecError) as error:
            effective("guide", {}, spec=text)
        assert message in str(error.value)
        assert "\n" not in str(error.value)

    def test_an_unknown_preset_suggests_the_nearest(self):
        with pytest.raises(SpecError, match="did you mean llamacpp"):
            effective("llama.cpp", {})

    @given(st.data())
    @settings(max_examples=150, deadline=None)
    def test_what_a_chain_says_of_itself_reads_back_as_the_same_chain(self, data):
        names = data.draw(st.lists(st.sampled_from(sorted(STAGES)), unique=True))
        values = {}
        for dial in (dial for name in names for dial in STAGES[name].dials):
            if dial.kind is float:
                high = min(dial.high, 1e6)
                value = data.draw(
                    st.floats(
                        dial.low,
                        high,
                        exclude_min=not dial.low_included,
                        exclude_max=not dial.high_included,
                    )
                )
            elif dial.kind is int:
                value = data.draw(st.integers(int(dial.low), int(min(dial.high, 10**6))))
            else:
                value = data.draw(st.sampled_from(TEXTS.get(dial.name, [""])))
            values[dial.name] = value
        chain = build(names, values, "llamacpp")
        assert build(*parse_spec(chain.spec, "llamacpp"), "llamacpp") == chain

    def test_params_are_plain_json(self):
        for name, cls in STAGES.items():
            values = {dial.name: TEXTS[dial.name][-1] for dial in cls.dials if dial.name in TEXTS}
            chain = build((name,), values, "guide")
            assert json.loads(json.dumps(chain.stages[0].params, allow_nan=False)) == (
                chain.stages[0].params
            )


TEXTS = {
    "logit_bias": ["", "5:1.5, 3 4:-inf, ' New, \\'York\\'\\n':2"],
    "bad_words": ["", "5, 6 7, 'x > y \\\\ z'"],
    "suppress": ["", "5, 6"],
    "dry_breakers": ["", "'\\n', ':', '\"', '*'"],
}


class TestTokenLists:
    def test_one_proper_spelling(self):
        assert DIALS["logit_bias"][1].check("  5 :+1.50,'a':  -2 ,") == "5:1.5, 'a':-2"
        assert DIALS["bad_words"][1].check(" 1   2,\t3 ") == "1 2, 3"

    def test_text_becomes_ids_with_a_tokenizer(self):
        resolve = {" Paris": [7], "New York": [3, 4]}.__getitem__
        found = effective(
            "guide", {"logit_bias": "' Paris':+2, 'New York':-1, 9:1"}, resolve=resolve
        )
        assert found.chain.stages[0].logit_bias == "7:2, 3 4:-1, 9:1"
        assert found.dials["logit_bias"] == Setting("' Paris':2, 'New York':-1, 9:1", "flag")

    def test_text_without_tokens_is_refused(self):
        with pytest.raises(SpecError, match="bad_words: 'x' has no tokens"):
            effective("guide", {"bad_words": "'x'"}, resolve=lambda text: [])

    def test_llamacpp_s_breakers_need_no_tokenizer_while_dry_is_off(self):
        chain = effective("llamacpp", {}).chain
        assert "dry" not in [stage.name for stage in chain.stages]
        found = effective("llamacpp", {"dry_multiplier": 0.8}, resolve=lambda text: [ord(text)])
        # Text stays text: a breaker is every token that contains it.
        assert found.chain.stages[0].dry_breakers == "'\\n', ':', '\"', '*'"


class TestEffective:
    def test_what_was_turned_later_is_no_flag(self):
        found = effective("guide", {"top_k": 5, "temperature": 0.5}, live={"top_k"})
        assert found.dials["top_k"] == Setting(5, "session")
        assert found.dials["temperature"] == Setting(0.5, "flag")

    def test_every_value_has_a_source(self):
        found = effective("guide", {"top_k": 5}, generation_config={"temperature": 0.6})
        assert found.dials["top_k"] == Setting(5, "flag")
        assert found.dials["temperature"] == Setting(0.6, "generation_config.json")
        assert found.dials["top_p"] == Setting(0.95, "preset default")
        assert found.dials["min_p"] == Setting(0.0, "off")
        assert found.dials["xtc_threshold"] == Setting(0.1, "default")
        assert found.spec == "temperature=0.6 > top_k=5 > top_p=0.95"

    def test_flags_win_over_the_file_and_the_specification_is_a_flag(self):
        found = effective(
            "hf", {"temperature": 0.3}, spec="top_k=9", generation_config={"top_k": 1, "top_p": 0.5}
        )
        assert found.spec == "temperature=0.3 > top_k=9 > top_p=0.5"

    def test_transformers_hidden_top_k(self):
        """cases.md 7 (transformers#38549): sampling with nothing set keeps at most 50."""
        found = effective("hf", {})
        assert found.dials["top_k"] == Setting(50, "library default")
        logits = np.random.default_rng(0).normal(size=1000)
        assert len(found.chain.run(logits, EMPTY).final) == 50
        assert any("silent default" in note for note in found.notes)

    def test_a_model_s_file_is_in_plain_sight(self):
        """cases.md 7 (vllm#15241): a shipped top_k=1 looked as if temperature were ignored."""
        shipped = {"top_k": 1, "temperature": 0.1, "repetition_penalty": 1.05}
        for preset in ("hf", "vllm", "sglang", "guide"):
            found = effective(preset, {"temperature": 1.0}, generation_config=shipped)
            assert found.dials["top_k"] == Setting(1, "generation_config.json")
            assert found.dials["repetition_penalty"] == Setting(1.05, "generation_config.json")
            assert found.dials["temperature"] == Setting(1.0, "flag")
        for preset in ("llamacpp", "mlx"):
            assert effective(preset, {}, generation_config=shipped).dials["top_k"].value != 1

    def test_lists_of_a_generation_config(self):
        config = {
            "bad_words_ids": [[1], [2, 3]],
            "suppress_tokens": [7, 8],
            "sequence_bias": [[[4], -1.0], [[5, 6], 2.0]],
            "no_repeat_ngram_size": 3,
            "epsilon_cutoff": 0.0,
        }
        found = effective("hf", {}, generation_config=config)
        assert [stage.name for stage in found.chain.stages][:4] == [
            "logit_bias", "no_repeat_ngram", "bad_words", "suppress",
        ]  # fmt: skip
        assert found.dials["bad_words"].value == "1, 2 3"
        assert found.dials["logit_bias"].value == "4:-1, 5 6:2"

    def test_what_the_file_asks_for_in_vain_is_said(self):
        config = {"num_beams": 4, "top_k": -2, "num_return_sequences": 1}
        notes = effective("hf", {}, generation_config=config).notes
        assert "generation_config.json sets num_beams=4, which is not reproduced." in notes
        assert any("top_k=-2 is out of range" in note for note in notes)

    def test_an_order_is_taken_as_it_stands(self):
        found = effective(
            "hf", {}, spec="top_p=0.9 > temperature=2", generation_config={"top_k": 1}
        )
        assert found.spec == "top_p=0.9 > temperature=2"
        assert found.dials["top_p"] == Setting(0.9, "flag")
        assert "top_k" not in found.dials
        with pytest.raises(SpecError, match="top_k is not part of this order"):
            effective("hf", {"top_k": 5}, spec="top_p=0.9 > temperature=2")

    def test_a_stack_without_the_dial_says_so(self):
        for preset, dial in (("hf", "xtc_probability"), ("hf", "frequency_penalty"),
                             ("vllm", "typical_p"), ("mlx", "dynatemp_range")):  # fmt: skip
            with pytest.raises(SpecError, match=f"{dial} is not part of preset {preset}"):
                effective(preset, {dial: 0.5})

    def test_a_dial_turned_on_joins_in_the_preset_s_place(self):
        assert effective("guide", {"min_p": 0.1, "repetition_penalty": 1.1}).spec == (
            "repetition_penalty=1.1 > temperature=0.8 > top_k=40 > top_p=0.95 > min_p=0.1"
        )

    def test_mirostat_replaces_all_but_bias_and_temperature(self):
        found = effective("llamacpp", {"mirostat_tau": 5, "logit_bias": "3:1", "typical_p": 0.9})
        assert [stage.name for stage in found.chain.stages] == [
            "logit_bias", "temperature", "mirostat",
        ]  # fmt: skip
        assert found.dials["top_k"] == Setting(40, "library default, mirostat replaces it")

    def test_a_value_of_the_wrong_kind_is_refused(self):
        for value in ("5", True, math.nan, [1]):
            with pytest.raises(SpecError):
                effective("guide", {"top_k": value})


class TestZeroTemperature:
    LOGITS = np.log([0.2, 0.4, 0.4])

    @pytest.mark.parametrize("preset", PRESETS)
    def test_is_greedy_in_every_stack(self, preset):
        chain = effective(preset, {"temperature": 0}).chain
        assert chain.greedy
        drawn = chain.choose(chain.run(self.LOGITS, EMPTY), EMPTY)
        assert (drawn.token_id, drawn.u) == (1, None)

    def test_some_stacks_leave_out_what_only_serves_sampling(self):
        for preset in ("hf", "vllm", "sglang", "mlx"):
            found = effective(preset, {"temperature": 0, "top_k": 3, "repetition_penalty": 1.1})
            names = [stage.name for stage in found.chain.stages]
            assert names == ["penalties", "temperature"], preset
            assert found.dials["top_k"] == Setting(3, "flag, not used: greedy")

    def test_llamacpp_takes_the_best_of_what_the_others_left(self):
        chain = effective("llamacpp", {"temperature": 0, "xtc_probability": 1.0}).chain
        ladder = chain.run(np.log([0.5, 0.3, 0.2]), EMPTY)
        assert chain.choose(ladder, EMPTY).token_id == 2
        assert [trace.survivors for trace in ladder.traces] == [3, 3, 3, 1, 1]

    def test_vllm_raises_a_tiny_temperature(self):
        for given_value, used in ((1e-6, 0.01), (0.005, 0.01), (0.02, 0.02)):
            chain = effective("vllm", {"temperature": given_value}).chain
            assert not chain.greedy
            after = chain.run(self.LOGITS, EMPTY).after[0]
            assert after.logits == pytest.approx(np.float32(self.LOGITS) / used, rel=1e-6)

    def test_sglang_goes_over_to_greedy(self):
        assert effective("sglang", {"temperature": 9e-7}).chain.greedy
        assert not effective("sglang", {"temperature": 2e-6}).chain.greedy

    def test_mlx_is_greedy_unless_told(self):
        assert effective("mlx", {}).chain.greedy


class TestPresets:
    def test_name_their_stack_and_version(self):
        for preset in PRESETS.values():
            assert preset.stack
            assert len(preset.title) <= 30

    def test_hold_only_stages_and_dials_that_exist(self):
        for preset in PRESETS.values():
            assert set(preset.order) <= set(STAGES)
            assert set(preset.core) <= set(preset.order)
            assert set(preset.rules) <= set(preset.order)
            assert set(preset.defaults) | preset.lacks | set(preset.orders) <= set(DIALS)
            for order in preset.orders.values():
                assert sorted(order) == sorted(preset.order)
            for name, rules in preset.rules.items():
                assert set(rules) <= set(build((name,), {}, "guide").stages[0].rules)

    def test_the_guide_knows_every_stage(self):
        assert set(PRESETS["guide"].order) == set(STAGES)

    @pytest.mark.parametrize(
        ("preset", "spec"),
        [
            ("guide", "temperature=0.8 > top_k=40 > top_p=0.95"),
            ("hf", "temperature=1 > top_k=50 > top_p=1"),
            ("vllm", "temperature=1 > top_k=0 > top_p=1"),
            ("llamacpp", "top_k=40 > top_p=0.95 > min_p=0.05 > temperature=0.8"),
            ("sglang", "temperature=1 > top_p=1 > top_k=0"),
            ("mlx", "temperature=0 >"),
        ],
    )
    def test_defaults(self, preset, spec):
        assert effective(preset, {}).spec == spec

    @pytest.mark.parametrize(
        ("preset", "names"),
        [
            ("vllm", ["temperature", "min_p", "top_k", "top_p"]),
            ("hf", ["temperature", "top_k", "top_p", "min_p"]),
            ("sglang", ["temperature", "top_k", "top_p", "min_p"]),
            ("mlx", ["top_p", "min_p", "top_k", "temperature"]),
            ("llamacpp", ["top_k", "top_p", "min_p", "temperature"]),
        ],
    )
    def test_orders(self, preset, names):
        dials = {"temperature": 0.7, "top_k": 9, "top_p": 0.9, "min_p": 0.1}
        assert [stage.name for stage in effective(preset, dials).chain.stages] == names

    def test_rules_go_with_the_preset_even_in_another_order(self):
        chain = effective("llamacpp", {}, spec="temperature=1 > top_k=2 > top_p=0.5").chain
        assert chain.stages[1].ties is Ties.EXACT
        assert chain.stages[2].border is Border.REACH
        assert len(chain.run(np.zeros(4), EMPTY).after[1]) == 2

    def test_equal_inputs_part_where_the_stacks_say(self):
        logits = np.zeros(4)
        kept = {
            name: effective(name, {"temperature": 1.0, "top_k": 2, "top_p": 1.0}).chain
            for name in PRESETS
        }
        assert {name: len(chain.run(logits, EMPTY).final) for name, chain in kept.items()} == {
            "guide": 4,
            "hf": 4,
            "vllm": 4,
            "llamacpp": 2,
            "sglang": 2,
            "mlx": 2,
        }


class TestAgainstGenerate:
    """``--preset hf`` against the very list of processors that ``generate()`` builds."""

    CONFIGS = (
        {},
        {"temperature": 0.7},
        {"temperature": 0.7, "top_k": 20, "top_p": 0.9},
        {"top_k": 0, "top_p": 0.8, "min_p": 0.02},
        {"temperature": 1.3, "typical_p": 0.8, "epsilon_cutoff": 1e-3},
        {"top_k": 0, "eta_cutoff": 2e-3},
        {"top_h": 0.6, "top_k": 0},
        {"repetition_penalty": 1.3, "no_repeat_ngram_size": 2, "temperature": 0.6},
        {"bad_words_ids": [[3], [5, 6]], "suppress_tokens": [8], "min_new_tokens": 9},
        {"sequence_bias": [[[4], 3.0], [[6, 5], -2.0]], "repetition_penalty": 0.8},
    )

    @pytest.mark.parametrize("config", CONFIGS, ids=lambda config: ",".join(config) or "none")
    @pytest.mark.parametrize("size", [40, 3000])
    def test_scores_and_sets_are_the_same(self, config, size):
        torch = pytest.importorskip("torch")
        transformers = pytest.importorskip("transformers")
        processors = hf_processors(transformers, torch, config, prompt_length=3)
        chain = effective("hf", {}, generation_config=config).chain
        rng = np.random.default_rng(size)
        for _ in range(12):
            logits = (rng.normal(size=size) * rng.uniform(0.5, 5)).astype(np.float32)
            history = rng.integers(0, 10, 9).tolist()
            context = StageContext(tuple(history[:3]), tuple(history[3:]), frozenset({2}))
            scores = processors(torch.tensor([history]), torch.from_numpy(logits.copy())[None])[0]
            final = chain.run(logits, context).final
            assert final.ids.tolist() == torch.isfinite(scores).nonzero()[:, 0].tolist()
            assert final.logits.tobytes() == scores.numpy()[final.ids].tobytes()

    def test_without_sampling_only_the_logit_stages_run(self):
        torch = pytest.importorskip("torch")
        transformers = pytest.importorskip("transformers")
        config = {"repetition_penalty": 1.3, "top_k": 5, "do_sample": False}
        processors = hf_processors(transformers, torch, config, prompt_length=2)
        chain = effective("hf", {"temperature": 0}, generation_config=config).chain
        logits = np.random.default_rng(0).normal(size=50).astype(np.float32)
        scores = processors(torch.tensor([[1, 2, 3]]), torch.from_numpy(logits.copy())[None])[0]
        context = StageContext((1, 2), (3,))
        ladder = chain.run(logits, context)
        assert ladder.after[0].logits.tobytes() == scores.numpy().tobytes()
        assert chain.choose(ladder, context).token_id == int(scores.argmax())


def hf_processors(transformers, torch, config: dict, prompt_length: int):
    """The processors of ``generate(do_sample=True, **config)`` for a stop token of 2."""

    class Model(transformers.GenerationMixin):
        config = SimpleNamespace(is_encoder_decoder=False, get_text_config=lambda: None)
        generation_config = transformers.GenerationConfig()

    model = Model()
    asked = transformers.GenerationConfig(**{"do_sample": True, "eos_token_id": 2, **config})
    asked.update(**model.generation_config._get_default_generation_params(), defaults_only=True)
    asked._eos_token_tensor = torch.tensor([2])
    return model._get_logits_processor(
        asked, input_ids_seq_length=prompt_length, encoder_input_ids=None, device="cpu"
    )


def test_a_chain_can_be_changed_by_hand():
    chain = effective("guide", {}).chain
    longer = chain.with_stage(build(("min_p",), {"min_p": 0.1}, "guide").stages[0], before="top_k")
    assert longer.spec == "temperature=0.8 > min_p=0.1 > top_k=40 > top_p=0.95"
    assert Chain(longer.stages[::-1]).spec == "top_p=0.95 > top_k=40 > min_p=0.1 > temperature=0.8"
    assert chain.spec == "temperature=0.8 > top_k=40 > top_p=0.95"
