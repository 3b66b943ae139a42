"""Conditions and breakpoints: what may be written, what it comes to, and where it stops a run."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docs.pages.breakpoints import page
from engine.backends.base import BackendError
from engine.backends.scripted import ScriptedBackend
from engine.commands import Run, SetBreakpoints, Step
from engine.conditions.breakpoints import Breakpoints
from engine.conditions.condition import Condition, ConditionError, Unavailable, spell
from engine.conditions.figures import NAMES
from engine.conditions.functions import FUNCTIONS
from engine.conditions.moment import Moment, Moments
from engine.records.events import EngineError, RunState, StateChanged
from engine.records.step import StepRecord
from engine.run.step_tree import StepTree
from engine.run.stepper import Stepper
from engine.run.tree import ROOT
from engine.sampling.chain import effective
from engine.sampling.stages import STAGES
from tests import fakes, folders
from tests.direct import DirectClient, script

CITIES = ("In", " Paris", " Lyon", " the", "?")
PROBS = np.array([1, 16, 8, 6, 1]) / 32
ENTROPY = float(-(PROBS * np.log(PROBS)).sum())
CHAIN = {"temperature": 1.0, "top_k": 3, "top_p": 0.6}
"""Of 16, 8, 6, 1, 1 in 32, top-k keeps 16, 8, 6 (of 30) and top-p the first two: 2/3 and 1/3."""


def cities(dials: dict[str, Any] | None = None, **more: Any) -> Stepper:
    backend = ScriptedBackend.from_vectors([np.log(PROBS).tolist()], CITIES)
    run = Stepper(backend, effective("guide", dials or CHAIN), **more)
    run.submit("In")
    return run


def at_paris() -> Stepper:
    run = cities(seed=4)
    run.step(force=1)
    return run


# --- figures -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("token", " Paris"),
        ("token_id", 1),
        ("token_bytes", "205061726973"),
        ("kind", "normal"),
        ("text", " Paris"),
        ("prompt", "In"),
        ("stop", ""),
        ("step", 1),
        ("position", 1),
        ("node", 1),
        ("parent", 0),
        ("how", "forced"),
        ("forced", True),
        ("seed", 4),
        ("raw_prob", 0.5),
        ("raw_logprob", math.log(0.5)),
        ("surprisal", math.log(2)),
        ("rank", 1),
        ("entropy", ENTROPY),
        ("margin", 0.25),
        ("top", " Paris"),
        ("final_prob", 2 / 3),
        ("entropy_final", -(2 / 3 * math.log(2 / 3) + 1 / 3 * math.log(1 / 3))),
        ("margin_final", 1 / 3),
        ("top_final", " Paris"),
        ("argmax_changed", False),
        ("survivors", 2),
        ("chain", "temperature=1 > top_k=3 > top_p=0.6"),
        ("preset", "guide"),
        ("context", 1),
        ("computed", 1),
        ("cached", 0),
        ("prefix_miss", True),
        ("reread", False),
        ("copied_blocks", 0),
        ("evicted_blocks", 0),
        ("loop", False),
        ("loop_length", 0),
        ('prob(" Paris")', 2 / 3),
        ('prob(" the")', 0.0),
        ("prob(2)", 1 / 3),
        ('raw_prob(" the")', 6 / 32),
        ('raw_logprob(" Lyon")', math.log(8 / 32)),
        ('rank(" Lyon")', 2),
        ('survives(" Lyon")', True),
        ('survives(" the")', False),
        ('cut_by(" the")', "top_p"),
        ('cut_by("?")', "top_k"),
        ('cut_by(" Lyon")', ""),
        ('cut("top_p", " the")', True),
        ('cut("top_k", " the")', False),
        ('cut("top_k", "?")', True),
        ('survivors("top_k")', 3),
        ('survivors("temperature")', 5),
        ('mass_removed("top_k")', 2 / 32),
        ('mass_removed("top_p")', 6 / 30),
        ('entropy_after("temperature")', ENTROPY),
        ('has("top_p") and not has("min_p")', True),
        ('"Paris" in text and "Lyon" not in text', True),
        ('token in (" a", " Paris")', True),
        ("0 < rank <= 1", True),
        ("text[1:4]", "Par"),
        ('startswith(token, " P") and endswith(token, "s")', True),
        ("len(strip(token))", 5),
        ('lower(token) == " paris"', True),
        ("round(final_prob, 3)", 0.667),
        ("max(rank, 7) - min(rank, 7) + abs(-2)", 8),
        ("2 ** 3 % 5 // 2 + 1 / 4", 1.25),
        ("1 if rank == 1 else 2", 1),
    ],
)
def test_every_figure(text: str, value: Any) -> None:
    found = at_paris().evaluate(text)
    assert found == (pytest.approx(value) if isinstance(value, float) else value)
    assert type(found) is type(value), "a numpy scalar would not cross into JSON"


def test_figures_of_the_draw_are_those_of_the_record() -> None:
    run = cities(seed=2)
    draw = run.step().draw
    assert draw.u is not None
    assert run.evaluate("u") == draw.u
    borders = [draw.u - draw.low] * (draw.low > 0) + [draw.high - draw.u] * (draw.high < 1)
    assert run.evaluate("flip") == pytest.approx(min(borders))
    assert run.evaluate("how") == "sampled"


def test_times_are_those_of_the_record() -> None:
    run = at_paris()
    record = run.nodes[1]
    changed = replace(record, timing=fakes.timing(40.0, 2.5, 0.0, 7.5, warmup=True))
    moment = of_records(changed)
    values = {name: NAMES[name].read(moment) for name in ("latency_ms", "forward_ms", "sample_ms")}
    assert values == {"latency_ms": 50.0, "forward_ms": 40.0, "sample_ms": 2.5}
    assert NAMES["warmup"].read(moment) is True
    assert NAMES["reused"].read(moment) is False
    assert Condition("latency_ms > 49").holds(moment)


def test_blocks_that_a_pass_copied_and_evicted() -> None:
    cache = replace(fakes.kv(20), copied_blocks=1, evicted_blocks=3)
    moment = of_records(fakes.step(1, fakes.timing(1.0), cache))
    assert Condition("copied_blocks").value(moment) == 1
    assert Condition("evicted_blocks > 2").holds(moment)


@pytest.mark.parametrize(
    ("seen", "computed", "begins"),
    [(16, 16, True), (16, 1, False), (17, 1, True), (18, 1, False), (40, 0, False), (33, 17, True)],
)
def test_a_new_block_is_one_whose_first_position_was_written(
    seen: int, computed: int, begins: bool
) -> None:
    moment = of_records(fakes.step(1, fakes.timing(1.0), fakes.kv(seen, computed=computed)))
    assert Condition("new_block").holds(moment) is begins
    assert Condition("kv_bytes").value(moment) == seen * 46_080


def of_records(*steps: StepRecord) -> Moment:
    tree = StepTree()
    for one in steps:
        tree.add_step(one)
    return Moments(fakes.prompt(3), 49_152).at(tree.along(tree.path(steps[-1].node)))


def test_the_chain_may_put_another_token_first() -> None:
    run = cities(seed=1)
    run.settings = effective(
        "guide", {"logit_bias": "2:+3"}, spec="temperature=1 > logit_bias=2:+3"
    )
    run.step()
    assert run.evaluate("argmax_changed") is True
    assert run.evaluate("top") == " Paris"
    assert run.evaluate("top_final") == " Lyon"


def test_a_loop_is_a_cycle_of_prompt_and_output() -> None:
    run = cities()
    for token_id in [1, 2] * 6:
        run.step(force=token_id)
    assert run.evaluate("loop") is True
    assert run.evaluate("loop_length") == 2
    assert run.evaluate("loop_repeats") == 6
    run.back()
    assert run.evaluate("loop") is False, "eleven tokens are too few to call it one"


def test_a_character_that_is_still_open_is_not_text_yet() -> None:
    halves = "é".encode()
    backend = ScriptedBackend.uniform([b"a", halves[:1], halves[1:]])
    run = Stepper(backend)
    run.submit("a")
    run.step(force=1)
    assert run.evaluate("text") == ""
    assert run.evaluate("token") == "\ufffd"
    run.step(force=2)
    assert run.evaluate('text == "é"') is True


def test_previous_and_changed_look_at_the_step_before_on_the_branch() -> None:
    run = cities(seed=1)
    for token_id in (1, 2, 2):
        run.step(force=token_id)
    assert run.evaluate("changed(token)") is False
    assert run.evaluate("previous(token)") == " Lyon"
    assert run.evaluate("previous(previous(token))") == " Paris"
    run.back()
    assert run.evaluate("changed(token)") is True
    assert run.evaluate('changed("Lyon" in text)') is True
    run.extend(2, force=3)
    assert run.evaluate("previous(token)") == " Lyon"
    run.extend(1, force=3)
    assert run.evaluate("text") == " Paris the", "a fork has its own past"
    run.extend(ROOT, force=3)
    assert run.evaluate("changed(rank)") is False
    with pytest.raises(Unavailable, match="no step before the first"):
        run.evaluate("previous(rank)")


# --- tokens that were not recorded -------------------------------------------------------------

NAMES_100 = [f"<{number:02}>" for number in range(100)]


def hundred(**dials: float) -> Stepper:
    """A hundred tokens, each a little less likely than the one before; 64 are recorded."""
    backend = ScriptedBackend.from_vectors([(np.arange(100) * -0.01).tolist()], NAMES_100)
    run = Stepper(backend, effective("guide", {"temperature": 1.0, "top_p": 1.0, **dials}))
    run.submit("<00>")
    run.step(force=0)
    return run


def test_a_token_that_was_not_recorded_is_told_where_all_those_met_the_same_end() -> None:
    run = hundred(top_k=40)
    assert run.evaluate('cut("top_k", "<80>")') is True
    assert run.evaluate('cut("temperature", "<80>")') is False
    assert run.evaluate('cut("top_p", "<80>")') is False
    assert run.evaluate('cut_by("<80>")') == "top_k"
    assert run.evaluate('prob("<80>")') == 0.0
    run = hundred(top_k=0)
    assert run.evaluate('survives("<80>")') is True
    assert run.evaluate('cut("top_p", "<80>")') is False


@pytest.mark.parametrize(
    "text",
    ['rank("<80>")', 'raw_prob("<80>")', 'logit("<80>")', 'prob("<80>")', 'cut("top_k", "<80>")'],
)
def test_else_it_cannot_be_told(text: str) -> None:
    with pytest.raises(Unavailable, match="'<80>' is not among the 64 recorded candidates"):
        hundred(top_k=70).evaluate(text)


def test_a_token_that_is_watched_is_recorded_wherever_it_stands() -> None:
    run = hundred(top_k=70)
    run.watch("<80>", "<80>", "<66>")
    assert run.watched == (80, 66)
    run.extend(ROOT, force=0)
    assert run.evaluate('rank("<80>")') == 81
    assert run.evaluate('cut("top_k", "<80>")') is True
    assert run.evaluate('cut("top_k", "<66>")') is False
    assert run.evaluate('prob("<66>") > 0') is True
    assert len(run.nodes[run.cursor].top.ids) == 66


def test_breakpoints_and_until_watch_the_tokens_they_name() -> None:
    run = hundred(top_k=70)
    assert run.add_breakpoint('rank("<99>") > 5 and rank("<98>") > 5').number == 1
    assert run.watched == (99, 98)
    run.cursor = ROOT
    list(run.run(until='rank("<97>") == 98'))
    assert run.watched == (99, 98, 97)
    assert Condition('prob("<97>") > prob(3) or cut("top_p", "x")').tokens == ("<97>", "x")


def test_a_text_that_is_not_one_token_says_what_it_is_made_of() -> None:
    run = cities()
    with pytest.raises(BackendError) as caught:
        run.watch(" Paris?")
    assert str(caught.value) == '" Paris?" is not one token of this model: it is 2, " Paris" + "?"'


# --- what may be written -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the expression is empty, such as: entropy > 3"),
        ("entorpy > 3", "unknown name 'entorpy'; did you mean entropy? (column 1)"),
        ("3 < ent", "unknown name 'ent'; did you mean entropy? (column 5)"),
        ("token == Paris", "unknown name 'Paris'; a text is written in quotes: 'Paris' (column 10)"),
        ('"é" in text and rnak', "unknown name 'rnak'; did you mean rank? (column 17)"),
        ("porb(' x')", "unknown function 'porb'; did you mean prob? (column 1)"),
        ("entropy(3)", "entropy takes no argument (column 1)"),
        ("logit > 3", "write logit(token) (column 1)"),
        ("cut('top_p')", "write cut(stage, token) (column 1)"),
        ("rank(token=' x')", "arguments stand alone: rank(token) (column 1)"),
        ("cut('top_q', ' x')", "unknown stage 'top_q'; did you mean top_p? (column 5)"),
        ("cut('typical_p', ' x')", "unknown stage 'typical_p'; did you mean typical? (column 5)"),
        ("has(token)", 'a stage is named in quotes, such as "top_p" (column 5)'),
        ("rank > 5 && loop", "write and for && (column 10)"),
        ("rank > 5 || loop", "write or for || (column 10)"),
        ("!loop", "write not for ! (column 1)"),
        ("position = 40", "write == to compare (column 10)"),
        ("entropy >", "the expression ends too early (column 10)"),
        ("(entropy > 3", "'(' was never closed (column 1)"),
        ("loop is True", "write == or != for is and is not (column 1)"),
        ("rank | 3", "there is no such operator in a condition (column 1)"),
        ("stop == None", "only numbers and texts can be given (column 9)"),
        ("1" + "+1" * 500, "the expression is longer than 1,000 characters"),
        ("not " * 40 + "loop", "the expression is nested too deeply"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ConditionError) as caught:
        Condition(text)
    assert str(caught.value) == message


HOSTILE = [
    "().__class__.__bases__[0].__subclasses__()",
    "token.format(1)",
    "text.encode",
    "__import__('os').system('true')",
    "open('/etc/passwd')",
    "[x for x in (1, 2)]",
    "{1: 2}",
    "(lambda: 1)()",
    "(x := 5)",
    "f'{token!r:>999999999}'",
    "token if",
    "*token",
    "rank(*token)",
    "await token",
    "yield",
    "import os",
    "rank; rank",
    "b'x' in token",
    "1j",
    "...",
    "prob.__globals__",
    "text['__class__']. __mro__",
    "(" * 400 + "1" + ")" * 400,
    "a\x00b",
    "\ud800 == token",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_but_looking_is_possible(text: str) -> None:
    with pytest.raises(ConditionError):
        Condition(text)


@pytest.mark.parametrize(
    "text",
    [
        "9.0 ** 9 ** 9 ** 9",
        "9 ** 9 ** 9 ** 9 > 1",
        '"%999999999d" % 1',
        '"a" * 999999999',
        "(1, 2) * 999999999",
        "text + text",
        "text > 3",
        "1 / (rank - 1)",
        'text["x"]',
        "token[9999]",
        "3 in text",
        "len(3)",
        "lower(rank)",
        "round(token)",
        "min(rank, token)",
        "(1, 2)",
        "token[::0]",
        "-token",
        "u",
        "flip",
        "kv_bytes",
        'survivors("min_p")',
        'cut("min_p", " Paris")',
    ],
)
def test_what_goes_wrong_at_a_step_cannot_be_told_and_takes_no_time(text: str) -> None:
    run = at_paris()
    condition = Condition(text)
    began = time.thread_time()
    with pytest.raises(Unavailable) as caught:
        condition.value(run.moment())
    assert str(caught.value)
    assert time.thread_time() - began < 0.5


PIECES = [*NAMES, *(f"{name}(" for name in FUNCTIONS), *(f'"{name}"' for name in STAGES), ")"]
PIECES += [
    " and ",
    " or ",
    " not ",
    ">",
    "==",
    "in",
    "+",
    "**",
    "%",
    "(",
    ",",
    "1",
    "0.5",
    '" Paris"',
]


def compiled(text: str) -> Condition | ConditionError:
    try:
        return Condition(text)
    except ConditionError as error:
        return error


def came_to(condition: Condition) -> bool | int | float | str | Unavailable:
    try:
        return condition.value(MOMENT)
    except Unavailable as reason:
        return reason


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(max_size=60), st.lists(st.sampled_from(PIECES), max_size=12).map("".join)))
def test_whatever_is_typed_is_refused_or_comes_to_something(text: str) -> None:
    condition = compiled(text)
    if isinstance(condition, ConditionError):
        assert 0 <= condition.column <= len(text) + 1
        assert str(condition)
        return
    value = came_to(condition)
    assert spell(value)
    for figure in condition.figures(MOMENT).values():
        assert spell(figure)


MOMENT = at_paris().moment()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("u > 0.9 or rank == 1", True),
        ("rank == 1 or u > 0.9", True),
        ("u > 0.9 and rank == 2", False),
        ("rank == 2 and u > 0.9", False),
        ("u > 0.9 or rank == 2", None),
        ("u > 0.9 and rank == 1", None),
        ("not (u > 0.9)", None),
    ],
)
def test_one_side_decides_where_it_can(text: str, expected: bool | None) -> None:
    """The draw was forced, so that u cannot be told."""
    moment = at_paris().moment()
    if expected is None:
        with pytest.raises(Unavailable, match="no randomness was used: the token is forced"):
            Condition(text).holds(moment)
    else:
        assert Condition(text).holds(moment) is expected


def test_the_figures_of_a_condition_stand_in_its_order_as_they_are_written() -> None:
    condition = Condition('entropy > 3 or prob( " Lyon" ) < 0.5 and u > len(text) or entropy < 1')
    figures = condition.figures(at_paris().moment())
    assert list(figures) == ["entropy", 'prob( " Lyon" )', "u", "len(text)"]
    assert figures["entropy"] == pytest.approx(ENTROPY)
    assert figures["len(text)"] == 6
    assert isinstance(figures["u"], Unavailable)
    assert [spell(value) for value in figures.values()] == [
        "1.2236",
        "0.33333",
        "— (no randomness was used: the token is forced)",
        "6",
    ]


def test_values_are_spelled_for_people() -> None:
    assert [spell(one) for one in (True, False, 3, 0.123456, "a\x1b\n")] == [
        "yes", "no", "3", "0.12346", '"a␛⏎"',
    ]  # fmt: skip


def test_every_name_says_what_it_is_and_the_page_is_up_to_date() -> None:
    path = folders.ROOT / "docs" / "breakpoints.md"
    assert path.read_text("utf-8") == page(), (
        "run: python -m docs.pages.breakpoints > docs/breakpoints.md"
    )
    for one in (*NAMES.values(), *FUNCTIONS.values()):
        assert one.definition
        assert f"| `{getattr(one, 'signature', one.name)}` |" in page()


# --- breakpoints -------------------------------------------------------------------------------


def checked(points: Breakpoints, run: Stepper, count: int) -> list[Sequence[int]]:
    """Numbers of the breakpoints that stop at each of ``count`` steps."""
    found = []
    for _ in range(count):
        run.step(force=1)
        found.append([one.number for one in points.check(run.moment()).stops])
    return found


def test_hits_are_counted_and_some_are_let_pass() -> None:
    points = Breakpoints()
    points.add("step >= 2")
    points.add("step == 3")
    points.change(1, ignore=2)
    assert checked(points, cities(), 5) == [[], [], [2], [1], [1]]
    assert [one.hits for one in points] == [4, 1]
    assert [one.ignore for one in points] == [0, 0]


def test_one_that_is_off_is_not_looked_at() -> None:
    points = Breakpoints()
    points.add("True")
    points.change(1, enabled=False)
    assert not points.active
    assert checked(points, cities(), 2) == [[], []]
    assert points[0].hits == 0


def test_numbers_are_not_used_twice_and_another_condition_begins_anew() -> None:
    points = Breakpoints()
    for text in ("True", "rank > 5"):
        points.add(text)
    checked(points, cities(), 1)
    points.delete(2)
    assert points.add("loop").number == 3
    assert points.change(1, text=" True ").hits == 1
    assert points.change(1, text="not loop").hits == 0
    with pytest.raises(ConditionError):
        points.change(1, text="nothing")
    assert [one.text for one in points] == ["not loop", "loop"]
    assert [one.name for one in Breakpoints(points)] == [
        "breakpoint 1: not loop",
        "breakpoint 3: loop",
    ]


def test_an_assertion_strikes_where_it_does_not_hold() -> None:
    points = Breakpoints()
    points.add("step < 3", asserts=True)
    assert checked(points, cities(), 4) == [[], [], [1], [1]]
    assert points[0].name == "assertion 1 does not hold: step < 3"
    assert points[0].told == 4


def test_what_cannot_be_told_is_said_once_and_stops_nothing() -> None:
    points = Breakpoints()
    points.add("u > 2")
    points.add("u > 2", asserts=True)
    run = cities()
    news = []
    for _ in range(3):
        run.step(force=1)
        verdict = points.check(run.moment())
        assert verdict.stops == ()
        news += verdict.news
    reason = "no randomness was used: the token is forced"
    assert news == [
        f"breakpoint 1 cannot be told at step 1: {reason} (u > 2)",
        f"assertion 2 cannot be told at step 1: {reason} (u > 2)",
    ]
    assert [(one.told, one.untold) for one in points] == [(0, f"step 1: {reason}")] * 2


# --- in the engine -----------------------------------------------------------------------------


def test_until_stops_a_run_of_the_stepper() -> None:
    run = cities(seed=1)
    records = list(run.run(until="step == 3"))
    assert [one.node for one in records] == [1, 2, 3]
    assert [one.node for one in run.run(until="step == 3 or step == 5")] == [4, 5]
    with pytest.raises(ConditionError):
        next(run.run(until="stpe == 3"))
    run.max_tokens = 8
    assert [one.node for one in run.run(until="u")] == [6], "a number other than 0 is a yes"
    assert [one.node for one in run.run(until="1 / 0")] == [7, 8], "untold stops nothing"


def engine(*texts: str) -> DirectClient:
    client = DirectClient()
    points = Breakpoints()
    for text in texts:
        points.add(text)
    for command in (*script()[:2], SetBreakpoints(tuple(points)), script()[2]):
        client.send(command)
    client.take()
    return client


def after(client: DirectClient, *commands: Any) -> tuple[list[int], StateChanged]:
    """The nodes that commands brought, and the last state."""
    for command in commands:
        client.send(command)
    records = client.take()
    state = [one for one in records if isinstance(one, StateChanged)][-1]
    return [one.node for one in records if isinstance(one, StepRecord)], state


def test_the_engine_stops_at_a_hit_and_computes_nothing_more() -> None:
    client = engine("step == 3", "step in (3, 5)")
    nodes, state = after(client, Run(ROOT))
    assert nodes == [1, 2, 3]
    assert state == StateChanged(
        RunState.PAUSED, "breakpoint 1: step == 3; breakpoint 2: step in (3, 5)"
    )
    nodes, state = after(client, Run(3))
    assert nodes == [4, 5]
    assert state == StateChanged(RunState.PAUSED, "breakpoint 2: step in (3, 5)")
    nodes, state = after(client, Run(5, 2))
    assert nodes == [6, 7]
    assert state == StateChanged(RunState.PAUSED)
    nodes, state = after(client, Run(7))
    assert nodes[-1] == 20
    assert state == StateChanged(RunState.STOPPED, "token budget of 20 used up")


def test_a_single_step_says_what_it_hit_and_so_does_the_last() -> None:
    client = engine("step == 2", "stop")
    assert after(client, Step(ROOT))[1] == StateChanged(RunState.PAUSED)
    assert after(client, Step(1))[1] == StateChanged(RunState.PAUSED, "breakpoint 1: step == 2")
    nodes, state = after(client, Run(2))
    assert nodes[-1] == 20
    assert state.state is RunState.STOPPED
    assert state.reason == "breakpoint 2: stop; token budget of 20 used up"


def test_breakpoints_may_change_while_it_runs() -> None:
    client = engine("step == 9")
    points = Breakpoints()
    points.add("step == 4")
    client._inbox.waiting.append(SetBreakpoints(tuple(points)))
    nodes, state = after(client, Run(ROOT))
    assert nodes == [1, 2, 3, 4]
    assert state == StateChanged(RunState.PAUSED, "breakpoint 1: step == 4")


def test_a_token_that_the_model_has_not_is_one_clear_line() -> None:
    client = engine('prob("ab") > 0.5', "step == 2")
    client.send(SetBreakpoints(tuple(Breakpoints()), ('prob("ab")',)))
    (error,) = [one for one in client.take() if isinstance(one, EngineError)]
    assert error.message == '"ab" is not one token of this model: it is 2, "a" + "b"'
    assert after(client, Run(ROOT, 1))[0] == [1], "and the engine goes on"
