"""Why two columns part: every figure of these small distributions is a sum on paper."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from engine.records.partial import Interval
from engine.records.step import Draw, DrawnOn, How, StepRecord
from sessions.compare.diff import Change
from sessions.compare.tables import total_variation
from sessions.compare.why_part import MODEL, why_part
from tests.sessions.test_diff import logs, run

FALLING = logs(8 / 15, 4 / 15, 2 / 15, 1 / 15)


def first(spec: str, vector: list[float] | None = None, u: float | None = None) -> StepRecord:
    """The first step of a run with these settings; ``u``: as if it was drawn with that number."""
    step = run([vector or FALLING], spec=spec, steps=1).steps[0]
    return step if u is None else drawn(step, u)


def drawn(step: StepRecord, u: float) -> StepRecord:
    """The step as ``u`` would have had it."""
    ends = np.cumsum(step.top.probs[-1])
    at = int(np.searchsorted(ends, u, side="right"))
    token = step.top.tokens[at]
    low = float(ends[at] - step.top.probs[-1][at])
    return replace(step, token=token, draw=Draw(token.id, How.SAMPLED, u, low, float(ends[at])))


def test_two_cuts_of_one_distribution() -> None:
    """8 4 2 1 fifteenths, cut to 2/3 1/3 and to 4/7 2/7 1/7.

    KL = 2/3 ln(7/6) + 1/3 ln(7/6); half of 2/21 + 1/21 + 3/21 is 1/7.
    """
    found = why_part(first("temperature=1 top_k=2 top_p=1"), first("temperature=1 top_k=3 top_p=1"))
    assert found.settings == (Change("top_k", 2, 3),)
    assert found.stage is not None
    assert (found.stage.stage, found.stage.a, found.stage.b) == ("top_k", 2, 3)
    assert found.stage.only_a == ()
    assert [one.bytes for one in found.stage.only_b] == [b"c"]
    assert found.kl.exact
    assert found.kl.low == pytest.approx(math.log(7 / 6), rel=1e-6)
    assert not isinstance(found.total_variation, Interval)
    assert found.total_variation == pytest.approx(1 / 7, rel=1e-6)


def test_the_other_way_round_a_token_is_impossible() -> None:
    found = why_part(first("temperature=1 top_k=3 top_p=1"), first("temperature=1 top_k=2 top_p=1"))
    assert found.kl.low == math.inf
    assert found.total_variation == pytest.approx(1 / 7, rel=1e-6)
    assert found.stage is not None
    assert [one.bytes for one in found.stage.only_a] == [b"c"]


def test_a_temperature_parts_no_set() -> None:
    """At temperature 1/2 the shares are squared: 64 16 4 1, of 85."""
    found = why_part(
        first("temperature=1 top_k=0 top_p=1"), first("temperature=0.5 top_k=0 top_p=1")
    )
    assert found.settings == (Change("temperature", 1.0, 0.5),)
    assert found.stage is None
    ratios = [(8, 64), (4, 16), (2, 4), (1, 1)]
    expected = sum(p / 15 * math.log((p / 15) / (q / 85)) for p, q in ratios)
    assert found.kl.low == pytest.approx(expected, rel=1e-5)
    assert found.total_variation == pytest.approx(64 / 85 - 8 / 15, rel=1e-5)


def test_the_first_stage_is_named_not_the_last_one() -> None:
    """Both keep two of the four in the end; after top_k one has three, 4/7 2/7 1/7."""
    found = why_part(first("top_k=2 > top_p=1"), first("top_k=3 > top_p=0.8"))
    assert found.stage is not None
    assert (found.stage.stage, found.stage.a, found.stage.b) == ("top_k", 2, 3)
    assert found.total_variation == pytest.approx(0.0, abs=1e-9)


def test_a_stage_that_only_one_chain_has() -> None:
    found = why_part(first("temperature=1 > top_k=3"), first("temperature=1 >"))
    assert found.stage is not None
    assert (found.stage.stage, found.stage.a, found.stage.b) == ("top_k", 3, 4)
    assert [one.bytes for one in found.stage.only_b] == [b"d"]
    # One that cuts nothing parts nothing.
    assert why_part(first("temperature=1 > top_k=0"), first("temperature=1 >")).stage is None


def test_models_that_rule_out_other_tokens_part_before_any_stage() -> None:
    none = [*logs(4 / 7, 2 / 7, 1 / 7), -math.inf]
    found = why_part(first("temperature=1 >", none), first("temperature=1 >"))
    assert found.stage is not None
    assert found.stage.stage == MODEL
    assert [one.bytes for one in found.stage.only_b] == [b"d"]


def test_the_same_dice_on_two_distributions() -> None:
    """0.6 lies in the first 2/3 of one, and behind the first 4/7 of the other."""
    a, b = (
        first("temperature=1 top_k=2 top_p=1", u=0.6),
        first("temperature=1 top_k=3 top_p=1", u=0.6),
    )
    found = why_part(a, b)
    assert (found.a.bytes, found.b.bytes) == (b"a", b"b")
    assert found.parts
    assert found.same_dice
    assert found.same_with_dice_of_a is False
    assert found.same_with_dice_of_b is False


def test_other_dice_on_one_distribution() -> None:
    """0.1 draws the first, 0.6 the second; with either's dice both draw the same."""
    a, b = (first("temperature=1 top_k=2 top_p=1", u=u) for u in (0.1, 0.7))
    found = why_part(a, b)
    assert (found.a.bytes, found.b.bytes) == (b"a", b"b")
    assert not found.same_dice
    assert found.same_with_dice_of_a is True
    assert found.same_with_dice_of_b is True
    assert found.total_variation == 0.0


def test_dice_that_would_and_dice_that_would_not() -> None:
    """With 0.6 they part, with 0.1 both take the first."""
    found = why_part(
        first("temperature=1 top_k=2 top_p=1", u=0.1), first("temperature=1 top_k=3 top_p=1", u=0.6)
    )
    assert found.same_with_dice_of_a is True
    assert found.same_with_dice_of_b is False
    assert found.a_with_b.token is not None
    assert found.a_with_b.token.bytes == b"a"


def test_greedy_and_forced_tokens_need_no_dice() -> None:
    greedy, sampled = first("temperature=0"), first("temperature=1 top_k=3 top_p=1", u=0.9)
    found = why_part(greedy, sampled)
    assert found.a_with_b.token is not None
    assert (found.a_with_b.token.bytes, found.a_with_b.why) == (b"a", "greedy, whatever the dice")
    assert found.b_with_a.token is None
    assert "threw no dice" in found.b_with_a.why
    assert found.same_with_dice_of_a is None
    assert found.same_with_dice_of_b is False
    forced = replace(sampled, draw=Draw(3, How.FORCED, None, 0.0, 0.0))
    assert why_part(forced, sampled).a_with_b.why == "forced, whatever the dice"


def test_a_speculative_verdict_is_no_draw() -> None:
    one = first("temperature=1 top_k=2 top_p=1", u=0.6)
    verdict = replace(one, draw=replace(one.draw, on=DrawnOn.VERDICT))
    found = why_part(verdict, one)
    assert found.u_a is None
    assert found.a_with_b.token is None
    assert "speculative" in found.a_with_b.why


def test_where_only_bounds_are_known_the_figures_are_intervals() -> None:
    a, b = (
        first("temperature=1 top_k=2 top_p=1", u=0.1),
        first("temperature=1 top_k=3 top_p=1", u=0.6),
    )
    slack = np.zeros_like(b.top.probs)
    slack[-1] = 0.01
    found = why_part(a, replace(b, top=replace(b.top, slack=slack)))
    assert isinstance(found.total_variation, Interval)
    assert found.total_variation.low <= 1 / 7 <= found.total_variation.high
    assert found.total_variation.high - found.total_variation.low <= 0.1
    assert (found.kl.low, found.kl.high) == (0.0, None)
    assert "only bounds" in found.kl.why
    assert found.b_with_a.token is None
    assert "only bounds" in found.b_with_a.why


def test_what_a_record_lacks_makes_an_interval_that_holds_the_truth() -> None:
    tokens = [chr(0x4E00 + n) for n in range(300)]
    for seed in range(20):
        vectors = np.random.default_rng(seed).normal(0.0, 2.0, (2, 300))
        a, b = (
            run([one.tolist()], tokens, steps=1, prompt=tokens[0], spec="temperature=1 >").steps[0]
            for one in vectors
        )
        p, q = (np.exp(one) / np.exp(one).sum() for one in vectors)
        truth = float(np.abs(p - q).sum()) / 2
        found = total_variation(a.top, b.top, -1)
        assert isinstance(found, Interval)
        assert found.low - 1e-6 <= truth <= found.high + 1e-6


def test_dice_that_fall_behind_what_is_recorded() -> None:
    tokens = [chr(0x4E00 + n) for n in range(300)]
    even = run([[0.0] * 300], tokens, steps=1, prompt=tokens[0], spec="temperature=1 >").steps[0]
    kept = even.top.ids.size / 300
    one = replace(even, token=even.top.tokens[0], draw=Draw(0, How.SAMPLED, 0.001, 0.0, 1 / 300))
    behind = replace(one, draw=replace(one.draw, u=kept + 0.01))
    ahead = replace(one, draw=replace(one.draw, u=1.5 / 300))
    assert why_part(one, behind).a_with_b.token is None
    assert "does not hold" in why_part(one, behind).a_with_b.why
    second = why_part(one, ahead).a_with_b.token
    assert second is not None
    assert second.id == 1


def test_the_same_step_parts_nowhere() -> None:
    one = first("temperature=1 top_k=2 top_p=1")
    found = why_part(one, one)
    assert (found.settings, found.stage, found.total_variation) == ((), None, 0.0)
    assert found.kl.low == found.kl.high == 0.0
    assert not found.parts


def test_another_favourite_of_the_model() -> None:
    """8 4 against 4 8 fifteenths: half of 4/15 + 4/15."""
    others = logs(4 / 15, 8 / 15, 2 / 15, 1 / 15)
    found = why_part(first("temperature=1 >"), first("temperature=1 >", others))
    assert found.total_variation == pytest.approx(4 / 15, rel=1e-6)
