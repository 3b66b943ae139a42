"""Two greedy runs that part: by rounding, or by a fault."""

from __future__ import annotations

import pytest

from engine.drafts.ngram import PromptLookup
from engine.measure.near_tie import Parting, first_parting
from tests.speculating import fixed, stepper, tiny

pytestmark = pytest.mark.usefixtures("one_thread")


def test_runs_of_the_same_ids_do_not_part() -> None:
    runs = [
        stepper(tiny("llama"), source, max_tokens=12)
        for source in (None, lambda _: PromptLookup(3))
    ]
    for run in runs:
        list(run.run())
    assert runs[1].rounds
    assert first_parting(*runs) is None
    # One that ends sooner is the other's beginning.
    short = stepper(tiny("llama"), max_tokens=3)
    list(short.run())
    assert first_parting(short, runs[0]) is None


def test_another_token_is_no_near_tie_where_the_margin_is_larger_than_the_drift() -> None:
    plain, ours = (stepper(tiny("llama"), max_tokens=6) for _ in range(2))
    list(plain.run())
    first = plain.path()[0]
    ours.step()
    other = next(one for one in plain.path()[1].top.ids.tolist() if one != plain.path()[1].token.id)
    ours.step(force=other)
    found = first_parting(plain, ours)
    assert found is not None
    assert (found.position, found.other.id) == (first.position + 1, other)
    logits = plain.dense(plain.path()[1].node)
    assert found.margin == pytest.approx(float(logits[found.token.id] - logits[other]))
    assert found.drift is not None
    assert found.drift < found.margin
    assert not found.near_tie
    assert "NO near-tie" in found.words


def test_two_logits_may_both_drift() -> None:
    token = fixed([0.5, 0.5]).token(0)
    for margin, drift, tie in ((0.02, 0.01, True), (0.021, 0.01, False), (0.0, None, False)):
        found = Parting(7, token, token, margin, drift)
        assert found.near_tie is tie
        assert "position 7" in found.words
