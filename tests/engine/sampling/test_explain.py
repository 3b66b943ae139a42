"""Explanations, flip distances, shapes, loops, repeated draws and stacks side by side."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.records.step import CUT_BY_MODEL, SURVIVES
from engine.sampling.candidates import Candidates
from engine.sampling.chain import effective
from engine.sampling.draw import Purpose, draw, stretch, uniform, uniforms
from engine.sampling.explain import (
    Change,
    dial_flips,
    explain,
    flip_distance,
    in_words,
    with_dial,
)
from engine.sampling.loops import Loop, find_loop
from engine.sampling.repeat import chi_square_tail, repeat_draw
from engine.sampling.shape import Mark, census, shape_of
from engine.sampling.stacks import compare_stacks
from engine.sampling.stages import Figure, StageContext

EMPTY = StageContext()


def run(preset: str, probs, spec: str = "", context: StageContext = EMPTY, **dials):
    chain = effective(preset, dials, spec=spec).chain
    return chain, chain.run(np.log(np.array(probs)).astype(np.float32), context)


class TestFate:
    PROBS = (0.5, 0.25, 0.12, 0.08, 0.05)

    def fate(self, spec: str, token: int, preset: str = "guide"):
        chain, ladder = run(preset, self.PROBS, spec)
        return explain(chain, ladder, EMPTY, token)

    def test_min_p_in_words_and_numbers(self):
        found = self.fate("min_p=0.3 > temperature=1", 2)
        assert found.text == "cut by min_p=0.3: probability 0.12 < 0.15"
        assert (found.stage, found.figure.sign) == (0, "<")
        assert found.saved_by.text == "min_p 0.3 → 0.24"
        assert found.saved_by.new == pytest.approx(0.24, rel=1e-6)
        assert found.then_cut_by == ""

    def test_top_k(self):
        found = self.fate("top_k=2 > temperature=1", 3)
        assert found.text == "cut by top_k=2: rank 4 > 2"
        assert found.saved_by == Change(0, "top_k", 2, 4, 4)

    def test_top_k_is_not_saved_by_turning_it_off_when_k_would_do(self):
        probs = np.full(200, 1 / 200)
        chain, ladder = run("llamacpp", probs, "top_k=2 > temperature=1")
        assert explain(chain, ladder, EMPTY, 150).saved_by.new == 151

    def test_top_p(self):
        found = self.fate("top_p=0.6 > temperature=1", 2)
        assert found.text == "cut by top_p=0.6: mass of the more likely 0.75 >= 0.6"
        assert found.saved_by.new == pytest.approx(0.75, rel=1e-6)
        assert 0.75 < found.saved_by.short < 0.754

    def test_top_p_of_a_tie_knows_who_goes_first(self):
        probs = (0.4, 0.2, 0.2, 0.2)
        for preset, cut, kept in (("hf", [1, 2], 3), ("llamacpp", [2, 3], 1)):
            chain, ladder = run(preset, probs, "top_p=0.5 > temperature=1")
            assert ladder.final.ids.tolist() == [0, kept]
            masses = [explain(chain, ladder, EMPTY, token).figure.value for token in cut]
            assert sorted(masses) == pytest.approx([0.6, 0.8], rel=1e-6)

    @pytest.mark.parametrize(
        ("spec", "token", "text"),
        [
            ("epsilon=0.1", 3, "cut by epsilon_cutoff=0.1: probability 0.08 < 0.1"),
            ("typical=0.3", 4, "cut by typical_p=0.3: |surprisal - entropy| 1.7 > 0.606"),
            ("top_h=0.4", 2, "cut by top_h=0.4: entropy of the leading set 0.948 > 0.52"),
            ("mirostat_tau=1", 2, "cut by mirostat_tau=1: surprisal in bits 3.06 > 2"),
            ("temperature=0", 1, "cut by temperature=0: rank 2 > 1"),
            ("suppress=3", 3, "forbidden by suppress=3"),
        ],
    )
    def test_every_other_stage(self, spec, token, text):
        order = f"{spec} > top_k=0" if "temperature" in spec else f"{spec} > temperature=1"
        assert self.fate(order, token).text == text

    def test_survivors_and_what_the_model_forbids(self):
        chain = effective("guide", {}).chain
        ladder = chain.run(np.array([0.0, -np.inf, 0.0]), EMPTY)
        assert explain(chain, ladder, EMPTY, 0).stage == SURVIVES
        assert explain(chain, ladder, EMPTY, 0).text == "survives: probability 0.5 among 2"
        assert explain(chain, ladder, EMPTY, 1).stage == CUT_BY_MODEL

    def test_says_who_would_cut_it_all_the_same(self):
        found = self.fate("top_k=1 > min_p=0.9 > temperature=1", 1)
        assert found.saved_by.new == 2
        assert found.then_cut_by == "min_p=0.9"

    def test_greedy_offers_no_smallest_change(self):
        assert self.fate("temperature=0 > top_k=0", 1).saved_by is None

    def test_digits_tell_a_near_miss_from_a_hit(self):
        assert in_words(Figure("p", 0.1230001, "<", 0.123)) == "p 0.1230001 < 0.123"
        assert in_words(Figure("mass", 0.99996, ">=", 0.95)) == "mass 0.99996 >= 0.95"
        assert in_words(Figure("mass", 0.5, ">=", 0.5)) == "mass 0.5 >= 0.5"


DIALS_TO_SAVE = {
    "top_k": (3, "guide"),
    "top_p": (0.5, "guide"),
    "min_p": (0.4, "guide"),
    "typical_p": (0.3, "guide"),
    "epsilon_cutoff": (0.1, "guide"),
    "eta_cutoff": (0.4, "guide"),
    "top_h": (0.4, "guide"),
    "top_n_sigma": (0.5, "guide"),
    "xtc_probability": (1.0, "guide"),
    "mirostat_tau": (1.0, "guide"),
}


@pytest.mark.parametrize("dial", DIALS_TO_SAVE)
def test_the_smallest_saving_change_is_exact(dial):
    """It saves; one step of the number format back towards the old value does not."""
    value, preset = DIALS_TO_SAVE[dial]
    rng = np.random.default_rng(4)
    checked = 0
    for seed in range(12):
        context = StageContext((0,) * seed, seed=seed)
        logits = rng.normal(scale=1.5, size=40).astype(np.float32)
        chain = effective(preset, {}, spec=f"{dial}={value} > temperature=0.9").chain
        ladder = chain.run(logits, context)
        for token in np.flatnonzero(ladder.cut_by == 0)[:4].tolist():
            change = explain(chain, ladder, context, token).saved_by
            assert change is not None, (dial, token)
            back = (
                change.new + (1 if change.new < change.old else -1)
                if isinstance(change.new, int)
                else math.nextafter(change.new, change.old)
            )

            def survives(
                value, token=token, logits=logits, context=context, chain=chain, change=change
            ):
                changed = with_dial(chain, 0, change.dial, value).run(logits, context)
                return changed.cut_by[token] != 0

            assert survives(change.new)
            assert survives(change.short)
            assert not survives(back)
            assert abs(change.short - change.old) >= abs(change.new - change.old)
            checked += 1
    assert checked >= 8


class TestFlip:
    def test_distances_and_neighbours(self):
        _, ladder = run("guide", (0.5, 0.3, 0.2), "temperature=1 > top_k=0")
        flip = flip_distance(ladder, draw(ladder.final, 0.6))
        assert (flip.low, flip.high) == pytest.approx((0.5, 0.8), rel=1e-6)
        assert (flip.below.token_id, flip.above.token_id) == (0, 2)
        assert (flip.below.distance, flip.above.distance) == pytest.approx((0.1, 0.2), rel=1e-5)
        assert flip.nearest is flip.below

    def test_the_ends_have_one_neighbour(self):
        _, ladder = run("guide", (0.5, 0.3, 0.2), "temperature=1 > top_k=0")
        assert flip_distance(ladder, draw(ladder.final, 0.1)).below is None
        assert flip_distance(ladder, draw(ladder.final, 0.9)).above is None

    def test_a_token_without_dice_has_none(self):
        chain, ladder = run("guide", (0.5, 0.3, 0.2), temperature=0)
        assert flip_distance(ladder, chain.choose(ladder, EMPTY)) is None

    def test_nothing_near_a_lone_survivor(self):
        chain, ladder = run("guide", (0.5, 0.3, 0.2), top_k=1)
        assert flip_distance(ladder, chain.choose(ladder, EMPTY)).nearest is None

    @given(st.integers(0, 500), st.integers(1, 400))
    @settings(max_examples=60, deadline=None)
    def test_borders_are_where_the_draw_really_changes(self, seed, size):
        logits = np.random.default_rng(seed).normal(size=size).astype(np.float32)
        final = Candidates.from_logits(logits)
        drawn = draw(final, uniform(seed, 3))
        assert stretch(final, drawn.token_id) == (drawn.low, drawn.high)
        assert draw(final, drawn.low).token_id == drawn.token_id
        # The last token's stretch ends at 1, though the sum may fall a hair short of it.
        last = int(final.ids[final.order(size)[-1]])
        if drawn.token_id != last:
            assert draw(final, drawn.high).token_id != drawn.token_id
        if drawn.low > 0:
            assert draw(final, math.nextafter(drawn.low, 0)).token_id != drawn.token_id

    def test_no_stretch_for_a_token_that_is_gone(self):
        assert stretch(Candidates.from_logits(np.array([0.0, -np.inf])), 1) == (0.0, 0.0)


class TestDialFlips:
    @pytest.mark.parametrize("seed", range(6))
    def test_each_one_changes_the_token_and_a_step_less_does_not(self, seed):
        context = StageContext((1, 2), (3,), seed=seed)
        chain = effective("guide", {"min_p": 0.05, "repetition_penalty": 1.1}).chain
        logits = np.random.default_rng(seed).normal(scale=2, size=300).astype(np.float32)
        ladder = chain.run(logits, context)
        drawn = chain.choose(ladder, context)

        def token(flip, value):
            changed = with_dial(chain, flip.change.stage, flip.change.dial, value)
            return changed.choose(changed.run(logits, context), context).token_id

        flips = dial_flips(chain, ladder, context, drawn)
        assert flips
        assert [flip.effort for flip in flips] == sorted(flip.effort for flip in flips)
        for flip in flips:
            change = flip.change
            assert token(flip, change.new) == flip.token_id != drawn.token_id
            assert token(flip, change.short) != drawn.token_id
            back = (
                change.new + (1 if change.new < change.old else -1)
                if isinstance(change.new, int)
                else math.nextafter(change.new, change.old)
            )
            assert token(flip, back) == drawn.token_id

    def test_finds_the_nearest_for_a_dial_that_can_be_searched_in_full(self):
        for seed in range(20):
            context = StageContext(seed=seed)
            chain = effective("guide", {}, spec="top_k=12 > temperature=1").chain
            logits = np.random.default_rng(seed).normal(size=60).astype(np.float32)
            ladder = chain.run(logits, context)
            drawn = chain.choose(ladder, context)
            tokens = {
                k: with_dial(chain, 0, "top_k", k)
                .choose(with_dial(chain, 0, "top_k", k).run(logits, context), context)
                .token_id
                for k in range(1, 61)
            }
            different = [k for k, token in tokens.items() if token != drawn.token_id]
            found = [
                f for f in dial_flips(chain, ladder, context, drawn) if f.change.dial == "top_k"
            ]
            if not different:
                assert found == []
            else:
                nearest = min(abs(k - 12) for k in different)
                assert abs(found[0].change.new - 12) == nearest

    def test_a_forced_token_has_none(self):
        chain, ladder = run("guide", (0.5, 0.3, 0.2), top_k=0, top_p=1)
        other = draw(ladder.final, 0.999)
        drawn = chain.choose(ladder, EMPTY)
        assert drawn.token_id != other.token_id
        assert dial_flips(chain, ladder, EMPTY, other) == ()


class TestShape:
    def test_figures(self):
        found = shape_of(Candidates.from_logits(np.log([0.5, 0.25, 0.125, 0.125])))
        assert found.survivors == 4
        assert found.effective == pytest.approx(2**1.75, rel=1e-6)
        assert (found.top, found.margin) == pytest.approx((0.5, 0.25), rel=1e-6)
        assert found.logit_margin == pytest.approx(math.log(2), rel=1e-6)
        assert found.tail_mass == 0.0
        assert found.mark is Mark.NONE

    def test_tail_is_what_lies_behind_ten(self):
        assert shape_of(Candidates.from_logits(np.zeros(40))).tail_mass == pytest.approx(0.75)

    def test_marks(self):
        assert shape_of(Candidates.from_logits(np.zeros(21))).mark is Mark.OPEN
        assert shape_of(Candidates.from_logits(np.zeros(19))).mark is Mark.NONE
        assert shape_of(Candidates.from_logits(np.log([0.951, 0.049]))).mark is Mark.NEAR_FORCED
        assert shape_of(Candidates.from_logits(np.log([0.949, 0.051]))).mark is Mark.NONE

    def test_a_lone_survivor_has_no_margin(self):
        found = shape_of(Candidates.from_logits(np.array([1.0])))
        assert (found.margin, found.logit_margin, found.effective) == (None, None, 1.0)

    def test_census(self):
        _, ladder = run("guide", (0.4, 0.3, 0.2, 0.1), "temperature=0.5 > top_k=3 > top_p=0.5")
        rows = census(ladder)
        assert [row.label for row in rows] == ["model", "temperature=0.5", "top_k=3", "top_p=0.5"]
        assert [row.survivors for row in rows] == [4, 4, 3, 1]
        assert [row.mass for row in rows] == pytest.approx([1, 1, 0.9, 0.4], rel=1e-6)


class TestLoops:
    def test_a_cycle_its_length_and_where_it_began(self):
        ids = [9, 8, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1]
        assert find_loop(ids) == Loop(3, 2, 4)

    def test_the_shortest_cycle_is_meant(self):
        assert find_loop([5, *[7] * 12]) == Loop(1, 1, 12)
        assert find_loop([1, 2] * 8) == Loop(2, 0, 8)

    @pytest.mark.parametrize(
        "ids",
        [[], [1], [1, 2, 3], [7] * 11, [1, 2, 3, 4, 5, 6] * 2, [*([1, 2] * 8), 3],
         list(range(500))],
    )  # fmt: skip
    def test_none(self, ids):
        assert find_loop(ids) is None

    def test_thresholds_can_be_set(self):
        assert find_loop([1, 2, 1, 2], min_repeats=2, min_tokens=4) == Loop(2, 0, 2)

    def test_only_the_window_counts(self):
        assert find_loop([*([1, 2, 3] * 1000)], window=30) == Loop(3, 2970, 10)

    @given(
        st.lists(st.integers(0, 2), max_size=30), st.lists(st.integers(0, 2), min_size=1, max_size=6),
        st.integers(1, 8),
    )  # fmt: skip
    @settings(max_examples=300, deadline=None)
    def test_equals_trying_every_period(self, lead, cycle, times):
        ids = lead + cycle * times
        expected = None
        for period in range(1, len(ids) // 3 + 1):
            span = period
            while span < len(ids) and ids[-1 - span] == ids[-1 - span + period]:
                span += 1
            if span >= 3 * period and span >= 12:
                expected = Loop(period, len(ids) - span, span // period)
                break
        assert find_loop(ids) == expected

    def test_is_cheap_enough_for_every_step(self):
        ids = np.random.default_rng(0).integers(0, 3, 4000).tolist()
        start = time.thread_time()
        for _ in range(20):
            find_loop(ids)
        assert (time.thread_time() - start) / 20 < 0.05


class TestRepeats:
    def test_counts_add_up_and_follow_the_distribution(self):
        final = Candidates.from_logits(np.log([0.1, 0.6, 0.3]))
        found = repeat_draw(final, 10_000, seed=1, position=4)
        assert found.ids.tolist() == [1, 2, 0]
        assert found.counts.sum() == found.draws == 10_000
        assert found.expected == pytest.approx([6000, 3000, 1000], rel=1e-6)
        assert (found.cells, found.degrees) == (3, 2)
        assert found.p_value > 0.001

    def test_equals_single_draws_with_the_same_numbers(self):
        final = Candidates.from_logits(np.random.default_rng(0).normal(size=700))
        found = repeat_draw(final, 200, seed=9, position=2)
        tokens = [draw(final, u).token_id for u in uniforms(9, 2, 200, Purpose.REPEAT)]
        assert dict(zip(found.ids.tolist(), found.counts.tolist(), strict=True)) == {
            token: tokens.count(token) for token in set(tokens)
        }

    def test_is_no_part_of_the_run_s_own_dice(self):
        assert uniforms(3, 5, 1, Purpose.REPEAT)[0] != uniform(3, 5)
        assert uniforms(3, 5, 4, Purpose.TOKEN)[0] == uniform(3, 5)

    def test_p_values_of_a_fair_draw_are_uniform(self):
        final = Candidates.from_logits(np.random.default_rng(1).normal(size=30))
        values = [repeat_draw(final, 500, seed=0, position=i).p_value for i in range(300)]
        assert np.mean(np.array(values) < 0.1) == pytest.approx(0.1, abs=0.06)
        assert np.mean(values) == pytest.approx(0.5, abs=0.06)

    def test_a_lone_survivor_cannot_be_tested(self):
        found = repeat_draw(Candidates.from_logits(np.array([1.0])), 100, 0, 0)
        assert (found.counts.tolist(), found.p_value, found.degrees) == ([100], None, None)

    def test_unlikely_tokens_are_pooled(self):
        found = repeat_draw(Candidates.from_logits(np.zeros(1000)), 100, 0, 0)
        assert (found.cells, found.p_value) == (1, None)

    def test_no_draws_is_refused(self):
        with pytest.raises(ValueError, match="1 or more"):
            repeat_draw(Candidates.from_logits(np.zeros(2)), 0, 0, 0)

    def test_the_chi_square_tail_equals_scipy_s(self):
        stats = pytest.importorskip("scipy.stats")
        for degrees in (1, 2, 3, 7, 30, 200, 2000):
            for ratio in (0.0, 0.01, 0.3, 0.9, 1.0, 1.1, 1.5, 3.0, 8.0):
                expected = stats.chi2.sf(degrees * ratio, degrees)
                assert chi_square_tail(degrees * ratio, degrees) == pytest.approx(
                    expected, rel=1e-7, abs=1e-12
                )


class TestStacks:
    def test_lists_the_tokens_they_part_on_and_why(self):
        logits = np.log([0.4, 0.3, 0.2, 0.1])
        found = compare_stacks(
            logits, {"temperature": 1.0, "top_k": 2, "top_p": 0.5}, EMPTY,
            presets=("hf", "sglang", "llamacpp"),
        )  # fmt: skip
        assert [column.kept_ids.tolist() for column in found.columns] == [[0], [0, 1], [0]]
        (row,) = found.disagreements
        assert (row.token_id, row.kept) == (1, (False, True, False))
        assert row.raw_prob == pytest.approx(0.3, rel=1e-6)
        assert row.final_probs == pytest.approx((0, 3 / 7, 0), rel=1e-6)
        assert row.reasons[0] == "cut by top_p=0.5: mass of the more likely 0.571 >= 0.5"
        assert row.reasons[1] == ""
        assert found.disagreeing == 1

    def test_each_stack_has_its_own_defaults_and_says_what_it_lacks(self):
        logits = np.random.default_rng(0).normal(size=500)
        found = compare_stacks(logits, {"xtc_probability": 0.0, "temperature": 0.9}, EMPTY)
        by_name = {column.preset: column for column in found.columns}
        assert len(by_name["hf"].kept_ids) == 50
        assert len(by_name["vllm"].kept_ids) == 500
        assert by_name["hf"].ignored == ("xtc_probability",)
        assert by_name["llamacpp"].ignored == ()
        assert found.disagreeing > len(found.disagreements) == 64

    def test_the_likeliest_come_first_and_of_equal_ones_the_lowest_ids(self):
        logits = np.zeros(500)
        logits[100:150] = 5  # what hf keeps of them: 50 by default
        logits[[300, 200]] = 1
        found = compare_stacks(logits, {"temperature": 1.0}, EMPTY, presets=("hf", "vllm"), limit=4)
        assert [row.token_id for row in found.disagreements] == [200, 300, 0, 1]
        assert found.disagreeing == 450

    def test_why_a_token_was_cut_is_worked_out_for_those_that_are_looked_at(self, monkeypatch):
        asked = []

        def counted(*args, **options):
            asked.append(args[3])
            return explain(*args, **options)

        monkeypatch.setattr("engine.sampling.stacks.explain", counted)
        logits = np.random.default_rng(0).normal(size=500)
        found = compare_stacks(logits, {"temperature": 0.9}, EMPTY, presets=("hf", "vllm"))
        assert asked == []
        row = found.disagreements[5]
        assert asked == [row.token_id]
        assert found.disagreements[5] is row
        assert [one.token_id for one in found.disagreements[4:6]][1] == row.token_id
        assert len(asked) == 2

    def test_a_stack_that_refuses_is_an_error_column(self):
        found = compare_stacks(np.zeros(2), {"suppress": "0, 1"}, EMPTY, presets=("hf", "llamacpp"))
        assert found.columns[0].error == 'stage suppress="0, 1": no token is left'
        assert found.columns[0].kept_ids.size == 0
        assert found.columns[1].ignored == ("suppress",)
        assert found.disagreements == ()
