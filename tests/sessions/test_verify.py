"""A saved run checked against a model, what-if on saved steps, and a replay's tempo."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.backends.scripted import ScriptedBackend
from engine.run.stepper import Stepper
from engine.sampling.chain import Chain, build, effective, parse_spec
from engine.sampling.partial import Partial, TailMissing, from_record
from engine.sampling.stages import StageContext
from inspector.state.view import RunLog
from sessions import SessionError, open_session
from sessions.compare.divergence import margin_of
from sessions.recording import record
from sessions.tempo import arrivals_ms
from sessions.verify import lines, to_json, verify
from tests import fakes
from tests.sessions.test_store import forked_run, save, stepper

WIDTH = 400
TOKENS = [chr(0x4E00 + number) for number in range(WIDTH)]


def model(shift: float = 0.0, seed: int = 3) -> ScriptedBackend:
    """Logits that depend on the length read; ``shift`` moves the third step's first two apart."""
    vectors = np.random.default_rng(seed).normal(0, 2.5, (20, WIDTH)).astype(np.float32)
    first, second = np.argsort(-vectors[2])[:2]
    vectors[2, second] = vectors[2, first] - 0.01 + shift
    return ScriptedBackend(lambda ids: vectors[len(ids) - 1], TOKENS)


def recorded(path: Path, spec: str = "temperature=0", steps: int = 8) -> Path:
    one = Stepper(model(), effective("guide", {}, spec=spec), seed=5, max_tokens=steps)
    record(one, path, TOKENS[0])
    return path


# --- verify ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", ["temperature=0", "temperature=1.3 > top_k=30", "top_p=0.9 >"])
def test_a_run_is_reproduced_on_its_own_model(tmp_path: Path, spec: str) -> None:
    with open_session(recorded(tmp_path / "run.llmi", spec)) as session:
        found = verify(session, Stepper(model()))
    assert found.reproduced
    assert found.first is None
    assert found.changes == ()
    assert found.largest_logit_difference == 0.0
    assert list(lines(found)) == ["reproduced: 8 of 8 tokens; largest logit difference 0"]
    assert to_json(found)["first_divergence"] is None


def test_every_branch_with_forced_tokens_other_dice_and_other_settings(tmp_path: Path) -> None:
    with open_session(save(tmp_path / "run.llmi", forked_run())) as session:
        for tip in session.tips:
            found = verify(session, stepper(), tip)
            assert found.reproduced
            assert [one.node for one in found.checks] == session.path_nodes(tip)
    forced = [one for one in found.checks if one.forced]
    assert all(one.margin is None for one in forced)


def test_the_first_difference_and_how_close_it_was(tmp_path: Path) -> None:
    """0.01 between the first two logits became 0.01 the other way round."""
    with open_session(recorded(tmp_path / "run.llmi")) as session:
        found = verify(session, Stepper(model(shift=0.02)))
    assert not found.reproduced
    assert found.first is not None
    assert (found.first.node, found.first.position) == (3, 3)
    assert found.first.margin == pytest.approx(0.01, abs=1e-6)
    assert found.largest_logit_difference == pytest.approx(0.02, abs=1e-6)
    assert sum(one.same for one in found.checks) == 7, "it goes on from the recorded token"
    text = list(lines(found))
    assert text[0] == "not reproduced: 7 of 8 tokens are the same; largest logit difference 0.02"
    assert text[1].startswith("first at position 3 (node 3): recorded ")
    assert text[1].endswith("the race was 0.01 close")
    assert json.loads(json.dumps(to_json(found), allow_nan=False))["same"] == 7


def test_what_differs_about_the_model_is_said(tmp_path: Path) -> None:
    backend = ScriptedBackend(model()._logits_of, TOKENS, facts={"dtype": "bfloat16"})
    with open_session(recorded(tmp_path / "run.llmi")) as session:
        found = verify(session, Stepper(backend))
        assert next(lines(found)) == 'model dtype: recorded "float32", now "bfloat16"'
        small = Stepper(ScriptedBackend.uniform("abc"))
        with pytest.raises(SessionError, match="a vocabulary of 400 tokens, and scripted has 3"):
            verify(session, small)


def test_what_cannot_be_checked(tmp_path: Path) -> None:
    with (
        open_session(save(tmp_path / "empty.llmi", [])) as session,
        pytest.raises(SessionError, match="holds no prompt: there is nothing to check"),
    ):
        verify(session, stepper())
    records = forked_run()
    records[4] = replace(records[4], chain_spec="luck=1 >")  # type: ignore[type-var]
    with (
        open_session(save(tmp_path / "odd.llmi", records)) as session,
        pytest.raises(SessionError, match="the chain of node 1 cannot be built again: unknown"),
    ):
        verify(session, stepper())


def test_the_margin_of_a_draw_is_the_way_to_its_nearer_edge() -> None:
    step = forked_run()[4]
    draw = replace(step.draw, u=0.4, low=0.1, high=0.5)  # type: ignore[union-attr]
    assert margin_of(replace(step, draw=draw)) == pytest.approx(0.1)  # type: ignore[type-var]


# --- what if --------------------------------------------------------------------------------------


def chain(spec: str) -> Chain:
    return build(*parse_spec(spec), "guide")


@pytest.mark.parametrize(
    ("spec", "always"),
    [
        ("temperature=0 >", True),
        ("temperature=0.7 > top_k=20", True),
        ("top_k=40 > temperature=3 > top_p=0.9", True),
        ("min_p=0.1 > temperature=2", True),
        ("temperature=0.3 > top_p=0.9", False),
        ("top_p=0.5 > temperature=1.5", False),
        ("temperature=0.5 > min_p=0.2", True),
        ("repetition_penalty=1.5 > temperature=0.4 > top_k=10", True),
    ],
)
def test_what_if_on_a_saved_step_is_what_if_live(tmp_path: Path, spec: str, always: bool) -> None:
    """Where it says exact it is exact; for chains that never look at the tail it always is."""
    live = Stepper(model(), effective("guide", {}), seed=5, max_tokens=12)
    record(live, tmp_path / "run.llmi", TOKENS[0])
    exact = 0
    with open_session(tmp_path / "run.llmi") as session:
        for node, step in session.steps.items():
            context = StageContext((0,), tuple(one.token.id for one in session.branch(node)[:-1]))
            truth = chain(spec).run(live.dense(node), context)
            try:
                found = chain(spec).run_record(step, context, WIDTH)
            except TailMissing:
                continue
            exact += 1
            assert found.final.ids.tolist() == truth.final.ids.tolist()
            np.testing.assert_allclose(found.final.probs, truth.final.probs, rtol=1e-12)
        assert exact == len(session) if always else exact > 0


def test_a_flat_distribution_is_missing_most_of_its_mass(tmp_path: Path) -> None:
    """64 leading candidates and the drawn one of 400 are kept."""
    flat = ScriptedBackend(lambda ids: np.zeros(WIDTH), TOKENS)
    one = Stepper(flat, effective("guide", {}, spec="temperature=1 >"), max_tokens=1)
    record(one, tmp_path / "run.llmi", TOKENS[0])
    with open_session(tmp_path / "run.llmi") as session, pytest.raises(TailMissing) as raised:
        chain("temperature=2 >").run_record(session.step(1), StageContext(), WIDTH)
    assert raised.value.mass == pytest.approx(1 - 65 / WIDTH)


def test_a_vocabulary_that_was_kept_whole_has_no_tail(tmp_path: Path) -> None:
    with open_session(save(tmp_path / "run.llmi", forked_run())) as session:
        step = session.step(9)
        size = len(step.top.ids)
        ids = np.arange(size, dtype=np.int32)
        whole = replace(step, top=replace(step.top, ids=ids))
        assert not isinstance(from_record(whole, size), Partial)


# --- tempo ----------------------------------------------------------------------------------------


def test_tokens_arrive_when_they_did() -> None:
    """Case 36: a prefill of 500 ms, then 100 ms a step."""
    log = RunLog()
    for one in fakes.case_36():
        log.add(one)
    arrivals = arrivals_ms(log.prompt, log.prefill, log.path(5))
    assert arrivals == [500.0, 600.0, 700.0, 800.0, 900.0]
    assert arrivals_ms(None, None, ()) == []
