"""Draws with drafts against draws without: what is drawn, what the tests say, and when they fail.

The target is over five tokens, and so is the draft, whose distribution is another one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from engine.backends.base import Backend, RowLogits
from engine.drafts.model import DraftModel
from engine.drafts.ngram import PromptLookup
from engine.measure.continuations import Continuations
from engine.measure.lossless import chi_square_tail, compare, measure_lossless
from engine.records.measured import LEAST_P, Lossless
from engine.records.round import Accept
from engine.records.step import Came
from engine.run.checks import StepperError
from engine.run.draft import DraftSource
from engine.run.stepper import Stepper
from tests.speculating import Listed, Source, by_last, stepper

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


class Counting:
    """A target that counts the positions it reads."""

    def __init__(self, target: Backend) -> None:
        self.read = 0
        self._forward = target.forward
        target.forward = self.forward  # type: ignore[method-assign]

    def forward(self, rows: Any, **more: Any) -> Any:
        self.read += sum(len(ids) for _, ids in rows)
        return self._forward(rows, **more)


def test_a_text_is_read_once_however_often_it_is_drawn() -> None:
    made = run()
    counted = Counting(made.backend)
    measure_lossless(made, 50)
    once = counted.read
    measure_lossless(made, 400)
    # Prompt and first token; without drafts 1 + 5 texts; with, two drafts behind each of 1 + 5.
    assert once <= 2 + 6 + 6 * 3
    assert counted.read - once <= 1 + 6 + 6 * 3


@pytest.mark.parametrize("accept", Accept)
@pytest.mark.parametrize(
    "source", [drafting, lambda _: PromptLookup(1), lambda _: Listed()], ids=["q", "ngram", "none"]
)
def test_each_continuation_is_the_one_that_a_run_with_its_seed_gives(
    accept: Accept, source: Source
) -> None:
    made = stepper(
        by_last(P), source, accept=accept, tokens=2, dials={"temperature": 1.0}, prompt="abcab"
    )
    assert made.speculation is not None
    start = made.extend(0).node
    drawn = Continuations(made, made.speculation, start)
    seen = set()
    for seed in range(60):
        steps, node = [], start
        while len(steps) < 2:
            steps += made.grow(node, seed=seed)
            node = steps[-1].node
        assert drawn.drafted(seed) == tuple(step.token.id for step in steps[:2])
        first = made.extend(start, seed=seed)
        second = made.extend(first.node, seed=seed)
        assert drawn.plain(seed) == (first.token.id, second.token.id)
        seen |= {step.came for step in steps[:2]}
    assert (Came.ACCEPTED in seen) is (drawn.drafts.rounds > 0)


class Rounding:
    """A target whose passes over several positions give a p that is a little off."""

    def __init__(self, target: Backend, shift: float) -> None:
        self._forward, self._shift = target.forward, shift
        target.forward = self.forward  # type: ignore[method-assign]

    def forward(self, rows: Any, *, all_positions: bool = False) -> Any:
        found = self._forward(rows, all_positions=all_positions)
        if not all_positions:
            return found
        own = tuple(RowLogits(row.values + self._shift * np.arange(5)) for row in found.rows)
        return replace(found, rows=own)


def test_rounding_is_told_apart_from_the_rule_and_is_exact() -> None:
    """Both tokens' p are tilted by exp(0.01 i): the test passes, and says by how much."""
    made = stepper(
        by_last(np.full((5, 5), 0.2).tolist()),
        lambda _: Listed(*[[1, 2]] * 2000),
        tokens=2,
        dials={"temperature": 1.0},
        prompt="a",
    )
    Rounding(made.backend, 0.01)
    found = measure_lossless(made, DRAWS)
    tilted = np.exp(0.01 * np.arange(5))
    tilted /= tilted.sum()
    expected = np.abs(tilted - 0.2).sum() / 2
    # Second tokens were read in a round behind the drafted first one alone.
    assert expected * 0.99 < found.rounding < 2 * expected
    assert found.passed
    assert measured(Accept.EXACT).rounding == 0.0


def test_behind_a_stop_token_nothing_is_drawn() -> None:
    stopping = by_last(P, facts={"stop_ids": {4: "a test"}})
    made = stepper(stopping, drafting, tokens=2, dials={"temperature": 1.0}, prompt="a")
    assert made.speculation is not None
    drawn = Continuations(made, made.speculation, made.extend(0, force=1).node)
    ended = [draw(seed) for seed in range(100) for draw in (drawn.plain, drawn.drafted)]
    assert {len(text) for text in ended} == {1, 2}
    assert all((text[-1] == 4) >= (len(text) == 1) for text in ended)
    assert measure_lossless(made, DRAWS).passed


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
