"""The rules of speculative sampling on plain probabilities: 200,000 draws against the target."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare

from engine.records.round import Accept
from engine.sampling.verification import (
    Probs,
    accepts,
    expected,
    pick,
    residual,
    typical_limit,
)

DRAWS = 200_000

PAIRS: dict[str, tuple[list[float], list[float]]] = {
    "random": ([0.11, 0.32, 0.07, 0.41, 0.09], [0.26, 0.05, 0.33, 0.18, 0.18]),
    "equal": ([0.1, 0.2, 0.3, 0.25, 0.15], [0.1, 0.2, 0.3, 0.25, 0.15]),
    "disjoint": ([0.5, 0.5, 0.0, 0.0, 0.0], [0.0, 0.0, 0.3, 0.3, 0.4]),
    "with zeros": ([0.0, 0.6, 0.0, 0.4, 0.0], [0.2, 0.2, 0.2, 0.2, 0.2]),
    "q truncated": ([0.1, 0.2, 0.3, 0.25, 0.15], [0.0, 0.0, 0.6, 0.4, 0.0]),
    "q one-hot": ([0.1, 0.2, 0.3, 0.25, 0.15], [0.0, 0.0, 0.0, 0.0, 1.0]),
    "p one-hot": ([0.0, 1.0, 0.0, 0.0, 0.0], [0.2, 0.2, 0.2, 0.2, 0.2]),
}


def probs(values: list[float]) -> Probs:
    """Only tokens that are possible, as the stages leave them."""
    every = np.array(values)
    return Probs(np.flatnonzero(every > 0).astype(np.int32), every[every > 0])


def rounds(p: Probs, q: Probs, seed: int = 5) -> tuple[NDArray[Any], NDArray[Any]]:
    """(the token of each of many rounds of one draft, whether it was the draft that came)."""
    u = np.random.default_rng(seed).random((3, DRAWS))
    drafted = pick(q, u[0])[0]
    kept = accepts(p.at(drafted), q.at(drafted), u[1])
    return np.where(kept, drafted, pick(residual(p, q)[1], u[2])[0]), kept


def p_value(tokens: NDArray[Any], target: list[float]) -> float:
    counts = np.bincount(tokens, minlength=5)
    possible = np.array(target) > 0
    assert not counts[~possible].any()
    if possible.sum() == 1:
        return 1.0
    return float(chisquare(counts[possible], np.array(target)[possible] * DRAWS).pvalue)


@pytest.mark.parametrize("name", PAIRS)
def test_the_output_is_distributed_as_the_target(name: str) -> None:
    p, q = PAIRS[name]
    assert p_value(rounds(probs(p), probs(q))[0], p) > 1e-4


@pytest.mark.parametrize("name", PAIRS)
def test_acceptance_is_the_sum_of_the_smaller_probabilities(name: str) -> None:
    p, q = PAIRS[name]
    theory = float(np.minimum(p, q).sum())
    assert expected(Accept.EXACT, probs(p), probs(q), 0.0) == pytest.approx(theory)
    found = rounds(probs(p), probs(q))[1].mean()
    assert abs(found - theory) <= 4 * np.sqrt(theory * (1 - theory) / DRAWS) + 1e-12


def test_case_29_q_must_be_what_the_draft_was_drawn_from() -> None:
    """Case 29: sampled 0.9; one-hot q 0.5 and lossless; greedy draft with softmax q is wrong."""
    p, q = [0.5, 0.3, 0.2], [0.6, 0.3, 0.1]
    tokens, kept = rounds(probs(p), probs(q))
    assert p_value(tokens, [*p, 0, 0]) > 1e-4
    assert kept.mean() == pytest.approx(0.9, abs=0.005)
    tokens, kept = rounds(probs(p), Probs.one(0))
    assert p_value(tokens, [*p, 0, 0]) > 1e-4
    assert kept.mean() == pytest.approx(0.5, abs=0.005)
    # The draft is always a, and is held against 0.6 that it was not drawn with.
    u = np.random.default_rng(5).random((2, DRAWS))
    wrong = np.where(accepts(0.5, 0.6, u[0]), 0, pick(residual(probs(p), probs(q))[1], u[1])[0])
    shares = np.bincount(wrong, minlength=3) / DRAWS
    np.testing.assert_allclose(shares, [0.833, 0.0, 0.167], atol=0.005)


def test_case_29_where_nothing_is_left_the_target_is_drawn_from() -> None:
    """Case 29: the mass of the residual is 0, and nothing is divided by it."""
    p = probs([0.1, 0.2, 0.3, 0.25, 0.15])
    mass, left = residual(p, p)
    assert mass == 0.0
    assert left is p


def test_matching_accepts_less_often_than_the_exact_rule() -> None:
    p, q = (probs(one) for one in PAIRS["random"])
    both = float((np.array(PAIRS["random"][0]) * PAIRS["random"][1]).sum())
    assert expected(Accept.MATCH, p, q, 0.0) == pytest.approx(both)
    u = np.random.default_rng(5).random((2, DRAWS))
    own = pick(p, u[0])[0]
    assert (own == pick(q, u[1])[0]).mean() == pytest.approx(both, abs=0.005)
    assert both < expected(Accept.EXACT, p, q, 0.0)


def test_typical_acceptance_fails_where_the_exact_rule_holds() -> None:
    target, draft = PAIRS["random"]
    p, q = probs(target), probs(draft)
    entropy = -float((p.values * np.log(p.values)).sum())
    limit = typical_limit(entropy)
    assert limit == pytest.approx(0.09 * np.exp(-entropy))
    assert typical_limit(-5.0) == 0.3
    u = np.random.default_rng(5).random((2, DRAWS))
    drafted = pick(q, u[0])[0]
    tokens = np.where(p.at(drafted) > limit, drafted, pick(p, u[1])[0])
    assert p_value(tokens, target) < 1e-4


def test_a_draw_lies_in_the_stretch_of_its_token() -> None:
    p = probs([0.2, 0.0, 0.5, 0.3, 0.0])
    for u, token_id, low, high in ((0.0, 2, 0, 0.5), (0.5, 3, 0.5, 0.8), (0.99, 0, 0.8, 1.0)):
        found = pick(p, u)
        assert (int(found[0]), float(found[1]), float(found[2])) == pytest.approx(
            (token_id, low, high)
        )
    # Rounding can leave the sum below 1: the last possible token takes the rest.
    short = Probs(np.array([4, 7, 9], np.int32), np.array([0.5, 0.4999999, 0.0]))
    assert int(pick(short, 0.99999999)[0]) == 7
