"""Statistics of rounds, by their definitions."""

from __future__ import annotations

import pytest

from engine.acceptance import (
    PositionCount,
    acceptance,
    break_even,
    brief_words,
    speed_up,
    stretches,
    tokens_per_pass,
)
from tests.fakes import a_round


def test_case_30_acceptance_counts_leading_runs_and_divides_by_what_was_drafted() -> None:
    """Case 30: masks [1,0,1] and [1,1,1], k = 3: 4 of 6 accepted, 3 tokens a target pass."""
    found = acceptance([a_round(2, "ard"), a_round(4, "aaa")])
    assert (found.rounds, found.accepted, found.drafted) == (2, 4, 6)
    assert found.rate == pytest.approx(4 / 6)
    assert found.tokens_per_pass == 3.0
    assert found.positions == (PositionCount(2, 2), PositionCount(2, 1), PositionCount(1, 1))
    assert "4 of 6 drafts accepted (67% ƒ), 3.00 ƒ tokens a pass" in brief_words(found)


def test_there_is_no_rate_without_rounds() -> None:
    found = acceptance([])
    assert (found.rate, found.tokens_per_pass, found.expected) == (None, None, None)
    assert found.positions == ()


def test_a_lossy_rule_is_said() -> None:
    assert brief_words(acceptance([a_round(2, "a", accept="typical")])).endswith("LOSSY")


def test_expected_acceptances_are_the_sums_of_the_drafts_own() -> None:
    found = acceptance([a_round(2, "ar", expected=0.75), a_round(4, "rd", expected=0.5)])
    assert found.expected == pytest.approx(2.0)
    assert found.expected_error == pytest.approx((2 * 0.75 * 0.25 + 0.25) ** 0.5)


def test_mean_tokens_of_independent_acceptances() -> None:
    # k = 2, a = 1/2: 1 + 1/2 + 1/4.
    assert tokens_per_pass(0.5, 2) == pytest.approx(1.75)
    assert (tokens_per_pass(0.0, 5), tokens_per_pass(1.0, 5)) == (1.0, 6.0)


def test_break_even_is_where_a_round_costs_as_much_a_token() -> None:
    found = break_even(17.5, 10.0, 2)
    assert found == pytest.approx(0.5, abs=1e-6)
    assert break_even(40.0, 10.0, 2) is None
    assert break_even(9.0, 10.0, 2) == 0.0


def test_rounds_against_plain_steps() -> None:
    """13 ms each: 3 tokens of 8 ms would have taken 24 ms, 1 token 8 ms; both together 32 of 26."""
    paid, lost = a_round(2, "aar"), a_round(5, "rdd")
    assert speed_up([paid], 8.0) == pytest.approx(24 / 13)
    assert speed_up([lost], 8.0) == pytest.approx(8 / 13)
    assert speed_up([paid, lost], 8.0) == pytest.approx(32 / 26)
    assert speed_up([], 8.0) is None
    assert speed_up([a_round(2, "a", times=(0.0, 0.0, 0.0))], 8.0) is None


def test_stretches_hold_all_rounds_in_their_order() -> None:
    rounds = [a_round(node, "r") for node in range(2, 12)]
    for most in (1, 3, 10, 24):
        found = stretches(rounds, most)
        assert [one for group in found for one in group] == rounds
        sizes = [len(group) for group in found]
        assert len(found) == min(most, 10)
        assert max(sizes) - min(sizes) <= 1
    assert stretches([], 5) == []
