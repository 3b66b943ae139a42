"""Every evaluation of a condition ends: digits, nests of history, and a limit of time (B10)."""

from __future__ import annotations

import time

import pytest
from textual.geometry import Size

from engine.commands import SetBreakpoints
from engine.conditions import condition as conditions
from engine.conditions.breakpoints import Breakpoints
from engine.conditions.condition import Condition, Unavailable
from engine.records.events import Breakpoint, BreakpointsSet
from engine.run.stepper import Stepper
from inspector.cli.run_breakpoints import BreakpointChecker
from inspector.panes.breakpoints import draw_points
from inspector.state.breakpoints import BreakpointState
from inspector.state.view import RunLog
from tests.engine.conditions.test_breakpoints import cities

NEST = "changed(" * 28 + "u" + ")" * 28
"""Evaluated at two steps at each level: 2^28 times, if each were worked out anew."""
SLOW = " + ".join(["len(lower(text))"] * 50)


def walked(steps: int = 40) -> Stepper:
    run = cities(seed=4)
    for _ in range(steps):
        run.step()
    return run


@pytest.fixture
def no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """No evaluation of more than one part ends in time."""
    monkeypatch.setattr(conditions, "EVALUATION_S", -1.0)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("round(5, -1000000000)", 0),
        ("round(5, 1000000000)", 5),
        ("round(2.675, 999999999999)", 2.675),
        ("round(-1234, -2)", -1200),
        ("round(1" + "0" * 900 + ", -899)", 10**900),
        ("round(1.26, 1)", 1.3),
    ],
)
def test_b10_digits_beyond_what_a_number_has_change_nothing(text: str, value: float) -> None:
    began = time.thread_time()
    assert Condition(text).value(walked(1).moment()) == value
    assert time.thread_time() - began < 1


@pytest.mark.parametrize("text", [NEST, NEST.replace("changed", "previous")])
def test_b10_a_nest_of_history_is_worked_out_once_a_step(text: str) -> None:
    run = walked()
    began = time.thread_time()
    Condition(text).value(run.moment())
    assert time.thread_time() - began < conditions.EVALUATION_S


def test_b10_what_a_nest_comes_to_is_what_it_says() -> None:
    run = walked(4)
    us = [run.nodes[node].draw.u for node in (1, 2, 3, 4)]
    assert Condition("previous(previous(u))").value(run.moment()) == us[1]
    assert Condition("changed(changed(u))").value(run.moment()) is False
    assert Condition("changed(changed(step > 3))").value(run.moment()) is True


def test_b10_a_nest_that_cannot_be_told_is_worked_out_once_too() -> None:
    text = "u"
    for _ in range(13):
        text = f"changed({text} or logit(9999))"
    began = time.thread_time()
    with pytest.raises(Unavailable):
        Condition(f"{text} and logit(9999)").value(walked().moment())
    assert time.thread_time() - began < conditions.EVALUATION_S


def test_b10_what_takes_too_long_is_switched_off_and_says_so(no_time: None) -> None:
    condition, at = Condition("u > 2 or entropy > 0"), walked(2).moment()
    with pytest.raises(Unavailable, match="it took longer than"):
        condition.value(at)
    assert "took longer" in condition.off
    conditions.EVALUATION_S = 100.0
    with pytest.raises(Unavailable, match="took longer"):
        condition.value(at)


def test_b10_a_breakpoint_that_takes_too_long_is_named_and_switched_off(no_time: None) -> None:
    points = Breakpoints([Breakpoint(1, "entropy > 3")])
    verdict = points.check(walked(2).moment())
    assert not points[0].enabled
    assert verdict.stops == ()
    (line,) = verdict.news
    assert line.startswith("breakpoint 1 cannot be told at step 2: it took longer")
    assert line.endswith("(entropy > 3)")
    assert points.check(walked(2).moment()).news == ()
    conditions.EVALUATION_S = 100.0
    points.change(1, enabled=True)
    assert points.strikes(1, walked(2).moment()) is False


def shown() -> BreakpointState:
    run, log = walked(3), RunLog()
    assert run.prompt is not None
    for record in (run.backend.facts, run.prompt, *run.nodes.values()):
        log.add(record)
    return BreakpointState(log)


def test_b10_what_a_session_brings_is_switched_off_where_it_is_shown(no_time: None) -> None:
    breakpoints = shown()
    breakpoints.recall(BreakpointsSet((Breakpoint(1, "entropy > 3"),), ("u > 0.5",)))
    watched = breakpoints.watched(2)
    assert isinstance(watched.watches[0].value, Unavailable)
    assert "switched off" in str(watched.watches[0].value)
    assert not watched.marks[0].point.enabled
    news = breakpoints.take_news()
    assert any(line.startswith("watch u > 0.5: it took longer") for line in news)
    assert any("breakpoint 1 cannot be told" in line and "switched off" in line for line in news)
    breakpoints.watched(3)
    assert breakpoints.take_news() == [], "said once"
    assert "switched off" in draw_points(watched, Size(120, 10)).rows[0].plain


def test_b10_many_conditions_of_a_session_are_shown_within_a_moment() -> None:
    breakpoints = shown()
    kept = BreakpointsSet((), tuple(f"{SLOW} > {n}" for n in range(5000)))
    breakpoints.recall(kept)
    assert len(breakpoints.watches) <= 100
    began = time.thread_time()
    breakpoints.watched(3)
    assert time.thread_time() - began < 2


def test_b10_an_assertion_that_is_switched_off_has_not_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, log = walked(3), shown()._log
    checker = BreakpointChecker(SetBreakpoints((Breakpoint(1, "entropy > 0", asserts=True),)))
    assert checker.look(log, run.nodes[1]).news == ()
    assert checker.never_told == ()
    monkeypatch.setattr(conditions, "EVALUATION_S", -1.0)
    (line,) = checker.look(log, run.nodes[2]).news
    assert line.startswith("assertion 1 cannot be told at step 2: it took longer")
    (line,) = checker.never_told
    assert line.startswith("assertion 1 was not looked at to the end: entropy > 0 (step 2: it took")
