"""Draws with drafts against draws without: what is drawn, what the tests say, and when they fail.

The target is over five tokens, and so is the draft, whose distribution is another one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from engine.backends.base import Backend
from engine.drafts.model import DraftModel
from engine.measure.lossless import chi_square_tail, compare, measure_lossless
from engine.records.measured import LEAST_P, Lossless
from engine.records.round import Accept
from engine.run.checks import StepperError
from engine.run.draft import DraftSource
from engine.run.stepper import Stepper
from tests.speculating import Listed, by_last, stepper

P = [[0.4, 0.3, 0.2, 0.1, 0.0], [0.1, 0.2, 0.3, 0.2, 0.2], [0.2] * 5, [0, 0, 0.5, 0.5, 0]]
P += [[0.1, 0.1, 0.1, 0.2, 0.5]]
Q = [[0.1, 0.2, 0.3, 0.2, 0.2], [0.2] * 5, [0.5, 0.5, 0, 0, 0], [0.4, 0.3, 0.2, 0.1, 0.0]]
Q += [[0.2] * 5]
DRAWS = 400


def drafting(target: Backend) -> DraftSource:
    return DraftModel("q", by_last(Q), target)


def run(accept: Accept = Accept.EXACT, **more: Any) -> Stepper:
    dials = {"temperature": 1.0}
    return stepper(by_last(P), drafting, accept=accept, tokens=2, dials=dials, prompt="a", **more)


def measured(accept: Accept) -> Lossless:
    return measure_lossless(run(accept), DRAWS)


@pytest.mark.parametrize("accept", [Accept.EXACT, Accept.MATCH])
def test_drafts_do_not_change_what_is_drawn(accept: Accept) -> None:
    found = measured(accept)
    assert found.passed
    assert (found.draws, found.draft.accept) == (DRAWS, accept)
    assert 0 < found.accepted < found.drafted
    for one in found.tests:
        assert one.p_value is not None
        assert one.p_value > LEAST_P
        # What is seen is what chance gives: within five of its standard deviations.
        assert abs(one.variation - one.by_chance) < 5 * one.error


def test_typical_acceptance_fails() -> None:
    found = measured(Accept.TYPICAL)
    assert not found.passed
    (first, both) = found.tests
    assert min(first.p_value or 0.0, both.p_value or 0.0) < LEAST_P
    assert max(one.variation - one.by_chance - 5 * one.error for one in found.tests) > 0


def test_the_same_draws_give_the_same_report() -> None:
    assert measured(Accept.EXACT) == measured(Accept.EXACT)


def test_the_prompt_is_read_once_and_each_known_text_too() -> None:
    made = run()
    measure_lossless(made, 50)
    read = [step for step in made.nodes.values() if not step.round and not step.timing.reused]
    # The prompt's token, the one behind it, and one behind each of at most five plain ones.
    assert len(read) <= 1 + 1 + 5


def test_where_the_run_ends_there_is_no_second_token() -> None:
    stopping = by_last(P, facts={"stop_ids": {4: "a test"}})
    run = stepper(stopping, drafting, tokens=2, dials={"temperature": 1.0}, prompt="a")
    assert measure_lossless(run, DRAWS).passed
    assert not any(run.children[node] for node in run.tree.stops)


def test_without_drafts_there_is_nothing_to_compare() -> None:
    with pytest.raises(StepperError, match="without --draft"):
        measure_lossless(stepper(by_last(P)), 10)
    silent = stepper(by_last(P), lambda _: Listed(), dials={"temperature": 1.0}, prompt="a")
    with pytest.raises(StepperError, match="listed drafted nothing here"):
        measure_lossless(silent, 10)


def test_draws_that_are_all_alike_tell_nothing() -> None:
    found = compare("x", [7] * 20, [7] * 20)
    assert (found.cells, found.p_value, found.variation) == (1, None, 0.0)


def test_the_figures_by_hand() -> None:
    """30 heads of 40 and 10 of 40: each of two cells adds 20^2 / 40, and half of it is moved."""
    found = compare("x", [0] * 30 + [1] * 10, [0] * 10 + [1] * 30)
    assert (found.cells, found.statistic, found.variation) == (2, 20.0, 0.5)
    assert found.p_value == pytest.approx(stats.chi2.sf(20.0, 1))
    # Of 40 heads dealt to 40 of 80 places, h come to the first sample: |2h - 40| / 40 is moved.
    heads = np.arange(41)
    moved, share = np.abs(heads - 20) / 20, stats.hypergeom.pmf(heads, 80, 40, 40)
    mean = float((share * moved).sum())
    assert found.by_chance == pytest.approx(mean, rel=0.05)
    assert found.error == pytest.approx(float((share * moved**2).sum() - mean**2) ** 0.5, rel=0.05)


def test_rare_outcomes_are_one_cell() -> None:
    # 9 draws of both are too few to expect 5 of each; together with the next they are enough.
    ours, theirs = [0] * 50 + [1] * 4 + [2] * 6, [0] * 50 + [1] * 5 + [3] * 5
    assert compare("x", ours, theirs).cells == 2


@pytest.mark.parametrize("freedom", [1, 2, 3, 8, 51])
@pytest.mark.parametrize("statistic", [0.0, 0.3, 4.0, 30.0, 200.0])
def test_the_tail_of_the_chi_square(statistic: float, freedom: int) -> None:
    expected = stats.chi2.sf(statistic, freedom)
    assert chi_square_tail(statistic, freedom) == pytest.approx(expected, rel=1e-9, abs=1e-300)
