"""What another chain makes of a token of a speculative round: the round's draft and its numbers."""

from __future__ import annotations

import pytest

from engine.records.round import Accept
from engine.records.step import Came, DrawnOn
from engine.sampling.draw import Purpose, uniform
from inspector.state.rerun import Run, what_if
from inspector.state.view import RunLog, View
from inspector.state.whatif import chain_of
from tests.speculating import Listed, fixed, log_of, stepper

P = (0.4, 0.3, 0.15, 0.1, 0.05)
Q = (0.1, 0.2, 0.3, 0.2, 0.2)
DRAFTS = [[0], [1, 2], [0], [4, 0], [0, 0], [0], [3], [0], [1], [0]]
SAME = "temperature=1 > top_k=5"
"""Not the chain of the record, and it changes nothing: five of five tokens stay."""


def log(accept: Accept = Accept.EXACT, q: tuple[float, ...] | None = None, seed: int = 3) -> RunLog:
    run = stepper(
        fixed(P),
        lambda _: Listed(*DRAFTS, q=q),
        accept=accept,
        dials={"temperature": 1.0},
        spec="temperature=1 > top_p=1",
        prompt="ab",
        seed=seed,
        max_tokens=14,
    )
    return log_of(run)


def tried(found: RunLog, node: int, spec: str) -> Run | str | None:
    return what_if(View(found, node, chain_of(spec, "guide")))


@pytest.mark.parametrize("accept", Accept)
@pytest.mark.parametrize("seed", range(8))
def test_a_chain_that_changes_nothing_draws_what_was_drawn(accept: Accept, seed: int) -> None:
    """Accepted, corrected and bonus alike, with the record's own number and stretch."""
    found = log(accept, seed=seed)
    came = set()
    for node, step in found.nodes.items():
        again = tried(found, node, SAME)
        assert isinstance(again, Run)
        assert again.draw.token_id == step.token.id
        assert (again.draw.u, again.draw.on) == (step.draw.u, step.draw.on)
        assert again.draw.low == pytest.approx(step.draw.low, abs=1e-6)
        assert again.draw.high == pytest.approx(step.draw.high, abs=1e-6)
        came.add(step.came)
    assert came - {Came.PLAIN}


def test_every_way_to_a_token_is_in_these_runs() -> None:
    came = {step.came for seed in range(8) for step in log(seed=seed).nodes.values()}
    assert came == set(Came)


def test_another_p_may_reject_the_draft_by_hand() -> None:
    """At top_k=1 p is all on token 0: any other draft is rejected, and 0 is what is left."""
    found = log()
    for node, step in found.nodes.items():
        again = tried(found, node, "temperature=1 > top_k=1")
        assert isinstance(again, Run)
        assert again.draw.token_id == 0
        if step.came is Came.ACCEPTED:
            drafted = step.token.id
            on = DrawnOn.VERDICT if drafted == 0 else DrawnOn.RESIDUAL
            purpose = Purpose.ACCEPT if drafted == 0 else Purpose.RESIDUAL
            assert again.draw.on is on
            assert again.draw.u == uniform(step.seed, step.position, purpose)


def test_a_sampled_draft_that_is_accepted_all_the_same() -> None:
    """min(1, p/q) with q as it was: 0.3 of token 1 against p 0.3 / 0.85 after top_k=3."""
    found = log(q=Q)
    seen = 0
    for node, step in found.nodes.items():
        if step.came is not Came.ACCEPTED:
            continue
        again = tried(found, node, "temperature=1 > top_k=3")
        p = P[step.token.id] / 0.85 if step.token.id < 3 else 0.0
        u = uniform(step.seed, step.position, Purpose.ACCEPT)
        if u * Q[step.token.id] < p:
            assert isinstance(again, Run)
            assert again.draw.token_id == step.token.id
            assert again.draw.high == pytest.approx(min(1.0, p / Q[step.token.id]), abs=1e-6)
            seen += 1
    assert seen


def test_where_it_takes_all_of_q_it_says_so() -> None:
    found = log(q=Q)
    rejected = [node for node, step in found.nodes.items() if step.came is Came.CORRECTED]
    assert rejected
    for node in rejected:
        assert "all of q" in str(tried(found, node, SAME))


def test_greedy_takes_the_most_likely_whatever_was_drafted() -> None:
    found = log(q=Q)
    for node in found.nodes:
        again = tried(found, node, "temperature=0 >")
        assert isinstance(again, Run)
        assert again.draw.token_id == 0
        assert again.draw.u is None


def test_without_the_round_nothing_is_made_up() -> None:
    found = log()
    node = next(node for node, step in found.nodes.items() if step.round)
    found.rounds = {}
    assert "was not kept" in str(tried(found, node, SAME))
