"""The sampling core: candidates, temperature, top-k, top-p, greedy, the draw and the traces."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from engine.records.step import CUT_BY_MODEL, SURVIVES, How
from engine.sampling.candidates import Candidates, SamplingError
from engine.sampling.chain import Chain, build, effective, forced
from engine.sampling.draw import Purpose, argmax, draw, uniform
from engine.sampling.stages import StageContext, Temperature, TopK, TopP

CONTEXT = StageContext()


def logits_of(*probs: float) -> np.ndarray:
    """Float32 logits whose softmax is ``probs``."""
    return np.log(np.array(probs)).astype(np.float32)


def candidates(*probs: float) -> Candidates:
    return Candidates.from_logits(logits_of(*probs))


def kept(stage, *probs: float) -> list[int]:
    return stage.apply(candidates(*probs), CONTEXT).ids.tolist()


class TestCandidates:
    def test_minus_infinity_is_not_a_candidate(self):
        found = Candidates.from_logits(np.array([1.0, -np.inf, 0.5]))
        assert found.ids.tolist() == [0, 2]
        assert found.vocab_size == 3

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ([0.0, np.nan, np.nan], "2 NaN"),
            ([0.0, np.inf], "plus infinity"),
            ([-np.inf, -np.inf], "all minus infinity"),
        ],
    )
    def test_refuses_what_is_no_distribution(self, values, message):
        with pytest.raises(SamplingError, match=message):
            Candidates.from_logits(np.array(values))

    @pytest.mark.parametrize("shape", [(0,), (2, 2), ()])
    def test_refuses_other_shapes(self, shape):
        with pytest.raises(SamplingError, match="one non-empty vector"):
            Candidates.from_logits(np.zeros(shape))

    def test_does_not_share_the_caller_s_array(self):
        values = np.array([1.0, 2.0], dtype=np.float32)
        found = Candidates.from_logits(values)
        values[0] = 9.0
        assert found.logits.tolist() == [1.0, 2.0]

    def test_cannot_be_written_to(self):
        found = candidates(0.5, 0.5)
        with pytest.raises(ValueError, match="read-only"):
            found.logits[0] = 1.0
        with pytest.raises(ValueError, match="read-only"):
            found.select(np.array([True, False])).ids[0] = 1

    def test_figures_of_a_known_distribution(self):
        found = candidates(0.5, 0.25, 0.125, 0.125)
        entropy = 1.75 * math.log(2)
        assert found.probs == pytest.approx([0.5, 0.25, 0.125, 0.125], rel=1e-6)
        assert found.entropy == pytest.approx(entropy, rel=1e-6)
        # E[s^2] = ln(2)^2 * (0.5 + 0.25 * 4 + 0.25 * 9), less the squared mean
        assert found.varentropy == pytest.approx(math.log(2) ** 2 * (3.75 - 1.75**2), rel=1e-6)
        assert found.log_z == pytest.approx(0.0, abs=1e-6)

    def test_a_certain_token_has_no_entropy(self):
        found = Candidates.from_logits(np.array([0.0, 2000.0]))
        assert found.entropy == 0.0
        assert found.varentropy == 0.0

    @pytest.mark.parametrize("size", [1, 3, 8191, 8192, 8193, 50_000])
    def test_figures_equal_one_plain_sum(self, size):
        values = np.random.default_rng(size).normal(scale=3, size=size).astype(np.float32)
        found = Candidates.from_logits(values)
        weights = np.exp(values.astype(np.longdouble) - values.max())
        probs = weights / weights.sum()
        surprisal = -np.log(probs)
        assert found.probs == pytest.approx(probs.astype(np.float64), rel=1e-12)
        assert found.entropy == pytest.approx(
            float((probs * surprisal).sum()), rel=1e-12, abs=1e-15
        )
        expected = float((probs * surprisal**2).sum() - (probs * surprisal).sum() ** 2)
        assert found.varentropy == pytest.approx(expected, rel=1e-9, abs=1e-12)

    def test_huge_logits_keep_exact_distances(self):
        found = Candidates.from_logits(np.array([3e38, -3e38, 3e38], dtype=np.float32))
        assert found.probs.tolist() == [0.5, 0.0, 0.5]
        assert found.entropy == pytest.approx(math.log(2))

    @given(
        hnp.arrays(
            np.float32,
            st.integers(1, 3000),
            elements=st.sampled_from([-3.0, -0.0, 0.0, 0.5, 1.0, 2.0]) | st.floats(-9, 9, width=32),
            fill=st.sampled_from([0.0, 1.0]),
        ),
        st.integers(0, 3000),
    )
    @settings(max_examples=150, deadline=None)
    def test_every_way_to_the_order_agrees(self, values, count):
        expected = sorted(range(values.size), key=lambda i: (-values[i], i))
        found = Candidates.from_logits(values)
        head = found.order(count)
        assert head.size >= min(count, values.size)
        assert head.tolist() == expected[: head.size]
        assert found.descending(count).tolist() == [
            values[i] for i in expected[: found.descending(count).size]
        ]
        assert found.order().tolist() == expected
        if 0 < count <= values.size:
            assert Candidates.from_logits(values).ranked(count - 1) == expected[count - 1]
            assert found.leading(count).ids.tolist() == sorted(expected[:count])

    @pytest.mark.parametrize("scale", [1e-30, 0.02, 1.0, 6.0])
    @pytest.mark.parametrize("size", [7, 300, 3000, 20_000, 60_000])
    def test_a_run_around_a_mass_holds_its_place(self, size, scale):
        rng = np.random.default_rng(size)
        found = Candidates.from_logits((rng.normal(size=size) * scale).astype(np.float32))
        whole = np.sort(found.logits)[::-1]
        cumulative = np.cumsum(found.probs_at(whole))
        for mass in (0.0, 1e-9, 0.3, 0.8, 0.999, 1.0):
            run = found.around(mass)
            end = run.start + run.logits.size
            assert run.logits.tolist() == whole[run.start : end].tolist()
            before = cumulative[run.start - 1] if run.start else 0.0
            assert run.before == pytest.approx(before, abs=1e-12)
            assert run.before <= mass
            assert end == size or cumulative[end - 1] > mass

    def test_leading_can_keep_the_highest_ids_of_a_tie(self):
        found = candidates(0.2, 0.4, 0.2, 0.2)
        assert found.leading(2).ids.tolist() == [0, 1]
        assert found.leading(2, keep_highest_ids=True).ids.tolist() == [1, 3]

    def test_probability_of_ids_that_are_gone_is_nothing(self):
        found = candidates(0.5, 0.25, 0.25).select(np.array([True, False, True]))
        assert found.probs_of(np.array([0, 1, 2])) == pytest.approx([2 / 3, 0, 1 / 3])

    def test_a_stage_cannot_pass_on_nan_or_infinity(self):
        found = candidates(0.5, 0.5)
        with pytest.raises(SamplingError, match="NaN"):
            found.with_logits(np.array([0.0, np.nan]))
        with pytest.raises(SamplingError, match="plus infinity"):
            found.with_logits(np.array([0.0, np.inf]))
        with pytest.raises(SamplingError, match="no token is left"):
            found.with_logits(np.array([-np.inf, -np.inf]))
        assert found.with_logits(np.array([-np.inf, 1.0])).ids.tolist() == [1]


class TestTemperature:
    def test_divides(self):
        warm = Temperature(0.5).apply(Candidates.from_logits(np.array([3.0, 2.0, 1.0])), CONTEXT)
        assert warm.logits.tolist() == [6.0, 4.0, 2.0]

    def test_one_is_off(self):
        found = candidates(0.5, 0.5)
        assert Temperature(1.0).apply(found, CONTEXT) is found
        assert Temperature(1.0).off

    def test_zero_takes_the_most_likely_and_of_equals_the_lowest_id(self):
        assert kept(Temperature(0.0), 0.2, 0.4, 0.4) == [1]

    def test_tiny_temperature_on_half_floats_does_not_overflow(self):
        """cases.md 4 (vllm#1623): float16 gave infinity and then NaN."""
        values = np.array([2.875, 2.9551, 11.0625, -2.4473], dtype=np.float16)
        cold = Temperature(1e-4).apply(Candidates.from_logits(values), CONTEXT)
        assert cold.probs.tolist() == [0.0, 0.0, 1.0, 0.0]

    @pytest.mark.parametrize("temperature", [1e-36, 1e-40, 1e-300, 5e-324])
    def test_any_temperature_is_finite_even_past_float32(self, temperature):
        cold = Temperature(temperature).apply(
            Candidates.from_logits(np.array([-200.0, 11.0, 11.0, 10.0])), CONTEXT
        )
        assert cold.probs.tolist() == [0.0, 0.5, 0.5, 0.0]

    def test_order_with_truncation_matters(self):
        """cases.md 6 (llama.cpp#4091): the same dials before and after give other sets."""
        values = np.array([3.0, 2.0, 1.0])
        first = build(("temperature", "top_p"), {"temperature": 0.5, "top_p": 0.8}, "guide")
        last = build(("top_p", "temperature"), {"temperature": 0.5, "top_p": 0.8}, "guide")
        ids = np.arange(3)
        one, two = first.run(values, CONTEXT), last.run(values, CONTEXT)
        assert one.final.probs_of(ids) == pytest.approx([1.0, 0.0, 0.0])
        assert two.final.probs_of(ids) == pytest.approx([0.8808, 0.1192, 0.0], abs=5e-5)


class TestTopK:
    def test_keeps_k(self):
        assert kept(TopK(2), 0.1, 0.4, 0.2, 0.3) == [1, 3]

    def test_keeps_every_tie_with_the_last(self):
        assert kept(TopK(2), 0.25, 0.25, 0.25, 0.25) == [0, 1, 2, 3]
        assert kept(TopK(2), 0.2, 0.4, 0.2, 0.2) == [0, 1, 2, 3]

    @pytest.mark.parametrize("k", [0, 3, 99])
    def test_off_when_nothing_to_cut(self, k):
        assert kept(TopK(k), 0.5, 0.3, 0.2) == [0, 1, 2]

    @given(
        hnp.arrays(np.float32, st.integers(1, 2000), elements=st.floats(-8, 8, width=32)),
        st.integers(1, 2500),
    )
    @settings(max_examples=100, deadline=None)
    def test_equals_the_definition(self, values, k):
        kth = np.sort(values)[::-1][min(k, values.size) - 1]
        found = TopK(k).apply(Candidates.from_logits(values), CONTEXT)
        assert found.ids.tolist() == np.flatnonzero(values >= kth).tolist()


class TestTopP:
    @pytest.mark.parametrize(
        ("top_p", "expected"), [(0.8, [0, 1]), (0.9, [0, 1, 3]), (0.0, [0]), (1e-6, [0])]
    )
    def test_transformers_rule(self, top_p, expected):
        """cases.md 1 and 2: exact borders, ties, and the top token always stays."""
        assert kept(TopP(top_p), 0.5, 0.3, 0.1, 0.1) == expected

    def test_probabilities_after_an_exact_border(self):
        found = TopP(0.8).apply(candidates(0.5, 0.3, 0.1, 0.1), CONTEXT)
        assert found.probs == pytest.approx([0.625, 0.375], rel=1e-6)

    def test_equals_go_from_the_lowest_id(self):
        """cases.md 1: four equal probabilities and half the mass."""
        assert kept(TopP(0.5), 0.25, 0.25, 0.25, 0.25) == [2, 3]

    def test_one_is_off(self):
        found = candidates(0.5, 0.3, 0.1, 0.1)
        assert TopP(1.0).apply(found, CONTEXT) is found
        assert TopP(1.0).off

    def test_twice_is_not_once(self):
        """cases.md 45: top-p renormalises and cuts again."""
        once = TopP(0.6).apply(candidates(0.5, 0.3, 0.2), CONTEXT)
        assert once.ids.tolist() == [0, 1]
        assert TopP(0.6).apply(once, CONTEXT).ids.tolist() == [0]

    @given(
        hnp.arrays(np.float32, st.integers(1, 3000), elements=st.floats(-12, 12, width=32)),
        st.floats(0.0, 1.0, exclude_max=True),
    )
    @settings(max_examples=100, deadline=None)
    def test_the_smallest_leading_set_that_reaches_p(self, values, p):
        found = TopP(p).apply(Candidates.from_logits(values), CONTEXT)
        probs = np.exp(values.astype(np.float64) - values.max())
        probs /= probs.sum()
        mass = probs[found.ids].sum()
        assert mass >= p - 1e-6
        least = probs[found.ids].min()
        assert len(found) == 1 or mass - least < p + 1e-6
        assert least >= np.delete(probs, found.ids).max(initial=0.0) * (1 - 1e-12)


class TestDraw:
    def test_stretches_lie_from_the_most_likely_down(self):
        final = candidates(0.2, 0.5, 0.3)
        assert [draw(final, u).token_id for u in (0.0, 0.49, 0.51, 0.79, 0.81, 0.999)] == [
            1, 1, 2, 2, 0, 0,
        ]  # fmt: skip
        found = draw(final, 0.6)
        assert (found.how, found.u) == (How.SAMPLED, 0.6)
        assert (found.low, found.high) == pytest.approx((0.5, 0.8), rel=1e-6)

    def test_a_border_belongs_to_the_next_token(self):
        final = Candidates.from_logits(np.zeros(4))
        assert [draw(final, u).token_id for u in (0.0, 0.25, 0.5, 0.75)] == [0, 1, 2, 3]
        assert draw(final, np.nextafter(0.25, 0)).token_id == 0

    @pytest.mark.parametrize("u", [-0.1, 1.0, 1.5, math.nan])
    def test_u_outside_is_refused(self, u):
        with pytest.raises(ValueError, match=r"\[0, 1\)"):
            draw(candidates(0.5, 0.5), u)

    def test_the_last_u_never_falls_on_an_impossible_token(self):
        final = Candidates.from_logits(np.array([0.0, 0.0, 0.0, -2000.0]))
        assert draw(final, np.nextafter(1.0, 0)).token_id == 2

    @given(
        hnp.arrays(np.float32, st.integers(1, 5000), elements=st.floats(-4, 4, width=32)),
        st.floats(0, 1, exclude_max=True),
    )
    @settings(max_examples=100, deadline=None)
    def test_equals_the_inverse_of_the_whole_cumulative_distribution(self, values, u):
        final = Candidates.from_logits(values)
        order = sorted(range(values.size), key=lambda i: (-values[i], i))
        cumulative = np.cumsum(final.probs[order])
        index = min(int(np.searchsorted(cumulative, u, side="right")), values.size - 1)
        assert draw(final, u).token_id == order[index]

    def test_frequencies_follow_the_distribution(self):
        final = candidates(0.5, 0.3, 0.15, 0.05)
        count = 4000
        drawn = [draw(final, uniform(7, position)).token_id for position in range(count)]
        observed = np.bincount(drawn, minlength=4)
        expected = np.array([0.5, 0.3, 0.15, 0.05]) * count
        assert float(((observed - expected) ** 2 / expected).sum()) < 16.27  # chi2, 3 df, 0.1 %

    def test_half_precision_never_yields_an_impossible_token(self):
        """cases.md 11 (pytorch#192812): multinomial on float16 did, within a few hundred draws."""
        values = np.full(151_936, -np.inf, dtype=np.float16)
        values[0] = 0
        final = Candidates.from_logits(values)
        assert {draw(final, uniform(1, i)).token_id for i in range(400)} == {0}

    def test_argmax_takes_the_lowest_id_of_equals_and_no_randomness(self):
        found = argmax(candidates(0.2, 0.4, 0.4))
        assert (found.token_id, found.how, found.u) == (1, How.GREEDY, None)
        assert found.high == pytest.approx(0.4)


def philox(counter: tuple[int, ...], key: tuple[int, int]) -> int:
    """First word of Philox-4x64-10 (Salmon et al. 2011) after ``counter``, in plain integers."""
    mask = 2**64 - 1
    c, k = [(counter[0] + 1) & mask, *counter[1:]], list(key)
    for _ in range(10):
        one, two = 0xD2E7470EE14C6C93 * c[0], 0xCA5A826395121157 * c[2]
        c = [(two >> 64) ^ c[1] ^ k[0], two & mask, (one >> 64) ^ c[3] ^ k[1], one & mask]
        k = [(k[0] + 0x9E3779B97F4A7C15) & mask, (k[1] + 0xBB67AE8584CAA73B) & mask]
    return c[0]


class TestRandomness:
    def test_depends_on_its_key_alone(self):
        first = [uniform(42, i) for i in range(10)]
        assert [uniform(42, i) for i in reversed(range(10))] == first[::-1]
        assert len(set(first)) == 10

    def test_every_part_of_the_key_counts(self):
        numbers = {
            uniform(1, 0), uniform(2, 0), uniform(1, 1), uniform(1, 0, Purpose.STAGE),
            uniform(1, 0, Purpose.STAGE, 1), uniform(-1, 0),
        }  # fmt: skip
        assert len(numbers) == 6

    def test_the_same_numbers_on_every_machine(self):
        for key, counter in [((42, 0), (0, 7, 0, 0)), ((2**64 - 1, 1), (0, 0, 3, 0))]:
            seed = key[0] if key[0] < 2**63 else key[0] - 2**64
            expected = (philox(counter, key) >> 11) / 2**53
            assert uniform(seed, counter[1], Purpose(key[1]), counter[2]) == expected


class TestLadder:
    def test_traces_tell_what_each_stage_did(self):
        chain = build(("top_k", "top_p"), {"top_k": 3, "top_p": 0.6}, "guide")
        ladder = chain.run(logits_of(0.4, 0.3, 0.2, 0.1), CONTEXT)
        top_k, top_p = ladder.traces
        assert (top_k.name, top_k.label, top_k.params) == ("top_k", "top_k=3", {"top_k": 3})
        assert (top_k.survivors, top_p.survivors) == (3, 2)
        assert top_k.mass_removed == pytest.approx(0.1, rel=1e-5)
        assert top_p.mass_removed == pytest.approx(0.2 / 0.9, rel=1e-5)
        assert top_k.entropy_before == pytest.approx(1.2798542, rel=1e-6)
        assert top_p.entropy_before == top_k.entropy
        assert top_p.entropy == pytest.approx(0.6829081, rel=1e-6)
        assert np.exp(ladder.final.logits - top_p.log_z) == pytest.approx([4 / 7, 3 / 7])

    def test_every_cut_token_remembers_its_stage(self):
        values = logits_of(0.4, 0.3, 0.2, 0.1)
        values = np.append(values, -np.inf)
        ladder = build(("top_k", "top_p"), {"top_k": 3, "top_p": 0.6}, "guide").run(values, CONTEXT)
        assert ladder.cut_by.tolist() == [SURVIVES, SURVIVES, 1, 0, CUT_BY_MODEL]
        assert ladder.cut_by_of(np.array([3, 0])).tolist() == [0, SURVIVES]

    @pytest.mark.parametrize("keep", [1, 5, 400, 3999])
    def test_mass_removed_counts_what_went(self, keep):
        values = np.random.default_rng(keep).normal(scale=8, size=4000)
        chain = build(("top_k",), {"top_k": keep}, "guide")
        ladder = chain.run(values, CONTEXT)
        gone = np.delete(ladder.model.probs, ladder.final.ids)
        assert ladder.traces[0].mass_removed == pytest.approx(gone.sum(), rel=1e-6, abs=0)

    def test_the_table_holds_the_head_and_whoever_was_asked_for(self):
        ladder = build(("top_k",), {"top_k": 2}, "guide").run(
            logits_of(0.1, 0.4, 0.2, 0.3), CONTEXT
        )
        table = ladder.table(2, lambda i: i, also=[0, 1])
        assert table.ids.tolist() == [1, 3, 0]
        assert table.ranks.tolist() == [1, 2, 4]
        assert table.cut_by.tolist() == [SURVIVES, SURVIVES, 0]
        assert table.raw_logprobs == pytest.approx(np.log([0.4, 0.3, 0.1]), rel=1e-6)
        assert table.probs[0] == pytest.approx([0.4, 0.3, 0.1], rel=1e-6)
        assert table.probs[1] == pytest.approx([4 / 7, 3 / 7, 0.0], rel=1e-6)

    def test_an_error_names_the_stage(self):
        class BreakpointState(TopK):
            def apply(self, candidates, context):
                return candidates.with_logits(candidates.logits * np.nan)

        with pytest.raises(SamplingError, match=r"^stage top_k=5: a logit became NaN"):
            Chain((Temperature(0.5), BreakpointState(5))).run(np.zeros(3), CONTEXT)

    def test_a_forced_token_says_what_it_would_have_needed(self):
        ladder = build(("top_k",), {"top_k": 2}, "guide").run(logits_of(0.5, 0.3, 0.2), CONTEXT)
        assert forced(ladder, 2).high == 0.0
        assert forced(ladder, 0).high == pytest.approx(0.625)
        assert forced(ladder, 0).how is How.FORCED

    def test_greedy_uses_no_randomness(self):
        chain = effective("guide", {"temperature": 0.0}).chain
        ladder = chain.run(logits_of(0.3, 0.4, 0.3), CONTEXT)
        assert chain.greedy
        assert chain.choose(ladder, CONTEXT).u is None
        assert chain.choose(ladder, CONTEXT).token_id == 1

    def test_the_same_position_draws_the_same_token_whatever_came_between(self):
        """cases.md 13: step back and again, or compare two runs: the dice are the same."""
        chain = effective("guide", {"temperature": 1.0}).chain
        values = np.random.default_rng(0).normal(size=500)
        here = StageContext((1, 2, 3), (4,), seed=42)
        first = chain.choose(chain.run(values, here), here)
        for position in range(5):
            other = StageContext(tuple(range(position)), (), seed=42)
            chain.choose(chain.run(values, other), other)
        assert chain.choose(chain.run(values, here), here) == first
        assert uniform(42, 4) == first.u
