"""F20: the next token's distribution, shown before anything is drawn from it."""

from __future__ import annotations

import numpy as np
import pytest

from engine.records.partial import Interval
from engine.run.stepper import Stepper
from engine.run.tree import ROOT
from engine.run.upcoming import upcoming
from engine.sampling.chain import effective
from tests.engine.run.test_partial_steps import OPEN
from tests.engine.run.test_partial_steps import stepper as partial
from tests.engine.run.test_stepper import log, started
from tests.engine.test_scripted_clock import Clock, Ticking, clock  # noqa: F401


@pytest.mark.parametrize("at", [ROOT, 3])
def test_f20_it_is_what_the_next_step_draws_from_and_changes_nothing(at: int) -> None:
    """F20: no node, no dice, no pass more."""
    plain, looked = started(), started()
    for one in (plain, looked):
        for _ in one.prefill():
            pass
        for _ in range(at):
            one.step()
    found = upcoming(looked, at, None)
    assert found is not None
    assert list(looked.tree.parents) == list(plain.tree.parents)
    step, after = plain.step(), looked.step()
    assert (after.node, after.token, after.draw) == (step.node, step.token, step.draw)
    assert after.kv == step.kv
    assert log(looked) == log(plain)
    assert found.parent == at
    assert (found.entropy_raw, found.entropy_final) == (step.entropy_raw, step.entropy_final)
    assert np.array_equal(found.top.probs, step.top.probs)
    assert [one.label for one in found.stages] == [one.label for one in step.stages]


def test_f20_other_settings_are_tried_on_it_without_a_pass() -> None:
    one = started()
    for _ in one.prefill():
        pass
    one.step()
    own = upcoming(one, 1, None)
    before = len(log(one))
    tried = upcoming(one, 1, effective("guide", {"top_k": 1}), ("guide", "top_k=1"))
    assert own is not None
    assert tried is not None
    assert len(log(one)) == before
    assert tried.tried == ("guide", "top_k=1")
    assert np.count_nonzero(tried.top.probs[-1]) == 1
    assert np.count_nonzero(own.top.probs[-1]) > 1


def test_f20_the_step_that_comes_tells_the_time_of_the_pass_that_ran_for_it(
    clock: Clock,  # noqa: F811
) -> None:
    """A user who rests at every token must not get a run without a single timed step."""
    one = Stepper(Ticking(clock, step=10.0, prefill=50.0))
    one.submit("aaa")
    for _ in one.prefill():
        pass
    assert upcoming(one, ROOT, None) is not None
    assert one.step().timing.total_ms == 0.0, "the prompt's own distribution costs no pass"
    assert upcoming(one, 1, None) is not None
    clock.now += 5000.0  # the user looks at it
    step = one.step()
    assert (step.timing.forward_ms, step.timing.total_ms) == (10.0, 10.0)
    assert step.timing.steady
    fork = one.step(1, seed=9)
    assert (fork.timing.reused, fork.timing.forward_ms) == (True, 0.0), "paid for once"


def test_f20_an_engine_that_tells_few_candidates_gives_intervals() -> None:
    one = partial(OPEN)
    for _ in one.prefill():
        pass
    found = upcoming(one, ROOT, None)
    assert found is not None
    assert isinstance(found.entropy_raw, Interval)
    assert isinstance(found.stages[0].survivors, Interval | int)
    assert found.top.slack is not None
