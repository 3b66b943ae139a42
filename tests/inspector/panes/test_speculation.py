"""The pane of speculative rounds, as text pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from rich.cells import cell_len
from textual.geometry import Size

from engine.records.model import DtypeTrial
from engine.records.round import Accept
from inspector.panes.speculation.pane import SpeculationUI, draw
from inspector.state.view import RunLog, View
from inspector.widgets.picture import Picture
from tests.fake_runs import picture
from tests.speculating import Listed, fixed, log_of, stepper

P = [0.5, 0.25, 0.125, 0.125]


def log(
    *drafts: list[int], seed: int = 0, q: Sequence[float] | None = None, **more: object
) -> RunLog:
    run = stepper(
        fixed(P),
        lambda _: Listed(*drafts, q=q),
        dials={"temperature": 1.0},
        prompt="a",
        tokens=3,
        seed=seed,
        max_tokens=8,
        **more,  # type: ignore[arg-type]
    )
    return log_of(run)


def lines(found: Picture) -> str:
    parts = [picture(part) for part in (found.header, found.rows, found.footer)]
    return "\n".join(part for part in parts if part)


REJECTED = log([2, 2, 0], [2, 1, 3], q=[0.1, 0.1, 0.7, 0.1], seed=2)
ACCEPTED = log([1, 2, 0], [2, 1, 3], q=[0.1, 0.1, 0.7, 0.1], seed=1)


def look(text: str) -> str:
    return text.strip("\n")


def test_a_rejection_with_p_q_and_the_residual() -> None:
    """0.7 of c drafted where p has 1/8: what is left is (.4, .15, 0, .025) of .575."""
    assert lines(draw(View(REJECTED, 3), Size(76, 20))) == look(
        """
 round 1 of 2 · listed · exact · 1 of 3 accepted, 2 tokens
         q     p min(1,p/q)    dice  verdict     token
  ✓  70.0% 12.5%      17.9%  0.1647  accepted    "c"
  ✗  70.0% 12.5%      17.9%  0.6390  rejected    "c"
  ↻        50.0%             0.4138  corrected   "a"  of the residual
  ·  10.0%     —          —       —  discarded   "a"
Where it was rejected: residual mass 57.5% ─────────────────────────────────
    p                   q                   p−q ÷ mass          token
 ●  50.0% █████████▎    10.0% █▉            69.6% ████████████▉ "a"
    25.0% ████▋         10.0% █▉            26.1% ████▉         "b"
    12.5% ██▍           10.0% █▉            4.35% ▊             "d"
    12.5% ██▍           70.0% █████████████    0%               "c"
This branch: 1 round ───────────────────────────────────────────────────────
 1 of 3 accepted 33% ƒ · by p and q 0.85 ± 0.70 ƒ · tokens a pass 2.00 ƒ
 position, of all (of reached) ƒ 1 100% (100%) · 2 0% (0%) · 3 0% (—)
 a round 13.0 ms •: draft 15% · verify 77% · rest 7.7%
 a token 6.50 ms ƒ · plain 8.00 ms • of this run → 1.23× ƒ · pays from 40% …
 where it pays █ ƒ 1 of 1 rounds, most at position 2: 1.23×
"""
    )


def test_a_bonus_and_what_the_rounds_were_worth() -> None:
    """13 ms bring 4 tokens, then 1: 5.2 ms each, where a plain step takes 8."""
    assert lines(draw(View(ACCEPTED, 2), Size(76, 9))) == look(
        """
 round 1 of 2 · listed · exact · 3 of 3 accepted, 4 tokens
         q     p min(1,p/q)    dice  verdict     token
  ✓  10.0% 25.0%       100%  0.3544  accepted    "b"
  ✓  70.0% 12.5%      17.9%  0.0567  accepted    "c"
  ✓  10.0% 50.0%       100%  0.3016  accepted    "a"
  +        50.0%             0.0436  bonus       "a"  the target's own
 3 of 3 accepted 100% ƒ · by p and q 1.27 ± 0.86 ƒ · tokens a pass 4.00 ƒ
"""
    )
    assert lines(draw(View(ACCEPTED, 8), Size(76, 20))) == look(
        """
 this token came without a draft: a plain step
This branch: 2 rounds ──────────────────────────────────────────────────────
 3 of 5 accepted 60% ƒ · by p and q 1.70 ± 0.99 ƒ · tokens a pass 2.50 ƒ
 position, of all (of reached) ƒ 1 50% (50%) · 2 50% (100%) · 3 50% (100%)
 a round 13.0 ms •: draft 15% · verify 77% · rest 7.7%
 a token 5.20 ms ƒ · plain 8.00 ms • → 1.54× ƒ · pays from 44% a draft on ƒ
 where it pays █· ƒ 1 of 2 rounds, most at position 2: 2.46×
"""
    )


@pytest.mark.parametrize(
    ("dtype", "words"),
    [
        (
            "float16",
            "float32 is fastest; this run is in float16: try --dtype float32 (float32 28.0 ms",
        ),
        ("float32", "float32 is fastest (float32 28.0 ms, float16 41.0 ms)"),
    ],
)
def test_the_dtype_that_is_best_for_a_few_rows_is_said(dtype: str, words: str) -> None:
    one = log([1, 2, 0], [2, 1, 3], q=[0.1, 0.1, 0.7, 0.1], seed=1)
    assert one.facts is not None
    trials = (
        DtypeTrial("float32", True, "", 30.0, 28.0),
        DtypeTrial("float16", True, "", 20.0, 41.0),
        DtypeTrial("bfloat16", None, "", 20.0),
    )
    one.facts = replace(one.facts, dtype=dtype, dtype_trials=trials)
    assert words in lines(draw(View(one, 2), Size(120, 24)))


def test_the_row_of_the_cursors_token_is_selected() -> None:
    assert [draw(View(REJECTED, node), Size(76, 20)).select for node in (2, 3)] == [0, 2]
    view = View(REJECTED, 3)
    assert draw(view, Size(76, 20), SpeculationUI(view.step)).select is None


def test_drafts_behind_a_stop_token() -> None:
    target = fixed(P, facts={"stop_ids": {2: "test"}})
    run = stepper(target, lambda _: Listed([2, 1, 0]), prompt="a", tokens=3, max_tokens=8)
    run.speculation = replace(run.speculation, accept=Accept.MATCH)  # type: ignore[type-var]
    one = log_of(run)
    assert one.rounds
    shown = lines(draw(View(one, 2), Size(76, 9)))
    assert ("after stop" in shown) == (one.rounds[2].end.value == "stop")


def test_a_rule_that_is_not_lossless_says_so() -> None:
    one = log([1, 2, 0], q=[0.1, 0.1, 0.7, 0.1], accept=Accept.TYPICAL)
    found = draw(View(one, 2), Size(76, 20))
    assert found.remark == "NOT LOSSLESS"
    assert "typical NOT LOSSLESS" in lines(found)


@pytest.mark.parametrize("width", [20, 40, 76, 160])
@pytest.mark.parametrize("height", [3, 9, 20, 40])
def test_no_line_is_wider_than_its_place(width: int, height: int) -> None:
    for one, node in ((REJECTED, 3), (ACCEPTED, 2), (ACCEPTED, 8), (ACCEPTED, 0)):
        found = draw(View(one, node), Size(width, height))
        for line in lines(found).splitlines():
            assert cell_len(line) <= width


def test_hostile_names_and_tokens_stay_text() -> None:
    run = stepper(
        fixed([0.0, 1.0]),
        lambda _: Listed([1]),
        prompt="a",
        tokens=1,
        max_tokens=3,
    )
    one = log_of(run)
    (number,) = one.rounds
    one.rounds[number] = replace(one.rounds[number], source="/x/\x1b[2J[red]model\u202e")
    shown = lines(draw(View(one, number), Size(76, 9)))
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "[red]model" in shown


def test_without_drafts_it_says_how_to_have_some() -> None:
    one = log_of(stepper(fixed(P), prompt="a", max_tokens=3))
    assert "--draft ngram" in lines(draw(View(one, 2), Size(76, 9)))


def test_a_picture_does_not_depend_on_what_was_drawn_before() -> None:
    looks = [
        (View(one, node), size)
        for one, node in ((REJECTED, 3), (ACCEPTED, 2), (ACCEPTED, 8))
        for size in (Size(40, 7), Size(110, 30))
    ]
    first = [lines(draw(*one)) for one in looks]
    assert len(set(first)) == len(looks)
    assert [lines(draw(*one)) for one in reversed(looks)] == first[::-1]
