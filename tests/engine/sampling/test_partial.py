"""Chains over candidates of which only the leading ones are known: what is claimed is true."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, example, given, reject, settings
from hypothesis import strategies as st

from engine.records.arrays import FloatArray
from engine.records.partial import TopLogprobs, ends
from engine.records.step import StepRecord
from engine.records.vocabulary import Token
from engine.sampling.chain import (
    PRESETS,
    Candidates,
    Chain,
    Ladder,
    SamplingError,
    build,
    parse_spec,
)
from engine.sampling.draw import draw
from engine.sampling.partial import Partial, SignMissing, TailMissing, from_record
from engine.sampling.stages import StageContext
from tests import fakes

CONTEXT = StageContext(prompt_ids=(0, 3, 5), output_ids=(7, 3, 9, 3), stop_ids=frozenset({4}))


def record(logits: FloatArray, rows: int, also: tuple[int, ...] = ()) -> StepRecord:
    """A step of these logits that holds the leading ``rows`` of them, and the ids in ``also``."""
    model = Candidates.from_logits(logits)
    table = Ladder(model, (), ()).table(rows, lambda one: Token(one, b"%d" % one), also)
    return fakes.step(
        1, fakes.timing(1.0), fakes.kv(1), top=table, log_z_raw=model.log_z, stages=()
    )


def chain(spec: str, preset: str = "guide") -> Chain:
    return build(*parse_spec(spec, preset), preset)


def agrees(logits: FloatArray, step: StepRecord, one: Chain) -> bool:
    """Whether exactness is claimed; then asserts it."""
    try:
        ours = one.run_record(step, CONTEXT, logits.size)
    except TailMissing:
        return False
    truth = one.run(logits, CONTEXT)
    assert ours.final.ids.tolist() == truth.final.ids.tolist()
    np.testing.assert_allclose(ours.final.probs, truth.final.probs, rtol=2e-6)
    drawn = one.choose(truth, CONTEXT)
    assert one.choose(ours, CONTEXT).token_id == drawn.token_id
    return True


def settled(step: StepRecord, one: Chain, context: StageContext, size: int) -> bool:
    """Whether all that the chain can leave is in the record, and for certain the same."""
    ladder = one.run_from(from_record(step, size), context)
    return not isinstance(ladder.final, Partial)


# --- always ---------------------------------------------------------------------------------------

STAGES = (
    "temperature=0",
    "temperature=0.4",
    "temperature=0.9",
    "temperature=1.6",
    "temperature=4",
    "temperature=1 dynatemp_range=0.5",
    "top_k=3",
    "top_k=8",
    "top_k=12",
    "top_k=30",
    "top_p=0.3",
    "top_p=0.75",
    "top_p=0.95",
    "min_p=0.02",
    "min_p=0.3",
    "epsilon_cutoff=0.005",
    "epsilon_cutoff=0.05",
    "eta_cutoff=0.01",
    "top_n_sigma=1",
    "top_h=0.4",
    "typical_p=0.6",
    "xtc_probability=1 xtc_threshold=0.05",
    "mirostat_tau=2",
    "repetition_penalty=1.4",
    "repetition_penalty=0.7",
    "frequency_penalty=0.8 presence_penalty=0.5",
    "frequency_penalty=-1.5",
    "dry_multiplier=1 dry_allowed_length=1",
    "logit_bias='3:2, 40:-3'",
    "logit_bias=55:4",
    "suppress='1, 2, 50'",
    "bad_words='3 9, 8'",
    "no_repeat_ngram_size=2",
    "min_new_tokens=9",
)
CHAINS = st.lists(st.sampled_from(STAGES), min_size=1, max_size=5)
VECTORS = st.tuples(
    st.integers(0, 2**32 - 1),
    st.floats(0.2, 6.0),
    # As coarse as bfloat16 is among large logits: many ties, also at the end of the table.
    st.sampled_from([0.0, 0.125, 0.5]),
    st.sampled_from(["normal", "head", "plateau", "falling"]),
)


def vector(seed: int, spread: float, grain: float, shape: str, size: int = 60) -> FloatArray:
    """Logits of which the tail is thin, thick, flat, or neither."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0.0, spread, size)
    if shape == "head":
        logits[rng.choice(size, 6, replace=False)] += 5.0
    elif shape == "plateau":
        logits[rng.choice(size, 30, replace=False)] = float(np.sort(logits)[-9])
    elif shape == "falling":
        logits = -spread * 0.1 * rng.permutation(size)
    if grain:
        logits = np.round(logits / grain) * grain
    return logits.astype(np.float32)


@settings(deadline=None, max_examples=400)
@given(VECTORS, CHAINS, st.sampled_from(sorted(PRESETS)), st.integers(1, 20), st.booleans())
@example((0, 1.0, 0.0, "plateau"), ["top_k=30", "temperature=4", "top_p=0.3"], "guide", 8, False)
def test_what_is_called_exact_is_exact(
    kind: tuple[int, float, float, str], parts: list[str], preset: str, rows: int, also: bool
) -> None:
    logits = vector(*kind)
    stages = tuple(stage for part in parts for stage in chain(f"{part} >", preset).stages)
    one = Chain(stages, preset)
    step = record(logits, rows, (41, 7) if also else ())
    try:
        agrees(logits, step, one)
    except SamplingError:
        # Nothing is left: not of the whole vector either.
        with pytest.raises(SamplingError):
            one.run(logits, CONTEXT)


@settings(deadline=None, max_examples=300)
@given(VECTORS, st.sampled_from([one for one in STAGES if "top_k" in one]), CHAINS)
def test_a_chain_that_keeps_few_is_always_exact(
    kind: tuple[int, float, float, str], first: str, after: list[str]
) -> None:
    """What a count of the leading candidates leaves is exact whatever comes after it."""
    logits = vector(*kind)
    count = int(first.partition("=")[2])
    assume(np.sort(logits)[-count] > np.sort(logits)[-count - 2])
    one = Chain(tuple(stage for part in (first, *after) for stage in chain(f"{part} >").stages))
    try:
        one.run(logits, CONTEXT)
    except SamplingError:
        reject()
    assert agrees(logits, record(logits, count + 2), one)


# --- from the 20 likeliest alone ----------------------------------------------------------------

KNOWN = 20


def logprobs_of(logits: FloatArray) -> FloatArray:
    """A server's log-probabilities, float32: equal ones may have been different logits."""
    return (logits.astype(np.float64) - Candidates.from_logits(logits).log_z).astype(np.float32)


def top_of(logprobs: FloatArray, count: int = KNOWN) -> TopLogprobs:
    """What it sends of them."""
    model = Candidates.from_logits(logprobs)
    at = model.order(count)[:count]
    return TopLogprobs(model.ids[at], model.logits[at], logprobs.size)


def holds(figure: float, truth: float, slack: float = 2e-5) -> bool:
    """Whether a figure, an interval or a number claimed to be exact, is true within float32."""
    low, high = ends(figure)
    return low - slack * max(1.0, abs(truth)) <= truth <= high + slack * max(1.0, abs(truth))


def top_claims(logprobs: FloatArray, one: Chain) -> bool:
    """Assert every claim about ``one`` from the 20 likeliest; True if its end is exact."""
    every = np.arange(logprobs.size, dtype=np.int32)
    ours, truth = one.run(top_of(logprobs), CONTEXT), one.run(logprobs, CONTEXT)
    assert holds(ours.model.varentropy, truth.model.varentropy, 2e-4)
    levels = zip((ours.model, *ours.after), (truth.model, *truth.after), strict=True)
    for level, true in levels:
        assert holds(level.survivors, len(true), 0.0)
        assert holds(level.entropy, true.entropy)
        assert holds(level.log_z, true.log_z)
        assert set(level.ids.tolist()) <= set(true.ids.tolist())
        assert set(true.ids.tolist()) <= set(every[level.possible(every)].tolist())
        probs = level.probs_of(every)
        low, high = level.prob_bounds(every) if isinstance(level, Partial) else (probs, probs)
        exact = true.probs_of(every)
        assert (low - 2e-5 <= exact).all()
        assert (exact <= high + 2e-5).all()
    for mine, trace in zip(ours.traces, truth.traces, strict=True):
        assert holds(mine.mass_removed, trace.mass_removed)
        assert holds(mine.entropy_before, trace.entropy_before)
    try:
        drawn = one.choose(ours, CONTEXT)
    except (SignMissing, TailMissing):
        assert isinstance(ours.final, Partial)
        return False
    expected = one.choose(truth, CONTEXT)
    assert (drawn.token_id, drawn.u) == (expected.token_id, expected.u)
    assert holds(drawn.low, expected.low)
    assert holds(drawn.high, expected.high)
    return not isinstance(ours.final, Partial)


@settings(deadline=None, max_examples=400)
@given(
    VECTORS,
    st.sampled_from([60, 400]),
    st.lists(st.sampled_from([*STAGES, "top_p=0.1"]), max_size=5),
    st.sampled_from(sorted(PRESETS)),
)
@example(
    (207449902, 5.55957955072854, 0.5, "plateau"),
    60,
    ["min_p=0.02", "no_repeat_ngram_size=2", "frequency_penalty=-1.5"],
    "sglang",
)
def test_intervals_hold_the_figures_of_the_whole_row(
    kind: tuple[int, float, float, str], size: int, parts: list[str], preset: str
) -> None:
    logprobs = logprobs_of(vector(*kind, size))
    stages = tuple(stage for part in parts for stage in chain(f"{part} >", preset).stages)
    one = Chain(stages, preset)
    try:
        top_claims(logprobs, one)
    except SamplingError:
        with pytest.raises(SamplingError):
            one.run(logprobs, CONTEXT)


# --- in detail ------------------------------------------------------------------------------------


def plateau(size: int = 100) -> FloatArray:
    """Two likely tokens, and a tail of which nearly all the mass lies in 40 equal tokens."""
    logits = np.full(size, -9.0)
    logits[0], logits[1] = 3.0, 2.5
    logits[2:42] = 0.0
    return logits.astype(np.float32)


def test_a_tail_between_the_even_and_the_peaked_one_is_not_overlooked() -> None:
    """40 equal tokens of a cut tail weigh more, once flattened, than either completion's."""
    logits = plateau()
    step = record(logits, 4)
    one = chain("top_k=42 > temperature=3 > top_p=0.08")
    # The likeliest has exp(1) of exp(1) + exp(2.5 / 3) + 40 = 45.0 equal parts: 6.0%, too little.
    assert one.run(logits, CONTEXT).final.ids.tolist() == [0, 1]
    assert not settled(step, one, CONTEXT, logits.size)
    assert agrees(logits, step, chain("top_k=42 > temperature=3 > top_p=0.01"))


def test_a_watched_token_from_further_down_is_no_end_of_the_table() -> None:
    """Rank 6 recorded beside the first four and another: what lies at rank 5 is not known."""
    logits = np.array([5.0, 4.0, 3.0, 2.0, 1.9, -1.0, -2.0, -3.0], np.float32)
    step = record(logits, 4, also=(7, 5))
    assert step.top.ranks.tolist() == [1, 2, 3, 4, 8, 6]
    assert not settled(step, chain("top_k=5 >"), CONTEXT, logits.size)
    assert not settled(step, chain("top_k=5 >", "vllm"), CONTEXT, logits.size)
    assert agrees(logits, step, chain("top_k=3 >"))


def test_a_tie_behind_the_table_matters_where_ties_are_kept() -> None:
    logits = np.array([5.0, 4.0, 3.0, 3.0, 1.0], np.float32)
    step = record(logits, 3)
    kept_all, by_count = chain("top_k=3 >", "hf"), chain("top_k=3 >", "llamacpp")
    assert kept_all.run(logits, CONTEXT).final.ids.tolist() == [0, 1, 2, 3]
    assert not settled(step, kept_all, CONTEXT, logits.size)
    assert by_count.run(logits, CONTEXT).final.ids.tolist() == [0, 1, 2]
    assert agrees(logits, step, by_count)


@pytest.mark.parametrize(
    ("spec", "exact"),
    [
        ("logit_bias='1:2' > top_k=1 > temperature=1", True),
        ("logit_bias='90:1' > top_k=1 > temperature=1", True),  # to 1 at the most
        ("logit_bias='90:20' > top_k=1 > temperature=1", False),
        ("frequency_penalty=-0.5 > top_k=1 > temperature=1", True),
        ("frequency_penalty=-5 > top_k=1 > temperature=1", False),  # token 3 came twice
        ("repetition_penalty=3 > top_k=2 > temperature=1", True),  # token 0 falls to 1.0
        ("suppress='0, 1' > top_k=1 > temperature=1", False),
    ],
)
def test_what_is_done_to_single_tokens(spec: str, exact: bool) -> None:
    logits = plateau()
    assert agrees(logits, record(logits, 3), chain(spec)) is exact


def test_what_is_missing_is_said() -> None:
    logits = np.log(np.array([0.5, 0.25, 0.125, 0.0625, 0.0625])).astype(np.float32)
    step = record(logits, 2)
    with pytest.raises(TailMissing) as refusal:
        chain("temperature=2 >").run_record(step, CONTEXT, 5)
    assert refusal.value.mass == pytest.approx(0.25)
    assert str(refusal.value) == (
        "25.0% of the mass is not in the record's 2 candidates, "
        "and these settings may keep some of it"
    )


def test_probabilities_that_add_up_to_more_than_1_leave_a_draw_near_a_border_open() -> None:
    """llama.cpp's sum in float32 over 49,152 tokens: 1.0002. No u may be drawn by its first 64."""
    rng = np.random.default_rng(5)
    logits = rng.normal(0.0, 2.5, 49_152).astype(np.float32)
    over = (logprobs_of(logits).astype(np.float64) + 2e-4).astype(np.float32)
    ours = chain("temperature=1 >").run(top_of(over, 64), CONTEXT).final
    truth = chain("temperature=1 >").run(logits, CONTEXT).final
    assert isinstance(ours, Partial)
    decided = 0
    for border in np.cumsum(truth.probs[truth.order()])[:60]:
        for u in (border * (1 - 3e-4), border * (1 - 1e-4), border * (1 + 1e-4), border - 1e-3):
            token_id = draw(truth, u).token_id
            try:
                found = ours.drawn(float(u))[0]
            except TailMissing:
                continue
            decided += 1
            assert found == token_id
    assert decided > 5
