"""Engines that are asked by token ids: rows, slots, more candidates on demand, the engine's clock."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from engine.backends.abilities import Widening
from engine.backends.base import BackendError
from engine.backends.top_n.backend import TopBackend
from engine.backends.top_n.completer import Abilities
from engine.backends.top_n.room import more_room
from engine.backends.top_n.rows import missing_mass, top_logprobs
from engine.backends.top_n.slots import Slots
from engine.commands import Open
from engine.drafts.active import Drafts
from engine.progress import silent
from engine.records.arrays import FloatArray
from engine.records.engine import EngineTimes
from engine.records.partial import Interval, TopLogprobs
from engine.records.round import DraftSettings
from engine.run.stepper import Stepper
from engine.sampling.chain import effective
from engine.sampling.partial import SignMissing, TailMissing
from engine.timing import now_ms
from tests.asked_engine import AskedEngine, asked_backend
from tests.top_backend import WIDTH, scripted, words

# --- rows ---------------------------------------------------------------------------------------


def test_a_row_is_sorted_and_cut_to_what_was_asked_for() -> None:
    """vLLM adds the token that it chose: far down, it is no bound on the others."""
    row = top_logprobs([7, 3, 5, 9], [-2.0, -0.5, -9.0, -2.0], count=3, vocab_size=10)
    assert row.ids.tolist() == [3, 7, 9]
    assert row.logprobs.tolist() == [-0.5, -2.0, -2.0]


def test_the_mass_that_a_row_lacks_is_what_is_left_of_1() -> None:
    row = top_logprobs([0, 1], [math.log(0.5), math.log(0.25)], count=5, vocab_size=10)
    assert missing_mass(row) == pytest.approx(0.25, abs=1e-6)


def test_a_probability_of_0_is_minus_infinity_however_it_is_written() -> None:
    row = top_logprobs([0, 1, 2], [0.0, -3.4028234663852886e38, -math.inf], count=3, vocab_size=3)
    assert row.logprobs.tolist() == [0.0, -math.inf, -math.inf]


@pytest.mark.parametrize(
    ("ids", "logprobs", "said"),
    [
        ([], [], "gave 0 ids and 0 log-probabilities"),
        ([1], [-1.0, -2.0], "gave 1 ids and 2 log-probabilities"),
        ([1, 1], [-1.0, -2.0], "names a token twice"),
        ([1, 10], [-1.0, -2.0], r"outside 0\.\.9"),
        ([-1, 2], [-1.0, -2.0], r"outside 0\.\.9"),
        ([1, 2], [math.nan, -2.0], "hold NaN"),
        ([1, 2], [0.5, -2.0], "a probability above 1"),
        ([1, 2], [-0.1, -0.1], "add up to more than 1"),
        ([1, 2], ["x", -2.0], "are no numbers"),
        ([1, 2], [None, {}], "are no numbers"),
        ([2**70, 2], [-1.0, -2.0], "are no numbers"),
    ],
)
def test_what_is_no_distribution_is_refused_in_one_line(
    ids: list[int], logprobs: list[float], said: str
) -> None:
    with pytest.raises(BackendError, match=said):
        top_logprobs(ids, logprobs, count=5, vocab_size=10)


# --- slots --------------------------------------------------------------------------------------


def test_a_step_back_stays_in_its_slot_and_a_fork_far_up_takes_another() -> None:
    slots = Slots(2)
    long = list(range(100))
    first, held = slots.pick(long)
    assert (first.number, held) == (0, 0)
    slots.read(first, long)
    near = [*long[:97], 500]
    assert slots.pick(near) == (first, 97)
    far = [*long[:10], 500]
    other, held = slots.pick(far)
    assert (other.number, held) == (1, 0)
    slots.read(other, far)
    # Both branches are gone on with where they are.
    assert slots.pick([*long, 7])[0] is first
    assert slots.pick([*far, 7])[0] is other
    assert slots.longest([*long[:50], 3]) == 50


def test_with_one_slot_everything_is_read_there() -> None:
    slots = Slots(1)
    only, _ = slots.pick([1, 2, 3])
    slots.read(only, [1, 2, 3])
    assert slots.pick([9]) == (only, 0)
    slots.lose(only)
    assert slots.longest([1, 2, 3]) == 0


@dataclass
class Room:
    """A cache of 512 positions, 2,048 at the most, for runs of 100 tokens."""

    room: int = 512
    most: int = 2048
    spare: int = 100

    def grow(self, positions: int) -> None:
        self.room = positions


def test_room_is_made_for_a_text_its_run_and_its_branches() -> None:
    slots, text = Slots(2), list(range(600))
    assert more_room(Room(), slots, text[:400], 400) is None
    # Nothing of it is held: with what the run will write it is too long.
    assert more_room(Room(), slots, text[:413], 413) == 768
    slots.read(slots.pick(text[:412])[0], text[:412])
    # Now something would be lost: only when it does not fit.
    assert more_room(Room(), slots, text[:512], 512) is None
    assert more_room(Room(), slots, text[:513], 513) == 768
    # A branch of the same text is kept beside it; another text is not.
    assert more_room(Room(), slots, [*text[:20], 7], 21) == 768
    assert more_room(Room(), slots, [1, 2], 21) is None
    assert more_room(Room(), slots, [1, 2], 5000) == 2048
    assert more_room(Room(room=2048), slots, [1, 2], 5000) is None


# --- the backend --------------------------------------------------------------------------------

OPEN = "temperature=0.8 >"


def stepper(
    spec: str, *, top: int = 20, abilities: Abilities | None = None, seed: int = 0
) -> tuple[Stepper, AskedEngine]:
    more = {} if abilities is None else {"abilities": abilities}
    backend, engine = asked_backend(scripted(), words, top=top, **more)
    made = Stepper(backend, effective("guide", {}, spec=spec), seed=seed, max_tokens=8)
    made.submit(" w1 w2 w3 w4")
    return made, engine


@pytest.mark.parametrize("seed", range(8))
def test_a_draw_behind_what_is_known_asks_for_more_and_is_the_whole_vocabulary_s(seed: int) -> None:
    """20 of 300 tokens, no truncation: sooner or later u falls behind them."""
    made, engine = stepper(OPEN, seed=seed)
    truth = Stepper(scripted(), effective("guide", {}, spec=OPEN), seed=seed, max_tokens=8)
    truth.submit(" w1 w2 w3 w4")
    ours, theirs = list(made.run()), list(truth.run())
    assert [one.token for one in ours] == [one.token for one in theirs]
    assert [one.draw.u for one in ours] == [one.draw.u for one in theirs]
    for one, true in zip(ours, theirs, strict=True):
        if not isinstance(one.entropy_raw, Interval):
            # It was asked for twice; what the prompt's request took is in the prompt's record.
            assert one.timing.engine is not None
            assert one.timing.engine.requests == (1 if one.parent == 0 else 2)
            assert one.final_prob == pytest.approx(true.final_prob, rel=1e-5)
            assert one.rank == true.rank
    assert {top for _, top, _, _ in engine.asked} == {20, WIDTH}


def test_where_no_more_can_be_had_the_step_says_so_and_nothing_is_made_up() -> None:
    made, engine = stepper(OPEN, abilities=Abilities(most_top=20))
    with pytest.raises(TailMissing, match=r"force a token.*tells at most 20 tokens"):
        list(made.run())
    nodes = len(made.nodes)
    engine.abilities = Abilities()
    made.step()
    assert len(made.nodes) == nodes + 1


def test_the_whole_vocabulary_is_fetched_for_one_node() -> None:
    made, engine = stepper("top_k=5 > temperature=1")
    made.step()
    found = made.dense(1)
    logits = words(made.path_ids(0))
    expected = logits - np.logaddexp.reduce(logits.astype(np.float64))
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert engine.asked[-1][1] == WIDTH


def test_a_sign_is_not_known_of_the_whole_vocabulary_s_log_probabilities_either() -> None:
    """All 300 fetched, a repetition penalty would still multiply where it should divide."""
    made, engine = stepper("repetition_penalty=1.3 > temperature=1", top=WIDTH)
    with pytest.raises(SignMissing, match=r"stage repetition_penalty=1\.3"):
        made.step()
    assert len(engine.asked) == 1
    truth = Stepper(scripted(), effective("guide", {}, spec="frequency_penalty=1 >"))
    truth.submit(" w1 w2 w3 w4")
    made.settings = effective("guide", {}, spec="frequency_penalty=1 >")
    assert made.step().token == truth.step().token


def test_a_record_of_all_log_probabilities_says_that_they_are_no_logits() -> None:
    made, _ = stepper("top_k=5 > temperature=1", top=WIDTH)
    step = made.step()
    assert step.top.slack is not None
    assert not step.top.slack.any()
    assert not isinstance(step.entropy_raw, Interval)


def test_the_engine_s_own_clock_and_counters_are_in_the_records() -> None:
    made, _ = stepper("top_k=5 > temperature=1")
    steps = list(made.run())[:3]
    assert made.prefill_record is not None
    chunk = made.prefill_record.chunks[0]
    assert chunk.engine == EngineTimes(0, 4, 2.0, 0.5, 0.25)
    assert steps[1].timing.engine == EngineTimes(4, 1, 2.0, 0.5, 0.25)
    assert (steps[1].kv.computed, steps[1].kv.cached) == (1, 4)
    assert EngineTimes(4, 1, 2.0, 0.5, 0.25).own_ms == 2.5
    assert EngineTimes(4, 1).own_ms is None


def test_what_the_engine_computed_again_is_what_its_record_says() -> None:
    """Somebody else used the slot meanwhile: the engine reads all six ids, not one."""
    made, engine = stepper("top_k=5 > temperature=1")
    made.step()
    made.step()
    engine.held.clear()
    step = made.step()
    assert (step.kv.computed, step.kv.cached) == (6, 0)


def test_a_failed_request_leaves_the_run_as_it_was() -> None:
    made, engine = stepper("top_k=5 > temperature=1")
    made.step()
    made.step()
    engine.fails = True
    with pytest.raises(BackendError, match="does not answer"):
        made.step()
    assert len(made.nodes) == 2
    engine.fails = False
    assert made.step().position == 6


def test_a_fork_at_the_prompt_leaves_the_first_branch_in_its_slot() -> None:
    made, engine = stepper("top_k=20 > temperature=1")
    for _ in range(7):
        made.step()
    other = made.extend(0, force=9)
    made.extend(other.node)
    slot = engine.asked[-1][2]
    assert slot != engine.asked[0][2]
    made.extend(7)
    assert made.nodes[len(made.nodes)].kv.computed == 1


def test_drafts_are_verified_by_prompt_log_probabilities_where_there_are_any() -> None:
    for able in (False, True):
        backend, engine = asked_backend(
            scripted(), words, abilities=Abilities(prompt_logprobs=able)
        )
        found = backend.forward([(backend.sequence, [1, 2, 3])], all_positions=True)
        known = found.known
        assert isinstance(known, TopLogprobs)
        assert known.ids.shape == (3, 20)
        for at, row in enumerate(known.ids):
            assert row[0] == int(words([1, 2, 3][: at + 1]).argmax())
        assert len(engine.asked) == 3


def test_it_is_asked_for_more() -> None:
    backend, _ = asked_backend(scripted(), words)
    assert isinstance(backend, TopBackend)
    assert isinstance(backend, Widening)


# --- rows that come ahead -----------------------------------------------------------------------


def greedy(tokens: int = 30) -> tuple[Stepper, AskedEngine]:
    made, engine = stepper("temperature=0 >")
    made.max_tokens = tokens
    return made, engine


def test_a_greedy_run_takes_the_same_tokens_from_fewer_requests() -> None:
    made, engine = greedy()
    truth = Stepper(scripted(), effective("guide", {}, spec="temperature=0 >"), max_tokens=30)
    truth.submit(" w1 w2 w3 w4")
    ours = list(made.run())
    assert [one.token for one in ours] == [one.token for one in truth.run()]
    # The prompt's and two by themselves, then 2, 4, 8 and 16 rows a request.
    assert engine.requests < 10 < len(ours)
    ahead = [one for one in ours if one.timing.engine is not None and one.timing.engine.ahead]
    assert len(ahead) == len(ours) - engine.requests


def test_times_of_rows_that_came_ahead_add_up_to_what_passed() -> None:
    """A request's time is shared out: no step seems to cost nothing, and none to cost all."""
    made, engine = greedy()
    started = now_ms()
    steps = list(made.run())
    passed = now_ms() - started
    # What came ahead and was never asked for is missing.
    assert 0.2 * passed < sum(one.timing.total_ms for one in steps) <= passed
    for one in steps[1:]:
        timing = one.timing
        parts = timing.forward_ms + timing.sample_ms + timing.detokenize_ms + timing.other_ms
        assert parts == pytest.approx(timing.total_ms, abs=0.05)
        assert timing.forward_ms > 0.0
    assert engine.requests < len(steps)


def test_another_token_drops_what_came_ahead() -> None:
    made, _ = greedy()
    for _ in range(12):
        made.step()
    forced = made.extend(12, force=77)
    step = made.extend(forced.node)
    assert step.token.id == int(words([*made.path_ids(12), 77]).argmax())
    # And a step back over a row that was given out asks for it again.
    again = made.extend(8, force=5)
    assert made.extend(again.node).token.id == int(words([*made.path_ids(8), 5]).argmax())


def test_behind_the_end_of_a_text_nothing_is_fetched() -> None:
    end = WIDTH - 1

    def ending(ids: Sequence[int]) -> FloatArray:
        logits = words(ids).copy()
        logits[end] = 50.0 if len(ids) == 35 else -50.0
        return logits

    backend, engine = asked_backend(scripted(), ending, ends=(end,))
    made = Stepper(backend, effective("guide", {}, spec="temperature=0 >"), max_tokens=100)
    made.submit(" w1 w2 w3 w4")
    steps = list(made.run())
    assert steps[-1].token.id == end
    backend.close()
    assert max(length for length, _, _, _ in engine.asked) == 35


def test_a_run_that_draws_gets_nothing_ahead() -> None:
    made, engine = stepper("top_k=10 > temperature=1")
    steps = list(made.run())
    assert engine.requests == len(steps)
    assert not any(one.timing.engine and one.timing.engine.ahead for one in steps)


def test_a_draft_is_refused_before_it_is_needed() -> None:
    backend, _ = asked_backend(scripted(), words)
    drafts = Drafts(silent)
    drafts.attach(backend, Open("asked"))
    with pytest.raises(BackendError, match="the engine asked tells the 20 likeliest tokens"):
        drafts.use(DraftSettings("ngram:3"))
    assert drafts.speculation is None
