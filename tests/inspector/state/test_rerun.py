"""Chains run again: over whole logits, and over a record's head as far as that decides."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.records.events import RunState, StateChanged
from engine.records.partial import Interval, ends
from engine.sampling.candidates import SamplingError
from engine.sampling.partial import Partial, TailMissing, from_record
from engine.sampling.stages import StageContext
from inspector.state.candidates import Recorded, Whole
from inspector.state.rerun import WAITING, Run, context_of, rerun, run, what_if
from inspector.state.view import View
from inspector.state.whatif import chain_of
from tests import fake_runs

SIZE = 300
WORDS = [f"w{number}" for number in range(SIZE)]


def falling(rate: float) -> list[float]:
    """Probabilities that fall by a constant rate; the record holds the first 64 of 300."""
    weights = rate ** np.arange(SIZE)
    return list(weights / weights.sum())


def view_of(
    probabilities: list[float],
    spec: str = "temperature=0.8 > top_k=40 > top_p=0.95",
    **more: object,
) -> View:
    return fake_runs.run(WORDS, probabilities, spec=spec, **more)  # type: ignore[arg-type]


def tried(view: View, spec: str, preset: str = "guide") -> View:
    return View(view.log, view.cursor, chain_of(spec, preset))


def outcome(view: View) -> Run:
    found = what_if(view)
    assert isinstance(found, Run), found
    return found


# --- what the record decides ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "spec",
    [
        "temperature=1.4 > top_k=12 > top_p=0.95",
        "top_k=40 > typical_p=0.5 > temperature=3",
        "temperature=0 >",
        "min_p=0.1 > temperature=0.7",
        "temperature=1 > top_p=0.5",
        "temperature=0.5 > top_p=0.9",
        "repetition_penalty=1.5 frequency_penalty=1 > top_k=9 > temperature=0.8",
        "epsilon_cutoff=0.01 > xtc_probability=1 xtc_threshold=0.02 > temperature=2",
    ],
)
def test_a_chain_that_keeps_nothing_but_the_head_is_exact(spec: str) -> None:
    known = view_of(falling(0.9), forces=[None] * 3)
    whole = view_of(falling(0.9), forces=[None] * 3, dense=True)
    ours, exact = outcome(tried(known, spec)), outcome(tried(whole, spec))
    assert isinstance(ours.candidates, Recorded)
    assert isinstance(exact.candidates, Whole)
    assert ours.ladder.final.ids.tolist() == exact.ladder.final.ids.tolist()
    assert ours.ladder.final.probs == pytest.approx(exact.ladder.final.probs, rel=1e-6)
    assert ours.draw.token_id == exact.draw.token_id
    assert (ours.draw.low, ours.draw.high) == pytest.approx((exact.draw.low, exact.draw.high))
    for row in range(len(ours.candidates)):
        one, other = ours.candidates[row], exact.candidates[row]
        assert (one.token_id, one.cut_by) == (other.token_id, other.cut_by)
        for mine, true in zip(one.probs, other.probs, strict=True):
            assert ends(mine)[0] - 1e-6 <= true <= ends(mine)[1] + 1e-6


@pytest.mark.parametrize(
    "spec",
    [
        "temperature=1 > top_k=0 > top_p=1",
        "temperature=1 > top_k=100",
        "temperature=5 > top_p=0.9",
        "top_n_sigma=1 > temperature=1",  # a deviation over all ids
        "typical_p=0.2 > temperature=1",  # an entropy over all ids
        "logit_bias=299:20 > top_k=5 > temperature=1",  # lifts an id that is not recorded
        "frequency_penalty=-2 > top_k=5 > temperature=1",  # lifts the token before
        "min_p=0.0001 > temperature=1",
    ],
)
def test_a_chain_that_may_keep_more_says_how_much_is_missing(spec: str) -> None:
    view = tried(view_of(falling(0.97), forces=[250, None]), spec)
    found = what_if(view)
    assert isinstance(found, str)
    assert found == (
        "14.2% of the mass is not in the record's 64 candidates, "
        "and these settings may keep some of it"
    )
    assert view.step is not None
    missing = from_record(view.step, SIZE)
    assert isinstance(missing, Partial)
    assert float(missing.unknown_share) == pytest.approx(0.97**64, rel=1e-3)


def test_what_lifts_recorded_tokens_alone_is_exact() -> None:
    view = tried(view_of(falling(0.97), forces=[2, None]), "frequency_penalty=-2 > top_k=5 >")
    assert outcome(view).ladder.final.ids.tolist() == [0, 1, 2, 3, 4]


SPECS = st.lists(
    st.sampled_from(
        [
            "temperature=0.5",
            "temperature=1.7",
            "top_k=20",
            "top_k=63",
            "top_p=0.6",
            "min_p=0.05",
            "epsilon_cutoff=0.004",
            "repetition_penalty=1.4",
            "dry_multiplier=1",
            "typical_p=0.7",
            "suppress=2",
        ]
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda text: text.partition("=")[0],
)


@settings(deadline=None, max_examples=60)
@given(SPECS, st.integers(0, 2**32 - 1), st.floats(0.5, 4.0))
def test_what_the_head_decides_is_what_the_whole_gives(
    parts: list[str], seed: int, spread: float
) -> None:
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, spread, SIZE)
    weights = np.exp(logits - logits.max())
    view = view_of(list(weights / weights.sum()), "temperature=1 > top_k=30", dense=True)
    assert view.step is not None
    assert view.dense is not None
    chain = chain_of(" > ".join(parts) + (" >" if len(parts) == 1 else ""), "guide")
    context = context_of(view, view.step)
    try:
        low = chain.run_record(view.step, context, SIZE)
    except TailMissing:
        return
    exact = chain.run(view.dense.logits, context)
    assert low.final.ids.tolist() == exact.final.ids.tolist()
    assert low.final.probs == pytest.approx(exact.final.probs, rel=1e-5)


def test_a_table_that_holds_every_id_decides_everything() -> None:
    view = fake_runs.run("abcdef", spec="temperature=1 >", forces=[None])
    found = outcome(tried(view, "top_n_sigma=1 > typical_p=0.5 > temperature=3"))
    assert isinstance(found.candidates, Recorded)
    assert all(
        not isinstance(one, Interval) for row in range(6) for one in found.candidates[row].probs
    )


# --- over whole logits ----------------------------------------------------------------------------


def test_the_same_dice_and_the_same_history() -> None:
    view = view_of(falling(0.9), forces=[None, None], dense=True, seed=5)
    step = view.step
    assert step is not None
    found = outcome(tried(view, "temperature=0.8 > top_k=40 > top_p=0.94"))
    assert found.draw.u == step.draw.u
    assert found.context == StageContext(
        prompt_ids=(0,),
        output_ids=(view.path[0].token.id,),
        seed=5,
        vocabulary=view.log.vocabulary,
    )


def test_what_was_run_once_is_not_run_again() -> None:
    view = view_of(falling(0.9), dense=True)
    other = chain_of("temperature=2 > top_k=7", "guide")
    first = run(View(view.log, view.cursor, other), other)
    assert run(View(view.log, view.cursor), other) is first


def test_the_recorded_chain_is_no_what_if() -> None:
    view = view_of(falling(0.9), dense=True)
    assert what_if(tried(view, "temperature=0.8 > top_k=40 > top_p=0.95")) is None
    assert what_if(View(view.log, view.cursor)) is None
    assert what_if(tried(view_of(falling(0.9), forces=[]), "temperature=2 >")) is None


def test_nothing_is_computed_while_the_engine_runs() -> None:
    view = tried(view_of(falling(0.9), dense=True), "temperature=2 > top_k=7")
    view.log.add(StateChanged(RunState.RUNNING))
    assert what_if(view) == WAITING


def test_a_stage_that_leaves_nothing_is_said_to() -> None:
    # suppress forbids the only token of a model that knows two
    view = fake_runs.run("ab", [1.0, 0.0], dense=True)
    found = what_if(tried(view, "suppress=0 > temperature=1"))
    assert found == "stage suppress=0: no token is left"


def test_mirostats_state_is_the_records() -> None:
    spec = "temperature=1 > mirostat_tau=2 mirostat_eta=0.5"
    view = view_of(falling(0.8), spec, forces=[None] * 4, dense=True)
    assert rerun(view).ladder.traces[1].survivors == view.step.stages[1].survivors  # type: ignore[union-attr]
    assert rerun(view).context.state == view.path[-2].state
    assert view.path[-2].state["mirostat"] != 4.0


def test_there_is_nothing_to_run_at_the_prompt() -> None:
    view = view_of(falling(0.9), forces=[])
    for attempt in (lambda: rerun(view), lambda: run(view, chain_of("temperature=1 >", "guide"))):
        with pytest.raises(SamplingError, match="no token was drawn here"):
            attempt()
