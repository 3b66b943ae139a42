"""Runs on a backend that knows the 20 likeliest tokens: what is drawn, recorded, kept and told."""

from __future__ import annotations

import json
import math
import pickle
import sqlite3
from contextlib import closing
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.backends.base import BackendError
from engine.conditions.condition import Unavailable
from engine.records.partial import Interval, ends
from engine.records.step import StepRecord
from engine.run.stepper import Stepper
from engine.sampling.chain import effective
from engine.sampling.partial import Partial, SignMissing, TailMissing
from engine.sampling.stages import StageContext
from sessions import SessionError, open_session
from sessions.compare.tables import kl, largest_difference
from sessions.export.jsonl import step_line
from sessions.recording import record
from tests.top_backend import TOP, WIDTH, TopBackend, scripted

CLOSING = "temperature=0.7 > top_k=10 > top_p=0.9"
"""Keeps ten of the 20 at the most."""
OPEN = "temperature=0.8 >"
"""Keeps everything."""


def stepper(spec: str, *, whole: bool = False, seed: int = 0) -> Stepper:
    backend = scripted() if whole else TopBackend()
    made = Stepper(backend, effective("guide", {}, spec=spec), seed=seed, max_tokens=8)
    made.submit(" w1 w2")
    return made


def assert_same(one: Any, other: Any) -> None:
    """Equal to the last bit, ends of intervals too."""
    if isinstance(one, Interval):
        assert isinstance(other, Interval)
        assert (one.low, one.high) == (other.low, other.high)
    elif is_dataclass(one):
        for field in fields(one):
            assert_same(getattr(one, field.name), getattr(other, field.name))
    elif isinstance(one, np.ndarray):
        assert np.array_equal(one, other)
    elif isinstance(one, tuple):
        for mine, theirs in zip(one, other, strict=True):
            assert_same(mine, theirs)
    else:
        assert not isinstance(other, Interval)
        assert one == other


# --- stepping ---------------------------------------------------------------------------------


def test_a_chain_that_leaves_none_but_known_tokens_draws_what_the_whole_draws() -> None:
    ours, truth = stepper(CLOSING), stepper(CLOSING, whole=True)
    for one, other in zip(ours.run(), truth.run(), strict=True):
        assert one.token == other.token
        assert one.final_prob == pytest.approx(other.final_prob, rel=1e-5)
        assert one.entropy_final == pytest.approx(other.entropy_final, rel=1e-5)
        assert one.raw_logprob == pytest.approx(other.raw_logprob, rel=1e-5)
        assert (one.rank, one.stages[-1].survivors) == (other.rank, other.stages[-1].survivors)
        assert not isinstance(one.entropy_final, Interval)
        assert isinstance(one.entropy_raw, Interval)
        assert one.entropy_raw.low < other.entropy_raw < one.entropy_raw.high
        assert one.stages[0].survivors == WIDTH
        assert one.top.slack is not None
        assert not one.top.slack[[0, -1]].any()


@pytest.mark.parametrize("seed", range(12))
def test_without_truncation_u_decides_whether_a_token_is_drawn_or_refused(seed: int) -> None:
    """Never another token than the whole row's, and never one that is not known."""
    truth = stepper(OPEN, whole=True, seed=seed).step()
    assert truth.draw.u is not None
    # A sixth of the mass may be the rest's or not, and moves every border farther on.
    if truth.draw.u > 0.3:
        with pytest.raises(TailMissing, match="lies with tokens that are not known, and u = 0"):
            stepper(OPEN, seed=seed).step()
        return
    found = stepper(OPEN, seed=seed).step()
    assert found.token == truth.token
    for mine, true in ((found.draw.low, truth.draw.low), (found.draw.high, truth.draw.high)):
        assert ends(mine)[0] - 1e-5 <= true <= ends(mine)[1] + 1e-5


def test_a_refused_draw_leaves_the_tree_as_it_was_and_another_token_can_be_forced() -> None:
    one = stepper("typical_p=0.5 > temperature=1")
    with pytest.raises(TailMissing, match="0–100% of the mass"):
        one.step()
    assert dict(one.nodes) == {}
    assert one.step(force=5).token.id == 5


def test_greedy_is_exact() -> None:
    ours, truth = stepper("temperature=0 >"), stepper("temperature=0 >", whole=True)
    assert [one.token.id for one in ours.run()] == [one.token.id for one in truth.run()]


def test_log_probabilities_do_not_tell_what_a_sign_decides() -> None:
    """A repetition penalty multiplies a logit below 0 and divides one above."""
    one = stepper("repetition_penalty=1.3 > top_k=5 > temperature=1")
    with pytest.raises(SignMissing, match=r"stage repetition_penalty=1\.3 .* frequency_penalty"):
        one.step()
    # What adds to a logit needs no zero.
    added = "frequency_penalty=1.5 > top_k=5 > temperature=1"
    assert stepper(added).step().token == stepper(added, whole=True).step().token


def test_a_forced_token_that_is_not_known_has_bounds() -> None:
    truth, found = stepper(CLOSING, whole=True).step(force=290), stepper(CLOSING).step(force=290)
    assert (ends(found.rank), found.final_prob) == ((TOP + 1, math.inf), 0.0)
    low, high = ends(found.raw_logprob)
    assert low == -math.inf
    assert truth.raw_logprob <= high == pytest.approx(float(found.top.raw_logprobs[TOP - 1]))
    free = stepper(OPEN).step(force=290)
    low, high = ends(free.final_prob)
    assert low == 0.0 < stepper(OPEN, whole=True).step(force=290).final_prob < high < 0.02


def test_whole_logits_are_refused_in_one_line() -> None:
    one = stepper(CLOSING)
    one.step()
    with pytest.raises(BackendError, match="gives the 20 leading log-probabilities, no more"):
        one.dense(1)


# --- conditions -------------------------------------------------------------------------------


def test_conditions_hold_where_every_value_between_the_bounds_says_so() -> None:
    one = stepper(CLOSING)
    step = one.step()
    low, high = ends(step.entropy_raw)
    middle = (low + high) / 2
    assert one.evaluate(f"entropy > {low - 0.1} and entropy < {high + 0.1}") is True
    assert one.evaluate(f"entropy > {high + 0.1}") is False
    assert one.evaluate(f"entropy > {middle} or rank >= 1") is True
    for unknown in (
        f"entropy > {middle}",
        f"entropy == {middle}",
        "entropy * 2 > 0",
        "varentropy > 1",
        "changed(entropy) or entropy == 1",
        'logit(" w290") < 0',
        f"abs(entropy) > {middle}",
    ):
        with pytest.raises(Unavailable):
            one.evaluate(unknown)
    assert one.evaluate("entropy_final < 9 and survivors <= 10") is True
    one.step(force=290)
    with pytest.raises(Unavailable):
        one.evaluate("rank > 30")
    assert one.evaluate("rank > 20") is True


# --- kept, replayed, exported -----------------------------------------------------------------


def kept(folder: Path, spec: str) -> dict[int, StepRecord]:
    """The steps of a run that lies in a session too."""
    one = stepper(spec)
    record(one, folder / "run.llmi", " w1 w2")
    return dict(one.nodes)


def test_a_session_holds_every_interval_to_the_last_bit(tmp_path: Path) -> None:
    steps = kept(tmp_path, CLOSING)
    with open_session(tmp_path / "run.llmi") as session:
        assert session.facts is not None
        assert session.facts.top == TOP
        for node, step in steps.items():
            assert_same(step, session.step(node))
            assert_same(step, pickle.loads(pickle.dumps(session.step(node))))


def test_what_if_on_a_kept_step_is_what_if_on_the_run(tmp_path: Path) -> None:
    step = kept(tmp_path, CLOSING)[1]
    chain = effective("guide", {}, spec="top_p=0.5 > temperature=1.4").chain
    context = StageContext(prompt_ids=(1, 2))
    truth = chain.run(scripted().forward([([], [1, 2])]).logits, context)
    with open_session(tmp_path / "run.llmi") as session:
        for one in (step, session.step(1)):
            found = chain.run_record(one, context, WIDTH)
            assert not isinstance(found.final, Partial)
            assert found.final.ids.tolist() == truth.final.ids.tolist()
            assert found.final.probs == pytest.approx(truth.final.probs, rel=1e-5)


def test_json_and_csv_have_a_number_or_both_ends(tmp_path: Path) -> None:
    step = kept(tmp_path, CLOSING)[1]
    line = json.loads(json.dumps(step_line(step), allow_nan=False))
    assert line["entropy_raw"] == list(ends(step.entropy_raw))
    assert line["entropy_final"] == step.entropy_final
    assert [one["survivors"] for one in line["stages"]] == [WIDTH, 10, step.stages[-1].survivors]
    low, high = line["stages"][1]["mass_removed"]
    assert 0.0 < low < high < 1.0
    assert line["rank"] == step.rank
    assert all(isinstance(one["final_prob"], float) for one in line["top"])
    forced = step_line(stepper(CLOSING).step(force=290))
    assert forced["rank"] == [TOP + 1, None]
    assert forced["raw_logprob"][0] is None


def test_two_runs_are_compared_as_far_as_both_are_known() -> None:
    ours, truth = stepper(CLOSING).step(), stepper(CLOSING, whole=True).step()
    found = kl(ours.top, truth.top, 0)
    # Of the same distribution; what the 20 lack is compared as one token.
    assert (found.low, found.high) == (pytest.approx(0.0, abs=1e-6), None)
    exact = kl(ours.top, truth.top, -1)
    assert exact.low == exact.high == pytest.approx(0.0, abs=1e-6)
    free = stepper(OPEN).step(force=5)
    bound = kl(free.top, stepper(OPEN, whole=True).step(force=5).top, -1)
    assert (bound.low, bound.high) == (0.0, None)
    assert "only bounds" in bound.why
    # A logit and a log-probability do not compare.
    assert largest_difference(ours.top, truth.top) is None
    assert largest_difference(ours.top, stepper(CLOSING).step().top) == 0.0


@pytest.mark.parametrize(
    "part",
    [
        {"top": {"slack": {"$array": "AAAAAAAAAAA=", "dtype": "<f8", "shape": [1]}}},
        {"step": {"entropy_raw": {"$interval": [2, 1]}}},
        {"step": {"entropy_raw": {"$interval": [{"$float": "nan"}, 1]}}},
        {"step": {"entropy_raw": {"$interval": "12"}}},
        {"draw": {"low": {"$interval": [0]}}},
    ],
)
def test_bounds_of_a_foreign_file_that_are_none_are_damage(
    tmp_path: Path, part: dict[str, Any]
) -> None:
    kept(tmp_path, CLOSING)
    with closing(sqlite3.connect(tmp_path / "run.llmi")) as database, database:
        database.execute("UPDATE step SET extra = ? WHERE node = 1", (json.dumps(part),))
    with pytest.raises(SessionError), open_session(tmp_path / "run.llmi") as session:
        assert_same(session.step(1), session.step(1))
