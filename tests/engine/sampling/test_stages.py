"""Every stage: literal values, parity with transformers' processors, and what must hold for all."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tests.sampling_reference as reference
from engine.records.vocabulary import Token, TokenKind, Vocabulary
from engine.sampling.candidates import Candidates, SamplingError
from engine.sampling.chain import build, effective
from engine.sampling.draw import Purpose, uniform
from engine.sampling.stages import (
    DIALS,
    STAGES,
    BadWords,
    Border,
    Dry,
    Epsilon,
    Eta,
    LogitBias,
    MinNewTokens,
    MinP,
    Mirostat,
    NoRepeatNGram,
    Over,
    Penalties,
    Processor,
    StageContext,
    Suppress,
    Temperature,
    Ties,
    TopH,
    TopK,
    TopNSigma,
    TopP,
    Typical,
    Xtc,
    load_processor,
)

EMPTY = StageContext()


def candidates(*probs: float) -> Candidates:
    return Candidates.from_logits(np.log(np.array(probs)).astype(np.float32))


def kept(stage, *probs: float, context: StageContext = EMPTY) -> list[int]:
    return stage.apply(candidates(*probs), context).ids.tolist()


def logits_after(stage, logits, context: StageContext = EMPTY) -> list[float]:
    """Logits of every id after a stage, minus infinity where it was cut."""
    given = np.array(logits, dtype=np.float32)
    after = stage.apply(Candidates.from_logits(given), context)
    dense = np.full(given.size, -np.inf)
    dense[after.ids] = after.logits
    return dense.tolist()


class TestTruncation:
    def test_min_p(self):
        assert kept(MinP(0.5), 0.5, 0.3, 0.2) == [0, 1]
        assert kept(MinP(0.0), 0.5, 0.3, 0.2) == [0, 1, 2]
        assert kept(MinP(1.0), 0.5, 0.3, 0.2) == [0]

    def test_min_p_twice_is_once(self):
        """cases.md 45 (textgen#4755): min-p is idempotent, top-p is not."""
        once = MinP(0.3).apply(candidates(0.5, 0.3, 0.1, 0.1), EMPTY)
        assert MinP(0.3).apply(once, EMPTY) is once

    def test_epsilon_never_cuts_the_most_likely(self):
        assert kept(Epsilon(0.25), 0.5, 0.3, 0.2) == [0, 1]
        assert kept(Epsilon(0.9), 0.5, 0.3, 0.2) == [0]

    def test_eta(self):
        # H = 1.0297 nats: min(0.3, sqrt(0.3) * exp(-H)) = 0.1956
        assert kept(Eta(0.3), 0.5, 0.3, 0.2) == [0, 1, 2]
        assert kept(Eta(0.35), 0.5, 0.3, 0.2) == [0, 1]

    def test_top_n_sigma(self):
        # deviation of 0, 1, 2, 3, 4 is sqrt(2): 4 - 1.414 = 2.586
        assert logits_after(TopNSigma(1.0), [0, 1, 2, 3, 4])[2:] == [-math.inf, 3, 4]

    def test_top_h(self):
        # entropy terms 0.3466, 0.3612, 0.3219; half of the whole is 0.5148
        assert kept(TopH(0.5), 0.5, 0.3, 0.2) == [0]
        assert kept(TopH(0.7), 0.5, 0.3, 0.2) == [0, 1]
        assert kept(TopH(1.0), *([1 / 128] * 128)) == list(range(100))

    def test_typical_can_cut_the_most_likely(self):
        # H = 1.3322; surprisals 0.5978, 2.3026 ...: the three at 2.3 lie 0.97, the top one 0.73 off
        probs = [0.4, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1]
        assert kept(Typical(0.2), *probs) == [1, 2, 3, 4, 5, 6]
        assert 0 in kept(Typical(0.95), *probs)


class TestXtc:
    PROBS = (0.4, 0.3, 0.2, 0.1)

    def test_leaves_the_least_likely_above_the_threshold(self):
        assert kept(Xtc(1.0, 0.15), *self.PROBS) == [2, 3]

    def test_needs_two_above_the_threshold(self):
        assert kept(Xtc(1.0, 0.35), *self.PROBS) == [0, 1, 2, 3]

    def test_never_acts_above_a_half(self):
        assert kept(Xtc(1.0, 0.51), *self.PROBS) == [0, 1, 2, 3]

    def test_acts_as_often_as_it_says_and_on_the_same_dice_each_time(self):
        acted = [
            len(kept(Xtc(0.3, 0.15), *self.PROBS, context=StageContext((0,) * i, seed=5))) < 4
            for i in range(600)
        ]
        assert acted == [uniform(5, i, Purpose.STAGE) < 0.3 for i in range(600)]
        assert 0.24 < np.mean(acted) < 0.36

    def test_mlx_rule_asks_for_more_and_keeps_ties(self):
        logits = [2.0, 1.0, 1.0, -5.0]
        third = float(np.float32(reference.softmax(np.array(logits))[1]))
        exact = logits_after(Xtc(1.0, third), logits)
        assert exact[:3] == [-math.inf, -math.inf, 1.0]
        assert logits_after(Xtc(1.0, third, strict=True, ties=Ties.KEEP), logits) == logits


class TestMirostat:
    def test_cuts_by_surprisal(self):
        # surprisals 1, 2, 3, 3 bits; mu starts at twice tau
        probs = (0.5, 0.25, 0.125, 0.125)
        assert kept(Mirostat(1.25), *probs) == [0, 1]
        assert kept(Mirostat(0.1), *probs) == [0]
        context = StageContext(state={"mirostat": 3.5})
        assert kept(Mirostat(0.1), *probs, context=context) == [0, 1, 2, 3]

    def test_state_goes_from_node_to_node(self):
        chain = build(("mirostat",), {"mirostat_tau": 1.25, "mirostat_eta": 0.5}, "llamacpp")
        ladder = chain.run(np.log([0.5, 0.25, 0.125, 0.125]), EMPTY)
        # after truncation: 2/3 and 1/3, surprisals 0.585 and 1.585 bits
        state = chain.next_state(ladder, 1, EMPTY)
        assert state == {"mirostat": pytest.approx(2.5 - 0.5 * (math.log2(3) - 1.25))}
        assert EMPTY.state == {}

    def test_settles_at_its_aim(self):
        chain = build(("mirostat",), {"mirostat_tau": 3.0, "mirostat_eta": 0.1}, "llamacpp")
        logits = np.random.default_rng(0).normal(scale=3, size=2000)
        state, surprisals = {}, []
        for position in range(300):
            context = StageContext((0,) * position, seed=1, state=state)
            ladder = chain.run(logits, context)
            token = chain.choose(ladder, context).token_id
            surprisals.append(-math.log2(ladder.final.probs_of(np.array([token]))[0]))
            state = chain.next_state(ladder, token, context)
        assert np.mean(surprisals[100:]) == pytest.approx(3.0, abs=0.35)

    def test_other_stages_carry_nothing(self):
        chain = effective("guide", {}).chain
        assert chain.next_state(chain.run(np.zeros(3), EMPTY), 0, EMPTY) == {}


class TestDynamicTemperature:
    @pytest.mark.parametrize("seed", range(8))
    def test_divides_by_the_reference_temperature(self, seed):
        rng = np.random.default_rng(seed)
        logits = (rng.normal(size=50) * rng.uniform(0.1, 6)).astype(np.float32)
        t, span, exponent = rng.uniform(0.3, 1.5), rng.uniform(0.1, 1.2), rng.uniform(0.3, 3)
        expected = reference.dynamic_temperature(logits, t, span, exponent)
        found = Temperature(t, span, exponent).apply(Candidates.from_logits(logits), EMPTY)
        assert found.logits == pytest.approx(logits / expected, rel=1e-5)

    def test_ends_of_the_range(self):
        flat = Temperature(1.0, 0.4).apply(candidates(0.5, 0.5), EMPTY)
        assert flat.logits == pytest.approx(candidates(0.5, 0.5).logits / 1.4)
        sure = Temperature(1.0, 0.4).apply(Candidates.from_logits(np.array([0.0, -500.0])), EMPTY)
        assert sure.logits == pytest.approx([0.0, -500 / 0.6])


class TestPenalties:
    def test_repetition_by_sign_once_per_id_prompt_included(self):
        """cases.md 8 (transformers#2302)."""
        context = StageContext((0, 1, 1), (2, 3))
        found = logits_after(Penalties(1.5), [2.0, -2.0, 0.0, -np.inf], context)
        assert found == [pytest.approx(1.3333, abs=1e-4), -3.0, 0.0, -math.inf]

    def test_frequency_and_presence_count_the_output_alone(self):
        """cases.md 9 (vmlx-swift#295)."""
        context = StageContext((5, 5), (7, 7, 3))
        penalties = Penalties(frequency_penalty=0.5, presence_penalty=0.2)
        found = logits_after(penalties, [0.0] * 8, context)
        assert found == pytest.approx([0, 0, 0, -0.7, 0, 0, 0, -1.2])

    def test_llamacpp_counts_its_window_of_everything(self):
        context = StageContext((1, 2, 2), (3,))
        rules = {"counts_in": Over.ALL, "penalty_last_n": 2}
        penalties = Penalties(frequency_penalty=1.0, **rules)
        assert logits_after(penalties, [0.0] * 4, context) == [0, 0, -1, -1]
        assert logits_after(Penalties(2.0, penalty_last_n=0), [1.0] * 4, context) == [1.0] * 4

    def test_sglang_subtracts_first_and_looks_at_the_output(self):
        context = StageContext((0,), (1,))
        sglang = effective("sglang", {"repetition_penalty": 2, "presence_penalty": 3}).chain
        vllm = effective("vllm", {"repetition_penalty": 2, "presence_penalty": 3}).chain
        logits = np.array([4.0, 4.0, 4.0])
        assert sglang.run(logits, context).after[0].logits.tolist() == [4.0, 0.5, 4.0]
        assert vllm.run(logits, context).after[0].logits.tolist() == [2.0, -1.0, 4.0]

    def test_ids_that_are_gone_are_no_matter(self):
        before = candidates(0.5, 0.3, 0.2).select(np.array([True, False, True]))
        after = Penalties(2.0).apply(before, StageContext((1, 99)))
        assert after.logits.tolist() == before.logits.tolist()

    def test_equals_transformers_bit_for_bit(self):
        torch = pytest.importorskip("torch")
        warpers = pytest.importorskip("transformers.generation.logits_process")
        rng = np.random.default_rng(0)
        for size in (4, 30, 500, 49_152):
            for _ in range(20):
                logits = (rng.normal(size=size) * 4).astype(np.float32)
                logits[rng.random(size) < 0.1] = -np.inf
                logits[0] = 1.0
                history = tuple(rng.integers(0, size, int(rng.integers(1, 40))).tolist())
                penalty = float(rng.uniform(0.5, 2))
                theirs = warpers.RepetitionPenaltyLogitsProcessor(penalty)(
                    torch.tensor([history]), torch.from_numpy(logits.copy())[None]
                )[0]
                ours = logits_after(Penalties(penalty), logits, StageContext(history))
                assert ours == theirs.tolist()

    def test_greedy_after_penalties(self):
        """cases.md 14 (llama.cpp#26754): logit stages run under greedy, and the argmax after."""
        context = StageContext((0, 1, 2, 0, 1, 2))
        logits = np.array([2.0, 1.9, 1.0, 0.0])
        dials = {"temperature": 0.0, "repetition_penalty": 1.5}
        for preset in ("guide", "hf", "vllm", "llamacpp", "sglang", "mlx"):
            chain = effective(preset, dials).chain
            ladder = chain.run(logits, context)
            drawn = chain.choose(ladder, context)
            assert ladder.traces[0].name in ("penalties", "top_k")
            assert (drawn.token_id, drawn.u) == (0, None), preset
        chain = effective("guide", {"temperature": 0.0, "dry_multiplier": 1.0}).chain
        ladder = chain.run(
            np.array([2.0, 1.9, 1.0, 0.0]), StageContext((0, 1, 2, 3, 1, 2, 0, 1, 2))
        )
        assert chain.choose(ladder, EMPTY).token_id == 1  # 0 and 3 would extend "1 2"
        assert int(ladder.model.ids[ladder.model.logits.argmax()]) == 0


class TestDry:
    def test_the_example_of_its_author(self):
        # a b c c b c y a b c: emitting c would extend "a b c", y would extend "b c"
        a, b, c, y = range(4)
        context = StageContext((a, b, c, c, b, c, y, a, b, c))
        found = logits_after(Dry(1.0, 2.0, 2), [0.0] * 4, context)
        assert found == [0.0, 0.0, -2.0, -1.0]

    def test_breakers_end_a_run_and_are_exempt(self):
        context = StageContext((1, 2, 9, 3, 1, 2, 9))
        assert logits_after(Dry(1.0, 2.0, 2), [0.0] * 10, context)[3] == -2.0
        assert logits_after(Dry(1.0, 2.0, 2, dry_breakers="9"), [0.0] * 10, context) == [0.0] * 10
        back = StageContext((1, 2, 9, 1, 2))
        assert logits_after(Dry(1.0, 2.0, 2), [0.0] * 10, back)[9] == -1.0
        assert logits_after(Dry(1.0, 2.0, 2, dry_breakers="9"), [0.0] * 10, back)[9] == 0.0

    def test_a_breaker_may_be_a_sequence(self):
        context = StageContext((1, 2, 8, 9, 3, 1, 2, 8, 9))
        assert logits_after(Dry(1.0, 2.0, 2, dry_breakers="8 9"), [0.0] * 10, context) == [0.0] * 10
        assert logits_after(Dry(1.0, 2.0, 2, dry_breakers="8 7"), [0.0] * 10, context)[3] == -4.0

    def test_looks_at_its_window(self):
        context = StageContext((1, 2, 3, 5, 5, 5, 1, 2))
        assert logits_after(Dry(1.0), [0.0] * 6, context)[3] == -1.0
        assert logits_after(Dry(1.0, dry_last_n=4), [0.0] * 6, context)[3] == 0.0

    @given(
        st.lists(st.integers(0, 3), max_size=40),
        st.integers(1, 4),
        st.sets(st.integers(0, 3), max_size=2),
    )
    @settings(max_examples=200, deadline=None)
    def test_equals_the_plain_reference(self, history, allowed, breakers):
        written = ", ".join(map(str, sorted(breakers)))
        found = logits_after(
            Dry(0.8, 1.5, allowed, dry_breakers=written), [0.0] * 4, StageContext(tuple(history))
        )
        expected = reference.dry(np.zeros(4), history, 0.8, 1.5, allowed, sorted(breakers))
        assert found == pytest.approx(expected.tolist(), rel=1e-5)

    def test_a_long_repeat_does_not_overflow(self):
        context = StageContext((0,) * 3000)
        found = logits_after(Dry(1.0, 10.0), [0.0, 0.0], context)
        assert found == [float(np.finfo(np.float32).min), 0.0]


class TestBias:
    def test_adds(self):
        assert logits_after(LogitBias("0:-1, 2:+2.5"), [1, 1, 1]) == [0, 1, 3.5]

    def test_forbids(self):
        assert logits_after(LogitBias("1:-inf"), [1, 1, 1]) == [1, -math.inf, 1]

    def test_a_sequence_biases_its_last_token_after_the_others(self):
        bias = LogitBias("1 2:+5, 2:+1")
        assert logits_after(bias, [0, 0, 0], StageContext((0,))) == [0, 0, 1]
        assert logits_after(bias, [0, 0, 0], StageContext((0,), (1,))) == [0, 0, 6]

    def test_ids_outside_are_named(self):
        """cases.md 46 (openai-python#572)."""
        with pytest.raises(SamplingError, match=r"token id 7 is outside 0\.\.2"):
            LogitBias("7:+1").apply(candidates(0.5, 0.3, 0.2), EMPTY)
        with pytest.raises(SamplingError, match=r"token id 3 is outside 0\.\.2"):
            Suppress("3").apply(candidates(0.5, 0.3, 0.2), EMPTY)

    def test_text_needs_a_tokenizer(self):
        with pytest.raises(SamplingError, match="'New' is text: it needs a tokenizer"):
            LogitBias("'New':+1").apply(candidates(0.5, 0.5), EMPTY)

    def test_bias_and_penalty_come_in_the_stack_s_order(self):
        """cases.md 46 (exllamav3#274): before or after a multiplicative penalty."""
        dials = {"logit_bias": "0:+1", "repetition_penalty": 2.0, "temperature": 1.0}
        context = StageContext((), (0,))
        found = {
            preset: effective(preset, dials).chain.run(np.array([2.0, 0.0]), context).after[1]
            for preset in ("hf", "sglang")
        }
        assert found["hf"].logits[0] == 1.5  # (2 + 1) / 2
        assert found["sglang"].logits[0] == 2.0  # 2 / 2 + 1

    def test_bad_words(self):
        words = BadWords("1, 0 2")
        assert logits_after(words, [0, 0, 0], StageContext((2,))) == [0, -math.inf, 0]
        assert logits_after(words, [0, 0, 0], StageContext((0,))) == [0, -math.inf, -math.inf]

    def test_bad_words_spare_a_lone_stop_token(self):
        context = StageContext((0,), stop_ids=frozenset({1}))
        assert logits_after(BadWords("1, 0 1"), [0, 0], context) == [0, -math.inf]
        assert logits_after(BadWords("1"), [0, 0], context) == [0, 0]
        assert logits_after(BadWords("1", spare_stops=False), [0, 0], context) == [0, -math.inf]

    def test_vllm_matches_bad_words_in_the_output_alone(self):
        context = StageContext((0,), ())
        assert logits_after(BadWords("0 1", over=Over.OUTPUT), [0, 0], context) == [0, 0]

    def test_suppress(self):
        assert logits_after(Suppress("0, 2"), [1, 1, 1]) == [-math.inf, 1, -math.inf]

    def test_min_new_tokens(self):
        stops = frozenset({1})
        early, late = StageContext((0,), (0,), stops), StageContext((0,), (0, 0), stops)
        assert logits_after(MinNewTokens(2), [0, 0], early) == [0, -math.inf]
        assert logits_after(MinNewTokens(2), [0, 0], late) == [0, 0]

    def test_no_repeat_ngram(self):
        context = StageContext((0, 1, 2, 0), (1,))
        assert logits_after(NoRepeatNGram(3), [0, 0, 0], context) == [0, 0, -math.inf]
        assert logits_after(NoRepeatNGram(1), [0, 0, 0, 0], context)[:3] == [-math.inf] * 3
        assert logits_after(NoRepeatNGram(9), [0, 0, 0], context) == [0, 0, 0]

    def test_forbidding_everything_is_an_error_that_names_the_stage(self):
        chain = build(("suppress", "top_k"), {"suppress": "0, 1", "top_k": 5}, "guide")
        with pytest.raises(SamplingError, match=r'^stage suppress="0, 1": no token is left'):
            chain.run(np.zeros(2), EMPTY)

    def test_equals_transformers_bit_for_bit(self):
        torch = pytest.importorskip("torch")
        warpers = pytest.importorskip("transformers.generation.logits_process")
        rng = np.random.default_rng(1)
        for _ in range(60):
            size = int(rng.integers(4, 60))
            logits = rng.normal(size=size).astype(np.float32) * 3
            history = tuple(rng.integers(0, 4, int(rng.integers(3, 30))).tolist())
            context = StageContext(history[:2], history[2:], frozenset({3}))
            ngram = int(rng.integers(1, 4))
            words = [rng.integers(0, 4, int(rng.integers(1, 4))).tolist() for _ in range(2)] + [[3]]
            written = ", ".join(" ".join(map(str, word)) for word in words)
            bias = {tuple(word): float(np.float32(rng.normal())) for word in words}
            spelled = ", ".join(f"{' '.join(map(str, k))}:{v!r}" for k, v in bias.items())
            pairs = [
                (NoRepeatNGram(ngram), warpers.NoRepeatNGramLogitsProcessor(ngram)),
                (BadWords(written), warpers.NoBadWordsLogitsProcessor(words, 3)),
                (LogitBias(spelled), warpers.SequenceBiasLogitsProcessor(bias)),
                (MinNewTokens(5), warpers.MinNewTokensLengthLogitsProcessor(2, 5, 3)),
                (Suppress("1, 2"), warpers.SuppressTokensLogitsProcessor([1, 2])),
            ]
            for ours, theirs in pairs:
                scores = theirs(torch.tensor([history]), torch.from_numpy(logits.copy())[None])[0]
                if torch.isfinite(scores).any():
                    assert logits_after(ours, logits, context) == scores.tolist()


class TestProcessor:
    def test_runs_any_transformers_processor(self):
        warpers = pytest.importorskip("transformers.generation.logits_process")
        stage = Processor(warpers.TopKLogitsWarper(2))
        chain = effective("guide", {}).chain.with_stage(stage)
        assert [one.name for one in chain.stages][:2] == ["processor", "temperature"]
        ladder = chain.run(np.log([0.4, 0.1, 0.3, 0.2]), StageContext((1, 2)))
        assert ladder.after[0].ids.tolist() == [0, 2]
        assert ladder.traces[0].label == "processor=TopKLogitsWarper"

    def test_gets_the_history_and_its_own_copy(self):
        pytest.importorskip("torch")
        seen = []

        def spoil(input_ids, scores):
            seen.append(input_ids.tolist())
            scores[:] = 0.0
            return scores

        before = candidates(0.5, 0.3, 0.2).select(np.array([True, True, False]))
        untouched = before.logits.tobytes()
        after = Processor(spoil, "spoil").apply(before, StageContext((4, 5), (6,)))
        assert seen == [[[4, 5, 6]]]
        assert before.logits.tobytes() == untouched
        assert after.ids.tolist() == [0, 1]  # what was cut stays cut
        assert after.logits.tolist() == [0.0, 0.0]

    def test_a_bad_shape_is_an_error(self):
        pytest.importorskip("torch")
        with pytest.raises(SamplingError, match=r"shape \(1, 2\)"):
            Processor(lambda ids, scores: scores[:, :2]).apply(candidates(0.5, 0.3, 0.2), EMPTY)

    def test_loads_by_path(self):
        assert load_processor("math:hypot").label == "processor=math:hypot"
        for path, message in (
            ("hypot", "package.module:name"),
            ("math:nothing", "cannot load"),
            ("no_such_module:x", "cannot load"),
            ("math:pi", "not callable"),
        ):
            with pytest.raises(ValueError, match=message):
                load_processor(path)


ALL_ON = {
    "logit_bias": "0:+1, 3:-2",
    "bad_words": "1",
    "suppress": "2",
    "min_new_tokens": 3,
    "no_repeat_ngram_size": 2,
    "repetition_penalty": 1.3,
    "frequency_penalty": 0.3,
    "presence_penalty": 0.2,
    "dry_multiplier": 0.8,
    "temperature": 0.7,
    "dynatemp_range": 0.3,
    "top_n_sigma": 2.0,
    "top_k": 30,
    "top_p": 0.9,
    "min_p": 0.02,
    "typical_p": 0.9,
    "top_h": 0.9,
    "epsilon_cutoff": 1e-4,
    "eta_cutoff": 1e-3,
    "xtc_probability": 1.0,
    "mirostat_tau": 4.0,
}


def each_stage():
    for name, cls in STAGES.items():
        values = {dial.name: ALL_ON[dial.name] for dial in cls.dials if dial.name in ALL_ON}
        if values:
            yield name, build((name,), values, "guide").stages[0]


@pytest.mark.parametrize(("name", "stage"), [pytest.param(n, s, id=n) for n, s in each_stage()])
class TestEveryStage:
    CONTEXT = StageContext((5, 6, 5, 6), (7, 5, 6), frozenset({9}), seed=3)

    def test_never_edits_its_input(self, name, stage):
        rng = np.random.default_rng(8)
        for scale in (0.1, 3, 30):
            before = Candidates.from_logits(rng.normal(scale=scale, size=300))
            bytes_before = before.ids.tobytes(), before.logits.tobytes()
            stage.apply(before, self.CONTEXT)
            assert (before.ids.tobytes(), before.logits.tobytes()) == bytes_before

    def test_is_a_function_of_its_arguments(self, name, stage):
        before = Candidates.from_logits(np.random.default_rng(9).normal(size=300))
        first, again = (stage.apply(before, self.CONTEXT) for _ in range(2))
        assert first.ids.tobytes() == again.ids.tobytes()
        assert first.logits.tobytes() == again.logits.tobytes()

    def test_off_does_nothing(self, name, stage):
        idle = build((name,), {}, "guide").stages[0]
        before = Candidates.from_logits(np.random.default_rng(9).normal(size=300))
        assert idle.off
        assert idle.apply(before, self.CONTEXT) is before
        assert not stage.off

    def test_never_leaves_nothing_or_nan(self, name, stage):
        rng = np.random.default_rng(10)
        vectors = [rng.normal(size=64) * scale for scale in (1e-30, 1e-3, 1, 50, 1e20, 1e38)] + [
            np.zeros(64),
            np.where(np.arange(64) == 40, 0.0, -np.inf),
        ]
        for vector in vectors:
            after = stage.apply(Candidates.from_logits(np.float32(vector)), self.CONTEXT)
            assert len(after) > 0
            assert np.isfinite(after.logits).all()
            assert after.probs.sum() == pytest.approx(1.0)
            assert (np.diff(after.ids) > 0).all()

    def test_says_what_it_is(self, name, stage):
        assert stage.name == name
        assert type(stage).__doc__
        assert type(stage).source
        assert set(stage.params) == {dial.name for dial in stage.dials}
        for dial in stage.dials:
            assert DIALS[dial.name] == (name, dial)
            assert dial.summary
            assert len(dial.summary) <= 60
            assert dial.check(stage.params[dial.name]) == stage.params[dial.name]


@given(
    st.lists(st.floats(-30, 30, width=32), min_size=1, max_size=80),
    st.permutations(sorted(STAGES)),
    st.integers(0, 2**40),
    st.integers(1, 21),
)
@settings(max_examples=120, deadline=None)
def test_any_chain_in_any_order_leaves_something_to_draw(logits, order, seed, length):
    chosen = [name for name in order if name not in ("grammar", "bad_words", "suppress")][:length]
    chain = build(chosen, ALL_ON | {"logit_bias": "0:+1"}, "guide")
    context = StageContext((1, 2, 1, 2), (3,), frozenset(), seed)
    ladder = chain.run(np.array(logits, dtype=np.float32), context)
    drawn = chain.choose(ladder, context)
    assert ladder.final.probs_of(np.array([drawn.token_id]))[0] > 0
    for trace, level in zip(ladder.traces, ladder.after, strict=True):
        assert trace.survivors == len(level) > 0
        assert 0.0 <= trace.mass_removed <= 1.0
        assert math.isfinite(trace.entropy)
        assert math.isfinite(trace.log_z)


def vocabulary() -> Vocabulary:
    tokens = [Token(i, bytes([i]), TokenKind.BYTE) for i in range(256)]
    tokens += [Token(256 + i, word) for i, word in enumerate([b"yes", b"no", b"12"])]
    tokens += [Token(259, b"<end>", TokenKind.SPECIAL), Token(260, b"", TokenKind.UNUSED)]
    return Vocabulary.pack(tokens)


class TestGrammar:
    @pytest.fixture(autouse=True)
    def _needs_the_extra(self):
        pytest.importorskip("llguidance")

    def allowed(self, dials: dict, output: tuple[int, ...] = ()) -> list[int]:
        stage = build(("grammar",), dials, "guide").stages[0]
        context = StageContext((1,), output, frozenset({259}), vocabulary=self.words)
        return stage.apply(Candidates.from_logits(np.zeros(261)), context).ids.tolist()

    words = vocabulary()

    def test_regex(self):
        dials = {"regex": "(yes|no)[0-9]{2}"}
        assert self.allowed(dials) == [ord("n"), ord("y"), 256, 257]
        assert self.allowed(dials, (256,)) == [*range(ord("0"), ord("9") + 1), 258]
        assert self.allowed(dials, (256, 258)) == [259]

    def test_going_back_and_elsewhere_gives_the_same(self):
        dials = {"regex": "(yes|no)[0-9]{2}"}
        paths = [(), (257,), (257, 258), (256, ord("1")), (), (257,), (256, ord("1"), ord("2"))]
        forwards = [self.allowed(dials, path) for path in paths]
        assert [self.allowed(dials, path) for path in reversed(paths)] == forwards[::-1]

    def test_json_schema(self):
        schema = '{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}'
        assert self.allowed({"json_schema": schema}) == [ord("{")]

    def test_lark(self):
        assert self.allowed({"lark": 'start: "a" | "b"'}) == [ord("a"), ord("b")]

    def test_what_does_not_fit_is_named(self):
        with pytest.raises(SamplingError, match=r"output token 0 \('x'\) does not fit"):
            self.allowed({"regex": "yes"}, (ord("x"),))
        assert self.allowed({"regex": "yes"}) == [ord("y"), 256]

    @pytest.mark.parametrize(
        ("dials", "message"),
        [
            ({"regex": "("}, "regex: .*unclosed group"),
            ({"json_schema": "{"}, "json_schema: not JSON"),
            ({"lark": "start: nothing"}, "lark: .*unknown name"),
            ({"regex": "a", "lark": 'start: "a"'}, "one of regex and lark"),
        ],
    )
    def test_a_bad_grammar_is_refused_at_once(self, dials, message):
        with pytest.raises(ValueError, match=message):
            build(("grammar",), dials, "guide")

    def test_needs_bytes_and_a_stop_token(self):
        stage = build(("grammar",), {"regex": "a"}, "guide").stages[0]
        with pytest.raises(SamplingError, match="token bytes"):
            stage.apply(candidates(1.0), EMPTY)
        with pytest.raises(SamplingError, match="stop token"):
            stage.apply(candidates(1.0), StageContext(vocabulary=self.words))

    def test_in_a_chain(self):
        chain = effective("guide", {"regex": "[0-9]+", "temperature": 0}).chain
        logits = np.zeros(261)
        logits[ord("x")] = 5.0
        context = StageContext((), (), frozenset({259}), vocabulary=self.words)
        ladder = chain.run(logits, context)
        assert ladder.traces[0].survivors == 11
        assert chain.choose(ladder, context).token_id == ord("0")


def test_without_the_extra_a_grammar_says_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install 'llm-inspect-tui\[grammar\]'"):
        build(("grammar",), {"regex": "a"}, "guide")


def test_rules_are_told_apart_from_dials():
    assert TopK(5).rules == {"ties": Ties.KEEP}
    assert TopP(0.5, Border.REACH).rules == {"border": Border.REACH}
    assert TopK(5).params == {"top_k": 5}
